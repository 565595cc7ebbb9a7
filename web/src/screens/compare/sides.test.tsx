// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import type { Step, TrialDetail } from "~/api/cases";
import "~/testing/dom";
import { alignedSteps } from "./alignment";
import { SideBySide } from "./SideBySide";
import { trialPair } from "./trials";

const call = (tool: string, inputs: unknown, answer: object): Step[] => [
  { type: "tool-called", tool, call_id: tool, inputs },
  { type: "tool-returned", tool, call_id: tool, status: "ok", duration_ms: Math.random(), ...answer },
];
const FIND = call("find", { id: 1, tier: "pro" }, { outcome: "sent" });
const MAIL = call("mail", { id: 2 }, { outcome: "done" });
const BEFORE = [{ type: "reasoned", text: "hm" }, ...FIND, ...MAIL];

describe("two trajectories", () => {
  const text = (steps: Step[], other: Step[]) => alignedSteps(steps, other).rows.map((row) => [row.before?.text ?? null, row.after?.text ?? null, row.parted]);

  test("are aligned by their calls", () => {
    expect(text(BEFORE, [...FIND, ...call("refund", {}, {}), ...MAIL])).toEqual([
      ['find {"id": 1, "tier": "pro"}', 'find {"id": 1, "tier": "pro"}', false],
      [null, "refund {}", true],
      ['mail {"id": 2}', 'mail {"id": 2}', false],
    ]);
    expect(text(BEFORE, [])).toHaveLength(2);
  });

  test.each<[string, Step[], { after: number; word: string } | null]>([
    ["a thought and a time are not compared", [...FIND, ...MAIL], null],
    ["nor is the order of members", [...call("find", { tier: "pro", id: 1 }, { outcome: "sent" }), ...MAIL], null],
    ["a tool", [...FIND, ...call("call", { id: 2 }, { outcome: "done" })], { after: 1, word: "another tool" }],
    ["arguments", [...FIND, ...call("mail", { id: 3 }, { outcome: "done" })], { after: 1, word: "other arguments" }],
    ["an answer", [...call("find", { id: 1, tier: "pro" }, { outcome: "lost" }), ...MAIL], { after: 0, word: "another result of the tool" }],
    ["an error", [...FIND, ...call("mail", { id: 2 }, { status: "error", error: { code: "gone" } })], { after: 1, word: "another result of the tool" }],
    ["no answer", [...FIND, ...MAIL.slice(0, 1)], { after: 1, word: "another result of the tool" }],
    ["a message", [...FIND, { type: "said", role: "assistant", content: "Hi." }, ...MAIL], { after: 1, word: "another step" }],
    ["an end", FIND, { after: 1, word: "another step" }],
  ])("part where the agents differ: %s", (_, after, parting) => {
    expect(alignedSteps(BEFORE, after).parting).toEqual(parting);
  });

  test("show long texts where they differ, and say how many steps are compared", () => {
    const long = (end: string) => call("find", { text: "x".repeat(1_000) + end }, {});
    const [row] = alignedSteps(long("one"), long("two")).rows;
    expect([row?.before?.text, row?.after?.text]).toEqual([`…${"x".repeat(20)}one"\n}`, `…${"x".repeat(20)}two"\n}`]);
    const many = Array.from({ length: 501 }, () => FIND).flat();
    expect(alignedSteps(many, FIND).bounded).toBe(true);
    expect(alignedSteps(many, many).rows).toHaveLength(500);
  });
});

test("a value that was not stored parts nothing", () => {
  const called = [{ type: "tool-called", tool: "find", call_id: "1" }, { type: "tool-returned", tool: "find", call_id: "1", status: "ok" }];
  expect(alignedSteps(called, called).parting).toBeNull();
});

const trial = (at: number, passed: boolean | null, trajectory: Step[] = []): TrialDetail => ({
  trial: at,
  status: "completed",
  passed,
  score: null,
  costUsd: null,
  latencyMs: null,
  output: "ok",
  checks: [],
  trajectory,
});
const trials = (marks: string) => [...marks].map((mark, at) => trial(at, mark === "?" ? null : mark === "+"));

test.each([
  ["+", "-", [0, 0], ""],
  ["-++", "+-+", [0, 0], "the first that differs"],
  ["--+", "-++", [1, 1], "a trial that failed in one run only"],
  ["--", "--", [0, 0], ""],
  ["+", "++-", [0, 2], "the failing trial has no partner"],
  ["++?", "+++", [2, 2], "a trial without a verdict"],
  ["++", "++", [0, 0], ""],
  ["", "+-", [undefined, 1], "only one run has the case"],
])("of the trials %j and %j, %j are beside each other", (before, after, shown, _why) => {
  expect(trialPair(trials(before), trials(after)).map((one) => one?.trial)).toEqual(shown);
});

function show(before: TrialDetail[], after: TrialDetail[]) {
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  for (const [run, list] of [["a", before], ["b", after]] as const) {
    queries.setQueryData(["run", run, "case", 0], { row: { status: "failed" }, input: "Refund it.", trials: list, annotations: [] });
  }
  const row = { id: "refund", change: "worse", before: 1, after: 0, position_before: 0, position_after: 0 } as const;
  render(
    <QueryClientProvider client={queries}>
      <SideBySide id="refund" row={row} loading={false} error={null} baseline="a" run="b" onMove={() => undefined} onClose={() => undefined} />
    </QueryClientProvider>,
  );
}

test("a case in both runs says which trials are shown, and where the agents part", () => {
  const failing = call("mail", { id: 2 }, { status: "error", error: { code: "gone" } });
  show([trial(0, true, BEFORE), trial(1, true, BEFORE)], [trial(0, true, BEFORE), trial(1, false, [...FIND, ...failing])]);
  expect(screen.getByText("Before: trial 2 of 2 ✓. After: trial 2 of 2 ✗.")).toBeTruthy();
  expect(screen.getByText("They part after 1 step: another result of the tool.")).toBeTruthy();
  const rows = screen.getAllByRole("row").slice(1);
  expect(rows.map((row) => within(row).getAllByRole("cell").map((cell) => cell.textContent))).toEqual([
    ['find {"id": 1, "tier": "pro"}', 'find {"id": 1, "tier": "pro"}'],
    ['mail {"id": 2}answer done', 'mail {"id": 2}error {"code": "gone"}'],
  ]);
  expect(rows[1]?.className).toBe("parted");
  expect(rows[1]?.getAttribute("aria-label")).toBe("They part here");
  expect(rows[1]?.querySelector(".step-result-failed")?.textContent).toContain("gone");
});

test("a failure of a tool in both runs is shown, though nothing parts them", () => {
  const failing = call("mail", { id: 2 }, { status: "error", error: { code: "gone" } });
  show([trial(0, false, failing)], [trial(0, false, failing)]);
  expect(screen.getByText("Both did the same in 1 step.")).toBeTruthy();
  expect(screen.queryByText(/^Before: trial/)).toBeNull();
  expect(screen.getAllByText("error")).toHaveLength(2);
});
