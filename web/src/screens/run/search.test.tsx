// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import type { CasesQuery } from "~/api/cases";
import "~/testing/dom";
import { useRows } from "./rows";
import { SearchNote } from "./SearchNote";
import { viewOf } from "./view";

interface Server {
  cursors: string[];
  waiting: (() => void)[]; // calls of a server that waits
}

/** A server whose run has so many results, and looks at `size` in a call; each matches. With `waits`, the test answers each search. */
function serve(results: number, size: number, waits = false): Server {
  const server: Server = { cursors: [], waiting: [] };
  const found = (cursor: string) => {
    const from = Number(cursor || 0);
    const to = Math.min(results, from + size);
    const matches = Array.from({ length: to - from }, (_, at) => ({ position: from + at, trial: 0, caseId: `c${from + at}`, in: "", snippet: "", at: -1, length: 0 }));
    return { matches, looked: { cases: to - from, bytes: 1, from, to, total: results, complete: to === results }, ...(to < results ? { next: String(to) } : {}) };
  };
  vi.stubGlobal("fetch", async (url: string, { body }: { body: string }) => {
    const query = JSON.parse(body) as CasesQuery & { cursor?: string };
    if (!url.endsWith("cases:search")) return Response.json({ cases: [], counts: { all: 0 }, matching: query.filter?.positions?.length ?? 0, columns: [] });
    server.cursors.push(query.cursor ?? "");
    if (waits) await new Promise<void>((resolve) => server.waiting.push(resolve));
    return Response.json(found(query.cursor ?? ""));
  });
  return server;
}

function Rows() {
  const rows = useRows("run", viewOf(new URLSearchParams({ where: "tag:a" })));
  return (
    <>
      <p data-testid="rows">{rows.total}</p>
      <SearchNote rows={rows} noun="case" />
    </>
  );
}

const show = () =>
  render(
    <QueryClientProvider client={new QueryClient()}>
      <Rows />
    </QueryClientProvider>,
  );
const note = () => screen.getByRole("status").textContent ?? "";
const rows = () => screen.getByTestId("rows").textContent;

afterEach(() => vi.unstubAllGlobals());

test("a search of several calls goes to the end by itself", async () => {
  const { cursors } = serve(250, 100);
  show();
  await waitFor(() => expect(note()).toBe("250 cases found. Looked at all 250 results."));
  expect(cursors).toEqual(["", "100", "200"]);
  await waitFor(() => expect(rows()).toBe("250"));
});

test("a search waits at 1,000 cases, says so, and goes on", async () => {
  const { cursors } = serve(1_230, 500);
  show();
  await waitFor(() => expect(note()).toContain("1,000 cases found. Looked at 1,000 of 1,230 results. The first 1,000 are shown."));
  expect(cursors).toHaveLength(2);
  expect(screen.queryByRole("button", { name: "Stop" })).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Search further" }));
  await waitFor(() => expect(note()).toBe("1,230 cases found. Looked at all 1,230 results."));
  await waitFor(() => expect(rows()).toBe("1230"));
});

test("a search is stopped, and goes on from where it was", async () => {
  const { cursors, waiting } = serve(300, 100, true);
  show();
  const answer = () => act(async () => waiting.shift()?.());
  await waitFor(() => expect(waiting).toHaveLength(1));
  await answer();
  await waitFor(() => expect(waiting).toHaveLength(1));
  expect(note()).toContain("Searching… 100 cases found. Looked at 100 of 300 results.");
  fireEvent.click(screen.getByRole("button", { name: "Stop" }));
  await answer(); // the call that was under way
  await waitFor(() => expect(note()).toContain("200 cases found. Looked at 200 of 300 results. The first 200 are shown."));
  expect(cursors).toEqual(["", "100"]);
  fireEvent.click(screen.getByRole("button", { name: "Search further" }));
  await waitFor(() => expect(waiting).toHaveLength(1));
  await answer();
  await waitFor(() => expect(note()).toBe("300 cases found. Looked at all 300 results."));
  expect(cursors).toEqual(["", "100", "200"]);
});

test("a search ends at 10,000 cases, and says what to do", async () => {
  const { cursors } = serve(10_500, 1_000);
  show();
  for (let stretch = 1; stretch < 10; stretch += 1) {
    await waitFor(() => expect(cursors).toHaveLength(stretch));
    fireEvent.click(await screen.findByRole("button", { name: "Search further" }));
  }
  await waitFor(() => expect(note()).toContain("The first 10,000 are shown. There is room for no more"));
  expect(screen.queryByRole("button", { name: "Search further" })).toBeNull();
  expect(cursors).toHaveLength(10);
});
