import { describe, expect, test, vi } from "vitest";

import { comparableText, differenceOf, sidesOf } from "./difference";
import { blocksOf, foldPoint } from "~/content/fold";
import { timeLeftText } from "./progress";
import { costOf, modelName, turnsOf } from "./trajectory";
import { checksText, checkText, filterOf, isSearch, queryOf, toggledCheck, viewOf, whereOf, whereText, withSlice } from "./view";
import { trialMark, verdictOf } from "./words";
import type { Overview } from "~/api/cases";
import { throttle } from "~/api/throttle";
import { piecesOf, plainText } from "~/ui/visible";

describe("invisible characters", () => {
  test.each([
    ["plain text\twith a tab\nand a line", "plain text\twith a tab\nand a line"],
    ["pay\u200b\u200b\u200bpal", "pay⟨ZWSP×3⟩pal"],
    ["a\u202egpj.exe", "a⟨RLO⟩gpj.exe"],
    ["\u001b[31mred\u001b[0m", "⟨ESC[31m⟩red⟨ESC[0m⟩"],
    ["\u001b]0;title\u0007x", "⟨ESC]0;title\\u{7}⟩x"],
    ["\u001b alone", "⟨ESC⟩ alone"],
    ["one\r\ntwo\rthree", "one\ntwo⟨CR⟩three"],
    ["👩\u200d👧 family", "👩\u200d👧 family"],
    ["❤\ufe0f", "❤\ufe0f"],
    ["a\u200db", "a⟨ZWJ⟩b"],
    ["\u{e0069}\u{e0067}", "⟨TAG i⟩⟨TAG g⟩"],
    ["\ud800 lone", "⟨U+D800⟩ lone"],
    ["\u0000\u0001", "⟨NUL⟩⟨U+0001⟩"],
    ["العاصمة", "العاصمة"],
    ["", ""],
  ])("%j becomes %j", (text, expected) => expect(plainText(text)).toBe(expected));

  test("marks are bounded, and what is beyond them is escaped", () => {
    const pieces = piecesOf("a\u200bb\u200cc\u200d".repeat(10), 5);
    expect(pieces.filter((piece) => piece.kind === "mark")).toHaveLength(5);
    expect(plainText("a\u200bb\u200c".repeat(2_000))).toContain("\\u{200c}");
  });
});

describe("difference", () => {
  test.each([
    ["Canberra", "Sydney", [["expected", "Canberra"], ["actual", "Sydney"]]],
    ["the quick fox", "the slow fox", [["same", "the "], ["expected", "quick"], ["actual", "slow"], ["same", " fox"]]],
    ["order 17", "order 170", [["same", "order "], ["expected", "17"], ["actual", "170"]]],
    ["same", "same", [["same", "same"]]],
    ["it: you get a refund. Bye", "it: please ask us. Bye", [["same", "it: "], ["expected", "you get a refund"], ["actual", "please ask us"], ["same", ". Bye"]]],
    ["", "new", [["actual", "new"]]],
    ["old", "", [["expected", "old"]]],
    ["👩", "👧", [["expected", "👩"], ["actual", "👧"]]],
  ])("%j and %j", (expected, actual, parts) => {
    expect(differenceOf(expected, actual).parts.map((part) => [part.kind, part.text])).toEqual(parts);
  });

  test("both sides can be read back from the parts", () => {
    const left = "a b c d\ne f g\n".repeat(50);
    const right = left.replaceAll("c", "x").replace("e f g\n", "");
    const { parts } = differenceOf(left, right);
    expect(parts.filter((part) => part.kind !== "actual").map((part) => part.text).join("")).toBe(left);
    expect(parts.filter((part) => part.kind !== "expected").map((part) => part.text).join("")).toBe(right);
  });

  test("two long texts with nothing in common end soon", () => {
    const left = Array.from({ length: 30_000 }, (_, at) => `l${at}`).join(" ");
    const right = Array.from({ length: 30_000 }, (_, at) => `r${at}`).join(" ");
    expect(differenceOf(left, right).bounded).toBe(true);
    expect(differenceOf("a".repeat(5_000_000), "b".repeat(5_000_000)).parts).toHaveLength(2);
  });

  test("JSON values are compared with their members in order", () => {
    expect(comparableText({ b: 1, a: [{ d: 1, c: 2 }] })).toBe(comparableText({ a: [{ c: 2, d: 1 }], b: 1 }));
    expect(comparableText(null)).toBe("null");
  });
});

describe("long texts", () => {
  test.each([
    ["short", 5],
    ["a".repeat(2_100), 2_100],
    ["a".repeat(5_000), 2_000],
    ["line\n".repeat(500), 24 * 5 - 1],
  ])("fold %#", (text, point) => expect(foldPoint(text)).toBe(point));

  test.each(["", "x", "👩".repeat(9_000), "line\n".repeat(9_000), "a".repeat(50_000)])("blocks %# are the text", (text) => {
    const blocks = blocksOf(text);
    expect(blocks.join("")).toBe(text);
    expect(blocks.every((block) => !/\p{Surrogate}/u.test(block) && block.length <= 8_192)).toBe(true);
  });
});

test.each([
  [null, ""],
  [3, "a few seconds left"],
  [44, "about 40 s left"],
  [57, "about 1 min left"],
  [130, "about 2 min left"],
  [3_590, "about 1 h left"],
  [7_300, "about 2 h left"],
])("%j seconds is %j", (seconds, text) => expect(timeLeftText(seconds)).toBe(text));

describe("trajectory", () => {
  const used = (cost: number | null) => ({ type: "used", usage: { provider: "acme", model: "m-1", cost_usd: cost } });
  const turns = turnsOf([
    { type: "reasoned", text: "look it up", at_ms: 1 },
    used(0.25),
    { type: "tool-called", tool: "shop:orders", call_id: "1", inputs: { id: 17 } },
    { type: "tool-called", tool: "shop:stock", call_id: "2", inputs: {} },
    { type: "tool-returned", tool: "shop:stock", call_id: "2", status: "error", error: { code: "gone" } },
    { type: "tool-returned", tool: "shop:orders", call_id: "1", status: "ok", outcome: { state: "sent" }, duration_ms: 12 },
    used(0.5),
    { type: "handed-off", to_agent_id: "a.b", reason: "billing" },
    { type: "danced", how: "well" },
  ]);
  test("a tool's call and its answer are one item of their turn", () => {
    expect(turns.map((turn) => [turn.number, turn.items.length])).toEqual([[0, 1], [1, 2], [2, 2]]);
    expect(turns[1]?.items[0]).toMatchObject({ tool: "shop:orders", answered: true, outcome: { state: "sent" }, duration: 12 });
    expect(turns[1]?.items[1]).toMatchObject({ tool: "shop:stock", error: { code: "gone" }, status: "error" });
    expect(turns[2]?.items[1]).toMatchObject({ kind: "other", title: "danced" });
  });
  test("cost", () => {
    expect(costOf(turns)).toEqual({ usd: 0.75, unknown: false });
    expect(costOf(turnsOf([used(null), used(1)]))).toEqual({ usd: 1, unknown: true });
    expect(modelName({ provider: "openai", model: "openai:gpt-5" })).toBe("openai:gpt-5");
    expect(modelName({ provider: "openai", model: "gpt-5" })).toBe("openai:gpt-5");
  });
  test("a conversation shows who spoke, and a message of the user begins a part", () => {
    const talk = turnsOf([
      { type: "said", role: "user", turn: 1, content: "Refund it." },
      used(0.25),
      { type: "said", role: "assistant", turn: 1, content: "Which order?" },
      { type: "said", role: "user", turn: 2, content: "17" },
      used(0.25),
      { type: "said", role: "assistant", turn: 2, content: { state: "done" } },
    ]);
    expect(talk.map((turn) => [turn.number, turn.items.map((item) => (item.kind === "said" ? [item.title, item.text] : item.kind))])).toEqual([
      [0, [["User", "Refund it."]]],
      [1, [["Agent", "Which order?"]]],
      [0, [["User", "17"]]],
      [2, [["Agent", { state: "done" }]]],
    ]);
  });
  test("an answer without a call is shown", () => {
    expect(turnsOf([{ type: "tool-returned", tool: "x", call_id: "9", outcome: 1 }])[0]?.items).toHaveLength(1);
  });
});

test("texts that share almost nothing are shown apart, and JSON is compared by its lines", () => {
  expect(sidesOf(differenceOf("30 days", "I am not sure."))).toEqual(["30 days", "I am not sure."]);
  expect(sidesOf(differenceOf("the quick fox", "the slow fox"))).toBeNull();
  const [left, right] = [{ a: 1, b: "x", c: 3 }, { a: 1, b: "y", c: 3 }].map(comparableText) as [string, string];
  expect(differenceOf(left, right, true).parts).toEqual([
    { kind: "same", text: '{\n  "a": 1,\n' },
    { kind: "expected", text: '  "b": "x",\n' },
    { kind: "actual", text: '  "b": "y",\n' },
    { kind: "same", text: '  "c": 3\n}' },
  ]);
});

describe("a throttle", () => {
  test("never calls before the previous call has ended, and never loses the last call", async () => {
    const ends: (() => void)[] = [];
    const { call, stop } = throttle(() => new Promise<void>((resolve) => ends.push(resolve)), 1);
    call();
    call();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(ends).toHaveLength(1); // the answer is not there yet
    ends[0]?.();
    await vi.waitFor(() => expect(ends).toHaveLength(2), { timeout: 30_000 });
    stop();
    ends[1]?.();
    call();
    expect(ends).toHaveLength(2);
  });
});

test("a run of a part of a suite has no verdict", () => {
  const run = { kind: "agent-eval", status: "completed", passed: null, score: null, total: 2, suiteTotal: 5 };
  expect(verdictOf({ run, bars: [] } as unknown as Overview)).toEqual({ tone: "mute", word: "No verdict", reasons: ["A part of the suite: 2 of 5 tasks."] });
});

describe("the verdict of a run with critical findings", () => {
  const bars = [{ name: "passScore", required: 0.8, observed: 0.9, met: true, decided: false }];
  const overview = (severity: string, status: string, passed: boolean | null) =>
    ({
      run: { kind: "agent-eval", status, passed, score: null },
      bars,
      unmeasured: { error: 0, skipped: 0, neverReached: 0 },
      findings: [{ kind: "secret-leak", severity, count: 4 }],
    }) as unknown as Overview;

  test("is not passed, whatever the score is", () => {
    expect(verdictOf(overview("critical", "completed", true))).toEqual({
      tone: "fail",
      word: "Not passed",
      reasons: ["4 critical findings (secret-leak)."],
    });
    expect(verdictOf(overview("critical", "failed", null)).word).toBe("Not passed");
    expect(verdictOf(overview("medium", "completed", true)).word).toBe("Passed");
  });
});

test.each([
  [true, " ✓"],
  [false, " ✗"],
  [null, " ?"],
])("a trial with the verdict %s has the mark%s", (passed, mark) => expect(trialMark({ passed })).toBe(mark));

describe("filters", () => {
  const columns = [{ index: 2, label: "helpful" }];
  test.each([
    ["tag=warranty", { where: { by: "tag", name: "warranty" } }],
    ["tier = pro", { where: { by: "tier", name: "pro" } }],
    ["score<0.5", { limit: { name: "score", sign: "<", value: 0.5 } }],
    ["latency>2s", { limit: { name: "latency", sign: ">", value: 2_000 } }],
    ["latency > 300 ms", { limit: { name: "latency", sign: ">", value: 300 } }],
    ["check:helpful=fail", { check: { index: 2, outcome: "failed" } }],
    ["check:helpful = passed", { check: { index: 2, outcome: "passed" } }],
    ["check:helpful=error", { check: { index: 2, outcome: "error" } }],
    ["corrected", { corrected: true }],
    ["check:tone=fail", { wrong: "There is no check tone." }],
    ["nonsense", { wrong: expect.stringContaining("A filter is such as") }],
  ])("%s", (text, filter) => expect(filterOf(text, columns)).toEqual(filter));

  test("are in the address and come back from it", () => {
    const where = [{ by: "tag", name: "a,b:c%" }, { by: "$.output.metadata.model", name: "" }];
    const params = new URLSearchParams({ where: whereText(where) ?? "", limits: "score<0.5,latency>2000,bad" });
    const view = viewOf(params);
    expect(view.where).toEqual(where);
    expect(queryOf(view).filter).toEqual({ score: { below: 0.5 }, latencyMs: { above: 2_000 } });
    expect(isSearch(view)).toBe(true);
    expect(whereOf("%E0%A4%A,x")).toEqual([]);
  });

  test("of checks, corrections and a status combine", () => {
    const checks = [{ index: 2, outcome: "failed" as const }, { index: 3, outcome: "passed" as const }];
    expect(checksText(checks)).toBe("2,3:pass");
    const view = viewOf(new URLSearchParams({ check: "2,3:pass,x,4:odd", corrected: "true", show: "failed" }));
    expect(queryOf(view).filter).toEqual({ status: ["failed"], check: checks, corrected: true });
    expect(viewOf(new URLSearchParams({ show: "corrected" }))).toMatchObject({ show: "all", corrected: true });
    expect(checkText(checks[1]!, columns)).toBe("check:3=pass");
    expect(toggledCheck(checks, 2)).toEqual([checks[1]]);
    expect(toggledCheck(checks, 3)).toEqual([checks[0], { index: 3, outcome: "failed" }]);
  });

  test.each([
    [{ by: "tag", name: "b" }, "tier:pro,tag:a,tag:b"],
    [{ by: "tag", name: "a" }, "tier:pro,tag:a"],
    [{ by: "tier", name: "free" }, "tag:a,tier:free"],
    [{ by: "reason", name: "x" }, "tier:pro,tag:a,reason:x"],
  ])("the value %j is added to the others", (slice, text) => expect(whereText(withSlice(whereOf("tier:pro,tag:a"), slice))).toBe(text));
});
