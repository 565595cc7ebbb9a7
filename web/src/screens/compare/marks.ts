/** Charts as lists of marks. One list is drawn as SVG on the page and on a canvas for the PNG, so both are the same. */
import type { DifferenceBar, ScatterPoint } from "~/api/comparison";

export type Ink = "text" | "faint" | "line" | "better" | "worse" | "same";

export type Mark =
  | { kind: "line"; x1: number; y1: number; x2: number; y2: number; ink: Ink; dashed?: boolean }
  | { kind: "rect"; x: number; y: number; width: number; height: number; ink: Ink; title: string }
  | { kind: "circle"; x: number; y: number; r: number; ink: Ink; title: string; id?: string }
  | { kind: "text"; x: number; y: number; text: string; anchor: "start" | "middle" | "end"; ink: Ink; turned?: boolean };

export interface Chart {
  width: number;
  height: number;
  marks: Mark[];
}

interface Axis {
  from: number;
  to: number;
  ticks: number[];
}

/** An axis with three to six round ticks that holds all values. */
export function axisOf(low: number, high: number): Axis {
  if (low >= 0 && high <= 1 && high - low > 0.2) return { from: 0, to: 1, ticks: [0, 0.25, 0.5, 0.75, 1] };
  const span = high - low || Math.abs(high) || 1;
  const rough = span / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  const from = Math.floor(low / step + 1e-9) * step;
  const to = Math.max(from + step, Math.ceil(high / step - 1e-9) * step);
  const ticks = Array.from({ length: Math.round((to - from) / step) + 1 }, (_, index) => from + index * step);
  return { from, to, ticks };
}

export function tickText(value: number): string {
  const text = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
  return text.replace("-", "−");
}

function casesText(count: number): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? "case" : "cases"}`;
}

export interface Names {
  before: string;
  after: string;
  metric: string;
  lowerIsBetter: boolean;
}

/** The value before against the value after. A point above the diagonal rose. The area of a point is the number of its cases. */
export function scatter(points: ScatterPoint[], names: Names, width: number, height: number): Chart {
  const marks: Mark[] = [];
  const values = points.flatMap((point) => [point.before, point.after]);
  const yesNo = values.every((value) => value === 0 || value === 1);
  const axis = yesNo ? { from: 0, to: 1, ticks: [0, 1] } : axisOf(Math.min(...values), Math.max(...values));
  const named = (tick: number) => (yesNo && names.metric === "passed" ? (tick === 1 ? "passed" : "failed") : tickText(tick));
  const box = { left: yesNo ? 58 : 46, top: 12, right: width - 14, bottom: height - 38 };
  const inset = yesNo ? 44 : 26;
  const x = (value: number) => box.left + inset + ((value - axis.from) / (axis.to - axis.from)) * (box.right - box.left - 2 * inset);
  const y = (value: number) => box.bottom - inset - ((value - axis.from) / (axis.to - axis.from)) * (box.bottom - box.top - 2 * inset);
  for (const tick of axis.ticks) {
    marks.push({ kind: "line", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), ink: "line" });
    marks.push({ kind: "line", x1: x(tick), x2: x(tick), y1: box.top, y2: box.bottom, ink: "line" });
    marks.push({ kind: "text", x: box.left - 7, y: y(tick) + 3.5, text: named(tick), anchor: "end", ink: "faint" });
    marks.push({ kind: "text", x: x(tick), y: box.bottom + 15, text: named(tick), anchor: "middle", ink: "faint" });
  }
  marks.push({ kind: "line", x1: x(axis.from), y1: y(axis.from), x2: x(axis.to), y2: y(axis.to), ink: "faint", dashed: true });
  const most = Math.max(...points.map((point) => point.cases));
  const largest = Math.min(22, (box.right - box.left) / 11);
  const radius = (cases: number) => (most === 1 ? 4 : Math.max(3, largest * Math.sqrt(cases / most)));
  for (const point of [...points].sort((one, other) => other.cases - one.cases)) {
    const gain = (point.after - point.before) * (names.lowerIsBetter ? -1 : 1);
    const title = `${tickText(point.before)} before, ${tickText(point.after)} after: ${point.id ?? casesText(point.cases)}`;
    const r = radius(point.cases);
    marks.push({ kind: "circle", x: x(point.before), y: y(point.after), r, ink: inkOf(gain), title, id: point.id });
    if (yesNo) marks.push({ kind: "text", x: x(point.before) + r + 6, y: y(point.after) + 3.5, text: point.cases.toLocaleString("en-US"), anchor: "start", ink: "text" });
  }
  marks.push({ kind: "text", x: (box.left + box.right) / 2, y: height - 6, text: `${names.metric} before`, anchor: "middle", ink: "text" });
  marks.push({ kind: "text", x: 11, y: (box.top + box.bottom) / 2, text: `${names.metric} after`, anchor: "middle", ink: "text", turned: true });
  return { width, height, marks };
}

function inkOf(gain: number): Ink {
  return gain > 0 ? "better" : gain < 0 ? "worse" : "same";
}

/** How many cases have which difference, after minus before. The bar of no difference is written above, as it hides the others. */
export function distribution(bars: DifferenceBar[], names: Names, width: number, height: number): Chart {
  const marks: Mark[] = [];
  const box = { left: 46, top: 26, right: width - 14, bottom: height - 38 };
  const reach = Math.max(...bars.map((bar) => Math.max(Math.abs(bar.low), Math.abs(bar.high))), Number.EPSILON);
  const middle = (box.left + box.right) / 2;
  const gap = 9; // beside 0, so that the smallest differences do not touch it
  const side = (box.right - box.left) / 2 - gap;
  const x = (value: number) => middle + Math.sign(value) * gap + (value / reach) * side;
  const moved = bars.filter((bar) => bar.low !== bar.high);
  const still = bars.find((bar) => bar.low === 0 && bar.high === 0);
  const most = Math.max(1, ...moved.map((bar) => bar.cases));
  const few = moved.filter((bar) => bar.cases > 0).length <= 8; // then each bar has its number
  const axis = axisOf(0, most);
  const top = axis.to <= 1 && most > 1 ? most : axis.to;
  const y = (count: number) => box.bottom - (Math.min(count, top) / top) * (box.bottom - box.top);
  for (const tick of axis.ticks.filter((one) => Number.isInteger(one))) {
    marks.push({ kind: "line", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), ink: "line" });
    marks.push({ kind: "text", x: box.left - 7, y: y(tick) + 3.5, text: tickText(tick), anchor: "end", ink: "faint" });
  }
  for (const bar of moved) {
    if (bar.cases === 0) continue;
    const rising = bar.low >= 0;
    const [from, to] = rising ? [gapX(bar.low, 1), gapX(bar.high, 1)] : [gapX(bar.low, -1), gapX(bar.high, -1)];
    const gain = (rising ? 1 : -1) * (names.lowerIsBetter ? -1 : 1);
    const title = `${tickText(bar.low)} to ${tickText(bar.high)}: ${casesText(bar.cases)}`;
    const height = Math.max(1.5, box.bottom - y(bar.cases));
    marks.push({ kind: "rect", x: from + 0.75, y: box.bottom - height, width: Math.max(1, to - from - 1.5), height, ink: inkOf(gain), title });
    if (few) marks.push({ kind: "text", x: rising ? to : from, y: box.bottom - height - 5, text: bar.cases.toLocaleString("en-US"), anchor: rising ? "end" : "start", ink: "text" });
  }
  function gapX(value: number, sign: 1 | -1): number {
    return middle + sign * gap + (value / reach) * side;
  }
  marks.push({ kind: "line", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, ink: "faint" });
  marks.push({ kind: "line", x1: middle, x2: middle, y1: box.top - 4, y2: box.bottom, ink: "faint", dashed: true });
  marks.push({ kind: "text", x: middle, y: 14, text: `${casesText(still?.cases ?? 0)} without a difference`, anchor: "middle", ink: "text" });
  for (const tick of [-reach, -reach / 2, reach / 2, reach]) {
    marks.push({ kind: "text", x: x(tick), y: box.bottom + 15, text: `${tick > 0 ? "+" : ""}${tickText(tick)}`, anchor: tick === reach ? "end" : tick === -reach ? "start" : "middle", ink: "faint" });
  }
  marks.push({ kind: "text", x: middle, y: box.bottom + 15, text: "0", anchor: "middle", ink: "faint" });
  marks.push({ kind: "text", x: middle, y: height - 6, text: `difference of ${names.metric}, after − before`, anchor: "middle", ink: "text" });
  return { width, height, marks };
}
