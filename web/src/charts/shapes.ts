/** Lines and bands of a chart. A gap in the values is a gap in the drawing. */
import { area, line } from "d3-shape";

export interface Point {
  x: number;
  y: number | null; // null: not measured
}

export interface BandPoint {
  x: number;
  low: number | null;
  high: number | null;
}

/** The path through the points, in pixels. */
export function linePath(points: readonly Point[]): string {
  return line<Point>(({ x }) => x, ({ y }) => y ?? 0).defined(({ y }) => y !== null).digits(2)([...points]) ?? "";
}

/** The outline of the area between two values at each place, in pixels. */
export function bandPath(points: readonly BandPoint[]): string {
  return area<BandPoint>(({ x }) => x, ({ low }) => low ?? 0, ({ high }) => high ?? 0).defined(({ low, high }) => low !== null && high !== null).digits(2)([...points]) ?? "";
}
