// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import type { ComparisonView, DifferenceInterval, MetricDifference } from "~/api/comparison";
import "~/testing/dom";
import { MetricTable } from "./MetricTable";
import { passCounts, PassStrip } from "./PassStrip";
import { Reason } from "./SideBySide";
import { SliceLine } from "./SliceLine";
import { groupingOptions, metricOptions } from "./words";

const result: DifferenceInterval = { before: 0.5, after: 0.7, difference: 0.2, low: 0.1, high: 0.3, level: 0.99, method: "t", cases: 40, verdict: "improved" };
const metrics: MetricDifference[] = [
  { metric: "passed", kind: "passed", lower_is_better: false, result },
  { metric: "is-\u202ehidden", kind: "check", lower_is_better: false, result: { ...result, verdict: "not enough data", measured_verdict: "improved" } },
  { metric: "cost_usd", kind: "output", lower_is_better: true, result: { ...result, verdict: "regressed" } },
  { metric: "polite", kind: "check", lower_is_better: false, result: { ...result, verdict: "not enough data", same: true } },
];
const texts = metrics.map(({ metric, result }) => ({ metric, before: "0.50", after: "0.70", difference: "+0.20", interval: "99% 0.10…0.30", verdict: result.verdict }));

test("the table of metrics has a row for each, and a row chooses the metric", () => {
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MetricTable query={{ runs: ["a", "b"], metric: "", by: "", margin: "" }} at={0} chosen="passed" names={[]} own={{ metrics, texts }} />
    </QueryClientProvider>,
  );
  const rows = screen.getAllByRole("row").slice(1);
  expect(rows).toHaveLength(4);
  expect(within(rows[1]!).getByText("not enough data")).toBeTruthy();
  expect(rows[1]?.textContent).toContain("measured cases: improved");
  expect(within(rows[3]!).getByText("no change")).toBeTruthy();
  expect(within(rows[0]!).getByRole("button").getAttribute("aria-pressed")).toBe("true");
  expect(within(rows[2]!).getByText("regressed")).toBeTruthy();
  expect(rows[1]?.textContent).toContain("RLO");
  expect(rows[0]?.textContent).toContain("0.50 → 0.70");
  fireEvent.click(within(rows[2]!).getByRole("button", { name: "Cost, system" }));
  expect(window.location.hash).toContain("metric=cost_usd");
});

test.each([
  [[{ before: 1, after: 1, cases: 5 }, { before: 1, after: 0, cases: 2 }, { before: 0, after: 1, cases: 3 }, { before: 0, after: 0, cases: 4 }], { stayed: 5, lost: 2, gained: 3, failing: 4 }],
  [[], { stayed: 0, lost: 0, gained: 0, failing: 0 }],
  [[{ before: 1, after: 0.5, cases: 1 }], null],
])("the four numbers of %j", (points, counts) => expect(passCounts(points)).toEqual(counts));

test("a number of the strip shows its cases", () => {
  render(<PassStrip counts={{ stayed: 5, lost: 2, gained: 0, failing: 3 }} selects />);
  expect(screen.getAllByRole("button").map((button) => button.textContent)).toEqual(["5", "2", "3"]);
  fireEvent.click(screen.getByRole("button", { name: "2" }));
  expect(window.location.hash).toContain("change=worse");
  fireEvent.click(screen.getByRole("button", { name: "5" }));
  expect(window.location.hash).toContain("change=passed_in_both");
  fireEvent.click(screen.getByRole("button", { name: "3" }));
  expect(window.location.hash).toContain("change=failed_in_both");
});

const slice = (name: string, difference: number, verdict: DifferenceInterval["verdict"] = "not enough data") => ({
  by: "tag",
  slice: name,
  text: `${difference} points`,
  result: { ...result, difference, verdict },
});

test.each([
  [[slice("warranty", -17, "regressed"), slice("refund", -3), slice("invoice", 9)], false, "Worse in tag warranty -17 points."],
  [[slice("refund", -3), slice("invoice", 9)], false, "The largest drop may be chance: tag refund -3 points."],
  [[slice("refund", 3), slice("invoice", 9)], false, "No slice fell."],
  [[slice("slow", 3), slice("quick", -9)], true, "The largest drop may be chance: tag slow 3 points."],
  [["a", "b", "c", "d", "e"].map((name) => slice(name, -1, "regressed")), false, "Worse in tag a -1 points; tag b -1 points; tag c -1 points and 2 more."],
  [[], false, ""],
])("the verdict names the slices that got worse", (slices, lowerIsBetter, text) => {
  const { container } = render(<SliceLine slices={slices} lowerIsBetter={lowerIsBetter} />);
  expect(container.textContent).toBe(text);
});

test("a slice of the verdict shows its cases that got worse", () => {
  render(<SliceLine slices={[slice("warranty", -17, "regressed")]} lowerIsBetter={false} />);
  fireEvent.click(screen.getByRole("button", { name: "warranty" }));
  expect(window.location.hash).toContain("slice=tag:warranty");
  expect(window.location.hash).toContain("change=worse");
});

test.each([
  ["passed", "good"],
  ["failed", "bad"],
  ["error", ""],
] as const)("a side that %s has the edge%s, whatever became of the case", (status, edge) => {
  const { container } = render(<Reason title="Before" text="why" status={status} run="r" position={1} />);
  expect(container.firstElementChild?.className.trim()).toBe(`compare-reason ${edge}`.trim());
});

test("the menus have what the runs have, and what is chosen", () => {
  const having = (metric_names: string[], checks: string[] = []) => ({ checks, pairs: [{ metric_names }, { metric_names: ["passed"] }] }) as unknown as ComparisonView;
  const offered = (view: ComparisonView | undefined, metric = "") => metricOptions(view, metric).map(([value]) => value);
  expect(offered(undefined)).toEqual(["", "passed", "score", "cost_usd", "judges_usd", "latency_ms", "latency_ms:median", "latency_ms:p95"]);
  expect(offered(having(["passed", "score", "helpful"], ["helpful"]))).toEqual(["", "passed", "score", "helpful"]);
  expect(offered(having(["passed", "cost_usd", "latency_ms:p95"]))).toEqual(["", "passed", "cost_usd", "latency_ms", "latency_ms:median", "latency_ms:p95"]);
  expect(metricOptions(having(["passed"]), "judge:confidence").at(-1)).toEqual(["judge:confidence", "judge:confidence"]);
  expect(groupingOptions(["tag", "tier"], "topic").map(([value]) => value)).toEqual(["", "tag", "tier", "topic"]);
  expect(groupingOptions(["tag", "tier"], "", true)).toEqual([["", "By tag"], ["tier", "By tier"], ["none", "No slices"]]);
  expect(groupingOptions(["tag", "tier"], "none").map(([, text]) => text)).toEqual(["By tag", "By tier", "No slices"]);
});
