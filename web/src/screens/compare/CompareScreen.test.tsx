// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import "~/testing/dom";
import CompareScreen from "./CompareScreen";

beforeEach(() => vi.stubGlobal("fetch", () => new Promise(() => {}))); // what is not given here never comes

const ABOUT = { kind: "evaluation", name: "talk", status: "completed", score: null, total: 4, models: ["m-1"] };
const run = (runId: string, more: object) => ({ run: { ...ABOUT, runId, ...more }, latency: null });
const none = { count: 0, ids: [] };
const result = { before: 0.5, after: 0.5, difference: 0, low: -0.1, high: 0.1, level: 0.95, method: "tango", cases: 4, verdict: "not enough data", share: true };
const pair = { baseline: "a", run: "b", result, better: 1, worse: 1, unchanged: 2, unmeasured: none, only_in_baseline: none, only_in_run: none, other_inputs: none };
const DIFFERS = ["commit 1f3a9c2b7d → 1f3a9c2b7d and changed files", "tag prompt v1 → v2", "command assay evaluate a.jsonl → assay evaluate b.jsonl"];

function show(hash: string) {
  window.location.hash = hash;
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  const view = {
    comparison: { metric: "passed", lower_is_better: false, margin: null, comparisons: [{ ...pair, differs: DIFFERS }] },
    pairs: [{ headline: "50.0% → 50.0% not enough data", counts: "", about: [], power: null, slices: [], charts: { points: [], grid: false, bars: [] }, metric_names: ["passed", "helpful"] }],
    checks: ["helpful"],
  };
  queries.setQueryData(["run", "a", "overview"], run("a", { createdAt: "2026-11-18T09:00:00Z", commit: { id: "1f3a9c2b7d55", clean: true }, tags: ["prompt=v1", "night=1"] }));
  queries.setQueryData(["run", "b", "overview"], run("b", { createdAt: "2026-11-19T09:00:00Z", commit: { id: "1f3a9c2b7d55", clean: false }, tags: ["prompt=v2", "night=1"] }));
  queries.setQueryData(["comparison", ["a", "b"], "", "tag", ""], view);
  render(
    <QueryClientProvider client={queries}>
      <CompareScreen params={{}} />
    </QueryClientProvider>,
  );
}

test("each run has its commit, models and tags, and the verdict says in what the runs differ", () => {
  show("#/compare?runs=a,b");
  const [before, after] = within(screen.getByRole("list", { name: "Runs" })).getAllByRole("listitem").map((item) => item.textContent);
  for (const text of ["1f3a9c2", "prompt=v1", "night=1", "m-1"]) expect(before).toContain(text);
  for (const text of ["1f3a9c2 + changes", "prompt=v2", "night=1", "m-1"]) expect(after).toContain(text);
  expect(screen.getByRole("region", { name: "Verdict" }).textContent).toContain(`The runs differ: ${DIFFERS.join("; ")}`);
});

test("the menu of metrics has those of the runs", () => {
  show("#/compare?runs=a,b");
  const menu = screen.getByRole("combobox", { name: "Metric" });
  expect(within(menu).getAllByRole("option").map((option) => option.textContent)).toEqual(["Default metric", "Passed", "helpful"]);
});

test("the list of a number of the strip has its name", () => {
  show("#/compare?runs=a,b&change=failed_in_both");
  expect(screen.getByRole("button", { name: /Fail in both/, pressed: true })).toBeTruthy();
});
