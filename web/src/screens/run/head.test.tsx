// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import type { Distribution, Overview } from "~/api/cases";
import "~/testing/dom";
import { Distributions } from "./Distributions";
import { LiveBar } from "./LiveBar";
import RunScreen from "./RunScreen";

beforeEach(() => vi.stubGlobal("fetch", () => new Promise(() => {}))); // what is not given here never comes

function show(element: ReactNode, data: [readonly string[], unknown][] = []) {
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  for (const [key, value] of data) queries.setQueryData(key, value);
  return render(<QueryClientProvider client={queries}>{element}</QueryClientProvider>);
}

const RUN = {
  runId: "eval_1", kind: "evaluation", status: "completed", name: "talk", version: "1", createdAt: "2026-11-19T09:00:00Z", startedAt: null, endedAt: null, durationMs: null,
  models: ["m-1"], tags: ["prompt=v3"], commit: { id: "1f3a9c2b7d5500", clean: false }, score: null, passed: null, counts: null, total: 4, costUsd: null,
};
const overview = (more: object) =>
  ({ run: RUN, bars: [], columns: [], checks: [], latency: null, cost: null, unmeasured: { error: 0, skipped: 0, neverReached: 0 }, progress: null, about: {}, links: { events: "" }, ...more }) as unknown as Overview;

test.each([
  [null, "3 cases so far", 0], // a command that still reads its file has no total
  [7, "3 of 7 cases", 1],
])("of a total of %s the progress reads %s", (total, text, bars) => {
  show(<LiveBar overview={overview({ run: { ...RUN, status: "running" }, progress: { done: 3, total, perSecond: null, secondsLeft: null } })} connection="open" />);
  const bar = within(screen.getByRole("region", { name: "Progress" }));
  expect(bar.getByText(text)).toBeTruthy();
  expect(bar.queryAllByRole("progressbar")).toHaveLength(bars);
});

test("scores, latencies and costs have bars; a number that each result has equally has none", () => {
  const bars = (...results: number[]) => results.map((count, at) => ({ low: at * 100, high: (at + 1) * 100, results: count }));
  const distributions = [
    { name: "latency_ms", results: 9, median: 150, bars: bars(4, 0, 5) },
    { name: "cost_usd", results: 9, median: 0.01, bars: bars(9, 0) },
  ] as unknown as Distribution[];
  const { container } = show(<Distributions run="eval_1" version="1" measured />, [[["run", "eval_1", "distributions", "1"], { distributions }]]);
  expect(screen.getAllByRole("img").map((image) => image.getAttribute("aria-label"))).toEqual(["Latency of 9 results: from 0 ms to 300 ms, median 150 ms"]);
  expect([...container.querySelectorAll("rect title")].map((title) => title.textContent)).toEqual(["0 ms to 100 ms: 4 results", "100 ms to 200 ms: 0 results", "200 ms to 300 ms: 5 results"]);
  expect([...container.querySelectorAll("rect")].map((bar) => Number(bar.getAttribute("height")))).toEqual([25.6, 0, 32]);
});

test("nothing is drawn of a run without a measured case", () => {
  const { container } = show(<Distributions run="eval_1" version="1" measured={false} />);
  expect(container.textContent).toBe("");
});

test("above its result a run has its models, tags, commit and command", () => {
  const data = overview({ about: { command: "assay evaluate talk.jsonl --tag prompt=v3 \u202e" } });
  show(<RunScreen params={{ id: "eval_1" }} />, [[["run", "eval_1", "overview"], data]]);
  const head = within(screen.getAllByRole("banner")[0] as HTMLElement);
  for (const text of ["m-1", "prompt=v3", "1f3a9c2b7d and changed files"]) expect(head.getByText(text)).toBeTruthy();
  expect(head.getByText("1f3a9c2b7d and changed files").getAttribute("title")).toBe("commit 1f3a9c2b7d5500");
  expect(head.getByText("assay evaluate talk.jsonl", { exact: false }).textContent).toContain("RLO");
  expect(head.getByRole("button", { name: "Copy the command" })).toBeTruthy();
});
