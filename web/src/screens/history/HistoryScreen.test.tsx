// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import "~/testing/dom";
import HistoryScreen from "./HistoryScreen";

const NUMBERS = {
  status: "completed", suiteVersion: "", agentId: "", agentVersion: "", score: 0.5, low: 0.4, high: 0.6, scale: "rate", text: "50.0%", range: "40.0–60.0%", passed: null, tasks: 10,
  costUsd: null, costText: "", p95LatencyMs: null, p95Text: "", state: null, promotedBy: false, erased: false, part: "", corrections: 0, commit: "", tags: [],
};
const row = (runId: string, windowStart: string | null) => ({ ...NUMBERS, runId, createdAt: "2026-11-19T10:00:00Z", windowStart, windowEnd: null });

test.each([
  ["Project of traces", "Window", "2026-10-02T12:00:00Z"],
  ["Experiment", "Started", null],
])("a history of an evaluation is that of: %s", (kind, header, start) => {
  window.location.hash = "#/history?name=support&kind=evaluation";
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  queries.setQueryData(["history", "support", "evaluation", ""], { pages: [{ name: "support", kind: "evaluation", rows: [row("eval_2", start), row("eval_1", start)] }], pageParams: [undefined] });
  render(
    <QueryClientProvider client={queries}>
      <HistoryScreen params={{}} />
    </QueryClientProvider>,
  );
  expect(screen.getByText(`${kind}, over time`)).toBeTruthy();
  expect(screen.getAllByRole("columnheader").some((one) => one.textContent === header)).toBe(true);
  const shown = new Date(start ?? "2026-11-19T10:00:00Z").toLocaleString("en-GB", { dateStyle: "medium" });
  expect(screen.getAllByText(shown, { exact: false }).length).toBeGreaterThan(0);
});
