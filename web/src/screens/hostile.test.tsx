// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render } from "@testing-library/react";
import { afterEach, describe, expect, test } from "vitest";
import type { CaseDetail, Step, TrialDetail } from "~/api/cases";
import { type Mode, setMode } from "~/content/mode";
import "~/testing/dom";
import { expectOnlyText, HOSTILE } from "~/testing/hostile";
import { SideBySide } from "./compare/SideBySide";
import { CaseView } from "./run/CaseView";
import { RunSlices } from "./run/RunSlices";

afterEach(() => setMode("rendered"));

/** A text of an attacker with a canary that says where it is. */
type Attack = (place: string) => string;

const conversation = (text: Attack) => ({
  messages: [
    { role: text("role"), content: text("content"), [text("member")]: text("value") },
    { role: "user", name: text("name"), content: [{ type: "text", text: text("part") }, { type: text("type"), more: { deep: text("deep") } }] },
    { role: "assistant", content: null, refusal: text("refusal"), tool_calls: [{ id: text("id"), function: { name: text("call"), arguments: JSON.stringify({ [text("argument")]: text("input") }) } }] },
    { role: "tool", tool_call_id: text("answers"), content: text("answer") },
  ],
  [text("beside")]: text("rest"),
});
const CONVERSATION = ["role", "content", "member", "value", "name", "part", "type", "deep", "refusal", "id", "call", "argument", "input", "answers", "answer", "beside", "rest"];

const steps = (text: Attack): Step[] => [
  { type: "said", role: "user", content: text("said") },
  { type: "used", usage: { provider: text("provider"), model: text("model") } },
  { type: "reasoned", text: text("thought") },
  { type: "tool-called", tool: text("tool"), call_id: text("call-id"), inputs: { [text("input-name")]: text("tool-input") } },
  { type: "tool-returned", tool: text("tool"), call_id: text("call-id"), status: "ok", outcome: { note: text("outcome") } },
  { type: "tool-called", tool: "second", call_id: "2", inputs: {} },
  { type: "tool-returned", tool: "second", call_id: "2", status: text("status"), error: text("error") },
  { type: "wrote", memory_id: text("memory-id"), content: text("wrote") },
  { type: "handed-off", to_agent_id: text("agent"), reason: text("handed") },
  { type: text("kind"), more: text("other") },
];
const STEPS = ["said", "model", "thought", "tool", "input-name", "tool-input", "outcome", "status", "error", "memory-id", "wrote", "agent", "handed", "kind", "other"];

const trial = (text: Attack, more: Partial<TrialDetail> = {}): TrialDetail => ({
  trial: 0,
  status: "completed",
  passed: false,
  score: null,
  costUsd: null,
  latencyMs: null,
  output: conversation(text),
  checks: [],
  trajectory: steps(text),
  ...more,
});

const detail = (text: Attack, more: Partial<CaseDetail>) =>
  ({
    run: { runId: "r", kind: "agent-eval", status: "completed" },
    row: { position: 0, caseId: "c", status: "failed", score: null, costUsd: null, latencyMs: null, trials: { total: 1, passed: 0, failed: 1, unmeasured: 0 }, cells: [] },
    caseId: "c",
    input: conversation(text),
    trials: [],
    annotations: [],
    next: null,
    previous: null,
    ...more,
  }) as CaseDetail;

const openAll = () => [...document.querySelectorAll("button")].filter((button) => /^Show (all|the whole)/.test(button.textContent ?? "")).forEach((button) => fireEvent.click(button));
const canaries = () => new Set(document.body.textContent?.match(/canary-[a-z-]+(?=;)/g));

/** What is missing of the places where a text of the attacker is. */
const missing = (places: readonly string[], found: Set<string>) => places.filter((place) => !found.has(`canary-${place}`));

const MODES: Mode[] = ["rendered", "text", "raw"];

describe.each(Object.entries(HOSTILE))("a hostile text (%s) is only text", (_, hostile) => {
  const text: Attack = (place) => `canary-${place}; ${hostile}`;

  test.each(MODES)("in a conversation, memory and checks, as %s", (mode) => {
    setMode(mode);
    const check = { label: text("label"), column: 0, checkType: "llm_judge", status: "completed" as const, passed: false, reason: text("reason"), title: text("title"), result: { resolved_arguments: { prompt: { value: text("prompt"), jsonpath: text("path") } }, more: text("result") } };
    const findings = [{ kind: text("finding"), severity: "high", detector: text("detector"), detail: { rule: text("rule") } }];
    const memory = [{ id: text("memory-id"), content: text("memory") }];
    const parts = { run: { runId: "r", kind: "evaluation", status: "completed" } as const, memory, expected: text("expected"), tags: [text("tag")], metadata: { [text("metadata-name")]: text("metadata") }, trials: [trial(text, { checks: [check], findings, trajectory: [] })] };
    render(
      <QueryClientProvider client={new QueryClient()}>
        <CaseView detail={detail(text, parts)} onWhere={() => undefined} />
      </QueryClientProvider>,
    );
    openAll();
    expectOnlyText(document);
    const places = ["memory", "memory-id", "expected", "tag", "metadata-name", "metadata", "reason", "title", "prompt", "path", "result", "finding", "detector", "rule"];
    expect(missing([...CONVERSATION, ...places], canaries())).toEqual([]);
  });

  test.each(MODES)("in each step of a trajectory, as %s", (mode) => {
    setMode(mode);
    render(
      <QueryClientProvider client={new QueryClient()}>
        <CaseView detail={detail(text, { trials: [trial(text, { output: "" })] })} onWhere={() => undefined} />
      </QueryClientProvider>,
    );
    const found = new Set<string>();
    for (const button of document.querySelectorAll(".step")) {
      fireEvent.click(button);
      openAll();
      expectOnlyText(document);
      canaries().forEach((canary) => found.add(canary));
    }
    expect(missing(STEPS, found)).toEqual([]);
  });

  test.each(MODES.flatMap((mode) => ["difference", "both"].map((outputs) => [mode, outputs] as const)))("in a comparison of two runs, as %s, %s", (mode, outputs) => {
    setMode(mode);
    window.location.hash = `#/compare?outputs=${outputs}`;
    const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
    const check = { label: text("label"), column: null, checkType: "regex", status: "completed" as const, passed: false, reason: text("reason"), title: text("title"), result: null };
    queries.setQueryData(["run", "a", "case", 0], detail(text, { trials: [trial(text, { checks: [check] })] }));
    queries.setQueryData(["run", "b", "case", 0], detail(text, { trials: [trial((place) => text(`after-${place}`))] }));
    const row = { id: "c", change: "worse", before: 1, after: 0, position_before: 0, position_after: 0, reason_before: text("before"), reason_after: text("after") } as const;
    render(
      <QueryClientProvider client={queries}>
        <SideBySide id={text("case")} row={row} loading={false} error={null} baseline="a" run="b" onMove={() => undefined} onClose={() => undefined} />
      </QueryClientProvider>,
    );
    openAll();
    expectOnlyText(document);
    const answers = outputs === "both" ? CONVERSATION.map((place) => `after-${place}`) : ["after-refusal"];
    expect(missing([...CONVERSATION, ...answers, "case", "before", "after", "label", "reason", "title", "tool", "after-tool", "outcome", "after-error"], canaries())).toEqual([]);
  });

  test("in a table of slices", () => {
    render(<RunSlices slices={[{ by: text("by"), name: text("slice"), cases: 1, casePassRate: "100.0%", passRate: "100.0%" }]} />);
    expectOnlyText(document);
    expect(missing(["by", "slice"], canaries())).toEqual([]);
  });
});
