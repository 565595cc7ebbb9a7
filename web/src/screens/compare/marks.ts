/** The charts of a comparison. */
import { scaleLinear, scaleSqrt } from "d3-scale";
import type { DifferenceBar, ScatterPoint } from "~/api/comparison";
import type { Chart, Ink, Mark } from "~/charts/marks";
import { numberScale, tickText, ticksOf } from "~/charts/scales";

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
  const named = (tick: number) => (yesNo && names.metric === "passed" ? (tick === 1 ? "passed" : "failed") : tickText(tick));
  const box = { left: yesNo ? 58 : 46, top: 12, right: width - 14, bottom: height - 38 };
  const inset = yesNo ? 44 : 26;
  const x = numberScale(yesNo ? [0, 1] : values, [box.left + inset, box.right - inset]);
  const y = x.copy().range([box.bottom - inset, box.top + inset]);
  const [from = 0, to = 1] = x.domain();
  for (const tick of yesNo ? [0, 1] : ticksOf(x)) {
    marks.push({ kind: "line", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), ink: "line" });
    marks.push({ kind: "line", x1: x(tick), x2: x(tick), y1: box.top, y2: box.bottom, ink: "line" });
    marks.push({ kind: "text", x: box.left - 7, y: y(tick) + 3.5, text: named(tick), anchor: "end", ink: "faint" });
    marks.push({ kind: "text", x: x(tick), y: box.bottom + 15, text: named(tick), anchor: "middle", ink: "faint" });
  }
  marks.push({ kind: "line", x1: x(from), y1: y(from), x2: x(to), y2: y(to), ink: "faint", dashed: true });
  const most = Math.max(...points.map((point) => point.cases));
  const largest = Math.min(22, (box.right - box.left) / 11);
  const radius = scaleSqrt([0, most], [0, largest]);
  for (const point of [...points].sort((one, other) => other.cases - one.cases)) {
    const gain = (point.after - point.before) * (names.lowerIsBetter ? -1 : 1);
    const title = `${tickText(point.before)} before, ${tickText(point.after)} after: ${point.id ?? casesText(point.cases)}`;
    const r = most === 1 ? 4 : Math.max(3, radius(point.cases));
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
  const falling = scaleLinear([-reach, 0], [box.left, middle - gap]);
  const rising = scaleLinear([0, reach], [middle + gap, box.right]);
  const moved = bars.filter((bar) => bar.low !== bar.high);
  const still = bars.find((bar) => bar.low === 0 && bar.high === 0);
  const most = Math.max(1, ...moved.map((bar) => bar.cases));
  const few = moved.filter((bar) => bar.cases > 0).length <= 8; // then each bar has its number
  const y = scaleLinear([0, most], [box.bottom, box.top]).nice(4);
  for (const tick of ticksOf(y).filter((one) => Number.isInteger(one))) {
    marks.push({ kind: "line", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), ink: "line" });
    marks.push({ kind: "text", x: box.left - 7, y: y(tick) + 3.5, text: tickText(tick), anchor: "end", ink: "faint" });
  }
  for (const bar of moved) {
    if (bar.cases === 0) continue;
    const rises = bar.low >= 0;
    const x = rises ? rising : falling;
    const [from, to] = [x(bar.low), x(bar.high)];
    const gain = (rises ? 1 : -1) * (names.lowerIsBetter ? -1 : 1);
    const title = `${tickText(bar.low)} to ${tickText(bar.high)}: ${casesText(bar.cases)}`;
    const height = Math.max(1.5, box.bottom - y(bar.cases));
    marks.push({ kind: "rect", x: from + 0.75, y: box.bottom - height, width: Math.max(1, to - from - 1.5), height, ink: inkOf(gain), title });
    if (few) marks.push({ kind: "text", x: rises ? to : from, y: box.bottom - height - 5, text: bar.cases.toLocaleString("en-US"), anchor: rises ? "end" : "start", ink: "text" });
  }
  marks.push({ kind: "line", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, ink: "faint" });
  marks.push({ kind: "line", x1: middle, x2: middle, y1: box.top - 4, y2: box.bottom, ink: "faint", dashed: true });
  marks.push({ kind: "text", x: middle, y: 14, text: `${casesText(still?.cases ?? 0)} without a difference`, anchor: "middle", ink: "text" });
  for (const tick of [-reach, -reach / 2, reach / 2, reach]) {
    marks.push({ kind: "text", x: (tick > 0 ? rising : falling)(tick), y: box.bottom + 15, text: `${tick > 0 ? "+" : ""}${tickText(tick)}`, anchor: tick === reach ? "end" : tick === -reach ? "start" : "middle", ink: "faint" });
  }
  marks.push({ kind: "text", x: middle, y: box.bottom + 15, text: "0", anchor: "middle", ink: "faint" });
  marks.push({ kind: "text", x: middle, y: height - 6, text: `difference of ${names.metric}, after − before`, anchor: "middle", ink: "text" });
  return { width, height, marks };
}
