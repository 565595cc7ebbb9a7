import { describe, expect, test } from "vitest";
import type { Mark } from "~/charts/marks";
import { distribution, scatter } from "./marks";
import { caseOf } from "./outside";
import { casesText, differenceText, filtersOf, firstFilter } from "./words";

const names = { before: "before", after: "after", metric: "passed", lowerIsBetter: false };
const within = (marks: Mark[], width: number, height: number) =>
  marks.every((mark) => mark.kind !== "circle" || (mark.x - mark.r >= 0 && mark.x + mark.r <= width && mark.y - mark.r >= 0 && mark.y + mark.r <= height));

describe("a chart", () => {
  test("draws each point inside its frame, with the sign of its change", () => {
    const points = [
      { before: 0, after: 1, cases: 9 },
      { before: 1, after: 0, cases: 4 },
      { before: 1, after: 1, cases: 100_000 },
    ];
    for (const width of [260, 390, 900]) expect(within(scatter(points, names, width, 260).marks, width, 260)).toBe(true);
    const inks = scatter(points, names, 400, 300).marks.flatMap((mark) => (mark.kind === "circle" ? [mark.ink] : []));
    expect(inks).toEqual(["same", "better", "worse"]);
    const lower = scatter(points, { ...names, lowerIsBetter: true }, 400, 300).marks.flatMap((mark) => (mark.kind === "circle" ? [mark.ink] : []));
    expect(lower).toEqual(["same", "worse", "better"]);
  });

  test("of differences has a bar for each side, and says how many are the same", () => {
    const bars = [
      { low: -1, high: -0.95, cases: 4 },
      { low: 0, high: 0, cases: 106 },
      { low: 0.95, high: 1, cases: 9 },
    ];
    const marks = distribution(bars, names, 400, 300).marks;
    expect(marks.flatMap((mark) => (mark.kind === "rect" ? [mark.ink] : []))).toEqual(["worse", "better"]);
    expect(marks).toContainEqual(expect.objectContaining({ text: "106 cases without a difference" }));
  });
});

test("a difference has its sign", () => {
  expect(differenceText(undefined, 1)).toBe("–");
  expect(differenceText(0.5, 0.25)).toBe("−0.250");
  expect(differenceText(0.25, 0.5)).toBe("+0.250");
});

test("an empty list is offered only if a reader looks for it first", () => {
  const none = { count: 0, ids: [] };
  const pair = { worse: 0, better: 0, unchanged: 3, unmeasured: none, only_in_baseline: { count: 2, ids: [] }, only_in_run: none, other_inputs: none } as never;
  expect(filtersOf(pair).map(([name]) => name)).toEqual(["changed", "worse", "better", "unchanged", "only_in_baseline"]);
});

test("runs over different cases have no list of changes", () => {
  const [none, some] = [{ count: 0, ids: [] }, { count: 4, ids: [] }];
  const pair = { unpaired: true, worse: 0, better: 0, unchanged: 0, unmeasured: none, only_in_baseline: some, only_in_run: some, other_inputs: none } as never;
  expect(filtersOf(pair).map(([name]) => name)).toEqual(["only_in_baseline", "only_in_run"]);
  expect(firstFilter(pair)).toBe("only_in_run");
  expect(casesText({ cases: 9, cases_before: 4, cases_after: 5 } as never)).toBe("4 and 5");
});

describe("a case that is not among the loaded rows", () => {
  const row = (passed: number, failed: number) =>
    ({ position: 7, status: failed > 0 ? "failed" : "passed", trials: { total: passed + failed, passed, failed, unmeasured: 0 }, preview: { reason: "why" } }) as never;
  test.each([
    [row(1, 0), row(0, 1), "", { change: "worse", before: 1, after: 0, reason_before: "passed", reason_after: "why" }],
    [row(1, 3), row(2, 2), "passed", { change: "better", before: 0.25, after: 0.5 }],
    [row(1, 1), row(1, 1), "", { change: "unchanged" }],
    [row(0, 0), row(1, 0), "", { change: "unmeasured", before: undefined }],
    [undefined, row(1, 0), "", { change: "only_in_run", position_after: 7 }],
    [row(1, 0), undefined, "latency_ms", { change: "only_in_baseline", before: undefined }],
    [row(1, 0), row(0, 1), "latency_ms", { change: undefined, before: undefined, after: undefined }],
  ])("%# has its place in both runs", (before, after, metric, expected) => expect(caseOf("c", before, after, metric)).toMatchObject(expected));
  test("is in neither", () => expect(caseOf("c", undefined, undefined, "")).toBeNull());
});
