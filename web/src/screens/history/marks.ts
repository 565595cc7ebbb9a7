/** The charts of a history: a number of each run, oldest first, and what happened between the runs. */
import type { HistoryRow } from "~/api/history";
import type { Chart, Mark } from "~/charts/marks";
import { type NumberScale, numberScale, tickText, ticksOf, timeScale } from "~/charts/scales";
import { bandPath, linePath } from "~/charts/shapes";
import { count, moment, plural } from "~/ui/format";
import { plainText } from "~/ui/visible";

export type Spacing = "run" | "time";

export interface Measure {
  name: string;
  value: (row: HistoryRow) => number | null;
  low?: (row: HistoryRow) => number | null;
  high?: (row: HistoryRow) => number | null;
  text: (row: HistoryRow) => string;
  /** The text of the axis. `isRate`: the numbers are shares of cases. */
  tick: (value: number, isRate: boolean) => string;
  /** Versions, promotions and corrections are drawn. */
  events?: boolean;
}

export const SCORE: Measure = {
  name: "score",
  value: (row) => row.score,
  low: (row) => row.low,
  high: (row) => row.high,
  text: (row) => (row.score === null ? noScore(row) : `${row.text}${row.low === null ? "" : ` (${row.range})`}`),
  tick: (value, isRate) => (isRate ? `${tickText(100 * value)}%` : tickText(value)),
  events: true,
};
export const COST: Measure = { name: "cost", value: (row) => row.costUsd, text: (row) => row.costText || "not known", tick: (value) => `$${tickText(value)}` };
export const LATENCY: Measure = {
  name: "latency, p95",
  value: (row) => row.p95LatencyMs,
  text: (row) => row.p95Text || "not measured",
  tick: (value) => (value >= 1_000 ? `${tickText(value / 1_000)} s` : `${tickText(value)} ms`),
};

/** Why a run has no score. */
export function noScore(row: HistoryRow): string {
  return row.part || (row.status === "completed" ? "not measured" : row.status);
}

/** What happened at a run, in words. */
export function eventsOf(row: HistoryRow, before: HistoryRow | undefined): string[] {
  const version = row.agentVersion && before !== undefined && before.agentId === row.agentId && before.agentVersion !== row.agentVersion;
  return [
    ...(version ? [`agent version ${plainText(row.agentVersion)}`] : []),
    ...(row.promotedBy && row.state ? [`promoted to ${row.state}`] : []),
    ...(row.corrections > 0 ? [plural(row.corrections, "corrected verdict")] : []),
  ];
}

const LEAST_LABEL = 58; // pixels between two labels

/** A number over the runs, oldest first. A run without the number is a gap. */
export function historyChart(rows: HistoryRow[], measure: Measure, spacing: Spacing, width: number, height: number): Chart {
  const marks: Mark[] = [];
  const box = { left: 54, top: measure.events ? 30 : 12, right: width - 16, bottom: height - 26 };
  const x = places(rows, spacing, [box.left + 10, box.right - 10]);
  const values = rows.flatMap((row) => [measure.value(row), measure.low?.(row) ?? null, measure.high?.(row) ?? null]).filter((one): one is number => one !== null);
  const y = scaleOf(values, measure, [box.bottom, box.top]);
  const isRate = rows.every((row) => row.scale === "rate");
  for (const tick of ticksOf(y)) {
    marks.push({ kind: "line", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick), ink: "line" });
    marks.push({ kind: "text", x: box.left - 7, y: y(tick) + 3.5, text: measure.tick(tick, isRate), anchor: "end", ink: "faint" });
  }
  if (measure.events) marks.push(...versionMarks(rows, x, box));
  for (const agent of new Set(rows.map((row) => row.agentId))) {
    const own = rows.flatMap((row, at) => (row.agentId === agent ? [{ row, x: x[at] ?? 0 }] : []));
    const { low, high } = measure;
    if (low && high) marks.push({ kind: "path", d: bandPath(own.map(({ row, x }) => ({ x, low: scaled(low(row), y), high: scaled(high(row), y) }))), ink: "band", filled: true });
    marks.push({ kind: "path", d: linePath(own.map(({ row, x }) => ({ x, y: scaled(measure.value(row), y) }))), ink: "accent" });
  }
  rows.forEach((row, at) => {
    const value = measure.value(row);
    if (value === null) return;
    const events = measure.events ? eventsOf(row, rows[at - 1]) : [];
    const place = { x: x[at] ?? 0, y: y(value) };
    if (measure.events && row.corrections > 0) marks.push({ kind: "circle", ...place, r: 8, ink: "same", title: plural(row.corrections, "corrected verdict") });
    const title = [moment(row.windowStart ?? row.createdAt), `${measure.name} ${measure.text(row)}`, ...events].join(", ");
    marks.push({ kind: "circle", ...place, r: rows.length > 60 ? 2.5 : 4, ink: measure.events && row.passed === false ? "worse" : "accent", title, id: row.runId });
    if (measure.events && row.promotedBy) marks.push({ kind: "text", x: place.x, y: Math.max(box.top + 4, place.y - 12), text: `▲ ${row.state ?? ""}`, anchor: anchorOf(place.x, box), ink: "text" });
  });
  marks.push(...dates(rows, x, box));
  return { width, height, marks };
}

function scaled(value: number | null, y: NumberScale): number | null {
  return value === null ? null : y(value);
}

/** Costs and latencies begin at 0: a small change must not look large. */
function scaleOf(values: number[], measure: Measure, range: [number, number]): NumberScale {
  return numberScale(measure.low ? values : [0, ...values], range);
}

function places(rows: HistoryRow[], spacing: Spacing, [from, to]: [number, number]): number[] {
  if (spacing === "time") {
    const times = rows.map((row) => Date.parse(row.windowStart ?? row.createdAt));
    const scale = timeScale(times, [from, to]);
    return times.map((time) => scale(time));
  }
  const step = rows.length > 1 ? (to - from) / (rows.length - 1) : 0;
  return rows.map((_, at) => (rows.length > 1 ? from + at * step : (from + to) / 2));
}

interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

function anchorOf(x: number, box: Box): "start" | "middle" | "end" {
  return x < box.left + 40 ? "start" : x > box.right - 40 ? "end" : "middle";
}

function versionMarks(rows: HistoryRow[], x: number[], box: Box): Mark[] {
  const marks: Mark[] = [];
  let free = -Infinity;
  rows.forEach((row, at) => {
    const before = rows[at - 1];
    if (!row.agentVersion || (before && (before.agentId !== row.agentId || before.agentVersion === row.agentVersion))) return;
    const place = x[at] ?? 0;
    if (before) marks.push({ kind: "line", x1: place, x2: place, y1: box.top - 10, y2: box.bottom, ink: "faint", dashed: true });
    if (place < free) return;
    marks.push({ kind: "text", x: place, y: box.top - 15, text: plainText(row.agentVersion).slice(0, 12), anchor: anchorOf(place, box), ink: "text" });
    free = place + LEAST_LABEL;
  });
  return marks;
}

function dates(rows: HistoryRow[], x: number[], box: Box): Mark[] {
  const marks: Mark[] = [];
  let free = -Infinity;
  let said = "";
  const times = rows.map((row) => Date.parse(row.windowStart ?? row.createdAt));
  const withTime = Math.max(...times) - Math.min(...times) < 36 * 3_600_000;
  rows.forEach((row, at) => {
    const place = x[at] ?? 0;
    const text = dateText(new Date(row.windowStart ?? row.createdAt), withTime);
    if (place < free || text === said) return;
    marks.push({ kind: "text", x: place, y: box.bottom + 17, text, anchor: anchorOf(place, box), ink: "faint" });
    free = place + LEAST_LABEL;
    said = text;
  });
  return marks;
}

const two = (value: number) => String(value).padStart(2, "0");

/** `18 Nov`, or the time of day where all runs are close. */
function dateText(date: Date, withTime: boolean): string {
  return withTime ? `${two(date.getHours())}:${two(date.getMinutes())}` : `${date.getDate()} ${date.toLocaleString("en-US", { month: "short" })}`;
}

/** What a chart shows, for a reader who does not see it. */
export function summaryOf(rows: HistoryRow[], measure: Measure): string {
  const known = rows.filter((row) => measure.value(row) !== null);
  const first = known[0];
  const last = known.at(-1);
  if (!first || !last) return `No run has a ${measure.name}.`;
  const missing = rows.length - known.length;
  const gap = missing > 0 ? ` ${count(missing)} without it.` : "";
  return `${measure.name} of ${plural(known.length, "run")}, from ${measure.text(first)} to ${measure.text(last)}.${gap}`;
}
