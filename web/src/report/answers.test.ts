import { expect, test, vi } from "vitest";

vi.hoisted(() => vi.stubGlobal("document", { baseURI: "http://localhost/" })); // the client reads its address

import { ApiError } from "~/api/client";

import { answersOf, pageOf, searchIn } from "./answers";
import type { Report, ReportRun } from "./data";

const row = (position: number, status: string, score: number | null, failed = 0) => ({
  position,
  caseId: `case-${position}`,
  status,
  score,
  costUsd: null,
  latencyMs: null,
  trials: { total: 1, passed: 0, failed: 0, unmeasured: 0 },
  cells: [{ passed: 0, failed, error: 0, skipped: 0, ungraded: 0 }],
});
const run = {
  overview: { run: { runId: "eval_1", counts: null }, columns: [] },
  rows: [row(0, "passed", 1), row(1, "error", null), row(2, "failed", 0.5, 1), row(3, "failed", 0)],
  total: 9,
  counts: { all: 9, passed: 6, failed: 2, ungraded: 0, error: 1, skipped: 0 },
  details: { "2": { caseId: "case-2", input: "Where is Order 17?", trials: [{ output: "Lost.", checks: [{ reason: "too short" }] }] } },
} as unknown as ReportRun;
const positions = (query: object) => pageOf(run, query).cases.map((one) => one.position);

test.each([
  [{}, [0, 1, 2, 3]],
  [{ sort: { by: "status" } }, [2, 3, 1, 0]],
  [{ sort: { by: "score" } }, [3, 2, 0, 1]],
  [{ sort: { by: "score", order: "desc" } }, [0, 2, 3, 1]],
  [{ filter: { status: ["failed"] }, limit: 1, offset: 1 }, [3]],
  [{ filter: { check: [{ index: 0, outcome: "failed" }] } }, [2]],
  [{ filter: { positions: [1, 3] } }, [1, 3]],
])("%j gives the cases %j", (query, expected) => expect(positions(query)).toEqual(expected));

test("a page says how many cases match, and where the next page begins", () => {
  expect(pageOf(run, { limit: 3 })).toMatchObject({ matching: 4, next: "3", counts: { all: 9 } });
  expect(pageOf(run, { limit: 4 })).not.toHaveProperty("next");
});

test("a search finds ids, inputs, outputs and reasons, and says that the file has a part of the run", () => {
  const found = searchIn(run, "order 17");
  expect(found.matches).toMatchObject([{ position: 2, in: "input", length: 8 }]);
  expect(found.matches[0]?.snippet.slice(found.matches[0].at).startsWith("Order 17")).toBe(true);
  expect(found.looked).toMatchObject({ to: 4, total: 9, complete: false });
  expect(searchIn(run, "TOO SHORT").matches).toHaveLength(1);
  expect(searchIn(run, "TOO SHORT", { status: ["passed"] }).matches).toEqual([]);
  expect(pageOf(run, { sort: { by: "status" }, place: 1 }).place).toBe(2);
  expect(searchIn(run, "case-3").matches).toMatchObject([{ position: 3, in: "id" }]);
});

test("what the file does not have is said", () => {
  const answers = answersOf({ runs: [run], redacted: true } as unknown as Report);
  expect(answers("/v1/host/assay/runs/eval_1/cases/2", {})).toMatchObject({ caseId: "case-2" });
  for (const path of ["/v1/host/assay/runs/eval_1/cases/1", "/v1/host/assay/runs/eval_2/overview", "/v1/evaluations"]) {
    expect(() => answers(path, {})).toThrow(ApiError);
  }
});
