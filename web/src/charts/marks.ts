/** Charts as lists of marks. One list is drawn as SVG on the page and on a canvas for the PNG, so both are the same. */

export type Ink = "text" | "faint" | "line" | "better" | "worse" | "same" | "accent" | "band";

export type Mark =
  | { kind: "line"; x1: number; y1: number; x2: number; y2: number; ink: Ink; dashed?: boolean }
  | { kind: "path"; d: string; ink: Ink; filled?: boolean }
  | { kind: "rect"; x: number; y: number; width: number; height: number; ink: Ink; title: string }
  | { kind: "circle"; x: number; y: number; r: number; ink: Ink; title: string; id?: string }
  | { kind: "text"; x: number; y: number; text: string; anchor: "start" | "middle" | "end"; ink: Ink; turned?: boolean };

export interface Chart {
  width: number;
  height: number;
  marks: Mark[];
}
