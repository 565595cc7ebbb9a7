import { expect, test } from "vitest";
import type { HistoryRow } from "~/api/history";
import { COST, eventsOf, historyChart, LATENCY, SCORE, summaryOf } from "./marks";

function row(at: number, more: Partial<HistoryRow> = {}): HistoryRow {
  const score = 0.5 + at / 100;
  return {
    runId: `run-${at}`, createdAt: `2026-11-${String(1 + (at % 28)).padStart(2, "0")}T10:00:00Z`, status: "completed", suiteVersion: "1", agentId: "bot", agentVersion: "1.0.0",
    score, low: score - 0.1, high: score + 0.1, scale: "rate", text: `${score}`, range: "a–b", passed: true, tasks: 10, costUsd: 0.1, costText: "$0.10", p95LatencyMs: 900, p95Text: "900 ms",
    state: null, promotedBy: false, erased: false, part: "", corrections: 0, commit: "", tags: [], windowStart: null, windowEnd: null, ...more,
  };
}
const texts = (rows: HistoryRow[], measure = SCORE) => historyChart(rows, measure, "run", 800, 300).marks.flatMap((mark) => (mark.kind === "text" ? [mark.text] : []));
const circles = (rows: HistoryRow[], measure = SCORE) => historyChart(rows, measure, "run", 800, 300).marks.flatMap((mark) => (mark.kind === "circle" ? [mark] : []));

test("each run with a score is a point that opens it, with its interval as a band", () => {
  const rows = [row(0), row(1), row(2)];
  expect(circles(rows).map((mark) => mark.id)).toEqual(["run-0", "run-1", "run-2"]);
  const paths = historyChart(rows, SCORE, "run", 800, 300).marks.filter((mark) => mark.kind === "path");
  expect(paths.map((mark) => mark.filled ?? false)).toEqual([true, false]);
});

test("a window of traces stands at its start, not at the time when it was made", () => {
  const windows = [row(0, { windowStart: "2026-10-01T00:00:00Z" }), row(1, { windowStart: "2026-10-02T00:00:00Z" }), row(2, { windowStart: "2026-10-05T00:00:00Z" })];
  const [first, second, last] = historyChart(windows, SCORE, "time", 800, 300).marks.flatMap((mark) => (mark.kind === "circle" ? [mark.x] : []));
  expect(((second ?? 0) - (first ?? 0)) / ((last ?? 0) - (first ?? 0))).toBeCloseTo(1 / 4);
  expect(texts(windows).join(" ")).toContain("Oct");
  expect(texts(windows).join(" ")).not.toContain("Nov");
});

test("a run without a score is a gap and no point", () => {
  const rows = [row(0), row(1, { score: null, low: null, high: null, status: "failed" }), row(2)];
  expect(circles(rows)).toHaveLength(2);
  expect(summaryOf(rows, SCORE)).toContain("1 without it");
  const line = historyChart(rows, SCORE, "run", 800, 300).marks.findLast((mark) => mark.kind === "path");
  expect(line?.kind === "path" && line.d.split("M")).toHaveLength(3); // two pieces
});

test("versions, promotions and corrections are marked", () => {
  const rows = [row(0), row(1, { agentVersion: "1.1.0", promotedBy: true, state: "active" }), row(2, { agentVersion: "1.1.0", corrections: 3 })];
  expect(texts(rows)).toEqual(expect.arrayContaining(["1.0.0", "1.1.0", "▲ active"]));
  expect(circles(rows).some((mark) => mark.r === 8 && mark.title === "3 corrected verdicts")).toBe(true);
  expect(eventsOf(rows[1]!, rows[0])).toEqual(["agent version 1.1.0", "promoted to active"]);
  expect(eventsOf(rows[0]!, undefined)).toEqual([]);
});

test("the axis of rates is in percent, that of scores is not", () => {
  const rows = [row(0, { score: 0.2 }), row(1, { score: 0.9 })];
  expect(texts(rows)).toEqual(expect.arrayContaining(["0%", "80%", "100%"]));
  expect(texts(rows.map((one) => ({ ...one, scale: "score" })))).toEqual(expect.arrayContaining(["0", "0.8", "1"]));
});

test("costs and latencies have no events, begin at 0 and say their unit", () => {
  const rows = [row(0, { corrections: 2 }), row(1, { p95LatencyMs: 2_500 })];
  expect(circles(rows, COST)).toHaveLength(2);
  expect(texts(rows, COST)).toContain("$0");
  expect(texts(rows, LATENCY)).toContain("2 s");
});

test("labels never stand on each other, however many runs there are", () => {
  const rows = Array.from({ length: 300 }, (_, at) => row(at, { agentVersion: `1.${at}.0` }));
  const labels = historyChart(rows, SCORE, "run", 800, 300).marks.filter((mark) => mark.kind === "text" && mark.text.startsWith("1."));
  expect(labels.length).toBeLessThan(16);
  expect(circles(rows)).toHaveLength(300);
});

test.each([["run"], ["time"]] as const)("one run stands in the middle, by %s", (spacing) => {
  const [point] = historyChart([row(0)], SCORE, spacing, 800, 300).marks.filter((mark) => mark.kind === "circle");
  expect(point?.kind === "circle" && Math.round(point.x)).toBe(419);
});

test("without a number the summary says so", () => expect(summaryOf([row(0, { score: null })], SCORE)).toBe("No run has a score."));
