// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import type { CasesQuery } from "~/api/cases";
import "~/testing/dom";
import RunScreen from "./RunScreen";

const row = { position: 3, caseId: "c3", status: "failed", score: 0, costUsd: null, latencyMs: null, trials: { total: 1, passed: 0, failed: 1, unmeasured: 0 }, cells: [] };
const counts = { passed: 0, failed: 1, ungraded: 0, error: 0, skipped: 0 };
const run = { runId: "r", name: "suite", kind: "evaluation", status: "completed", createdAt: "2026-01-01T00:00:00Z", durationMs: 1, score: null, passed: null, total: 1, counts };
const trial = { trial: 0, status: "completed", passed: false, score: 0, costUsd: null, latencyMs: null, output: "no", checks: [], groups: ["exact: wrong"] };
const ANSWERS: [end: string, answer: object][] = [
  ["/overview", { run, latency: null, cost: null, unmeasured: { error: 0, skipped: 0, neverReached: 0 }, progress: null, about: {}, links: { events: "/e" } }],
  ["/cases:search", { matches: [1, 3].map((position) => ({ position, trial: 0, caseId: `c${position}`, in: "", snippet: "", at: -1, length: 0 })), looked: { cases: 4, bytes: 1, from: 0, to: 4, total: 4, complete: true } }],
  ["/cases:query", { cases: [{ ...row, position: 1, caseId: "c1" }, row], counts: { all: 4, ...counts }, matching: 2, columns: [], place: 1 }],
  ["/cases/3", { run, row, caseId: "c3", input: "?", tags: ["a"], metadata: { tier: "free" }, trials: [trial], annotations: [], next: null, previous: null }],
  ["/slices", { by: "tag", slices: [], more: 0, members: ["tag"], counted: true }],
  ["/distributions", { distributions: [] }],
];

afterEach(() => vi.unstubAllGlobals());

test("a value of an open case and its reason are added to the filters that there are", async () => {
  const places: CasesQuery[] = [];
  const query = { matches: true, addEventListener: () => undefined, removeEventListener: () => undefined };
  vi.stubGlobal("matchMedia", () => query); // so wide that the case stays open beside the list
  vi.stubGlobal("fetch", async (address: string, { body }: { body?: string }) => {
    const { pathname } = new URL(address);
    if (body && "place" in JSON.parse(body)) places.push(JSON.parse(body) as CasesQuery);
    const answer = ANSWERS.find(([end]) => pathname.endsWith(end))?.[1];
    return answer ? Response.json(answer) : Response.json({ error: { message: pathname } }, { status: 404 });
  });
  window.location.hash = "#/runs/r?show=failed&where=tag:a&case=3";
  render(
    <QueryClientProvider client={new QueryClient()}>
      <RunScreen params={{ id: "r" }} />
    </QueryClientProvider>,
  );
  const drawer = await screen.findByRole("dialog");
  fireEvent.click(await within(drawer).findByRole("button", { name: "tier free" }));
  await waitFor(() => expect(window.location.hash).toContain("where=tag:a,tier:free"));
  fireEvent.click(await within(drawer).findByRole("button", { name: "More like this" }));
  await waitFor(() => expect(decodeURIComponent(decodeURIComponent(window.location.hash))).toContain("where=tag:a,tier:free,reason:exact: wrong"));
  expect(window.location.hash).toContain("show=failed");
  expect(screen.getAllByRole("button", { name: /^Remove the filter/ })).toHaveLength(3);
  await waitFor(() => expect(places).toHaveLength(3));
  for (const query of places) expect(query.filter).toEqual({ status: ["failed"], positions: [1, 3] }); // the place among the rows that are shown
});
