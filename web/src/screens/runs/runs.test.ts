import { expect, test } from "vitest";
import type { RunRow } from "~/api/runs";
import { clock } from "~/ui/format";
import { factsApart } from "./apart";

const NOW = new Date(2026, 10, 19, 12, 0, 0).getTime();
const at = (...time: [number, number, number, number?]) => new Date(2026, 10, ...time).toISOString();
const run = (runId: string, more: Partial<RunRow> = {}) => ({ runId, kind: "evaluation", name: "talk", createdAt: at(19, 9, 5), ...more }) as RunRow;

test.each([
  [at(19, 9, 5, 7), false, "09:05"],
  [at(19, 9, 5, 7), true, "09:05:07"],
  [at(18, 9, 5, 7), false, "18 Nov, 09:05"],
  [new Date(2025, 10, 18, 9, 5).toISOString(), false, "18 Nov 2025, 09:05"],
  ["never", false, "–"],
])("%s is %s %s on a clock", (iso, seconds, text) => expect(clock(iso, NOW, seconds)).toBe(text));

test.each<[string, RunRow[], string[][]]>([
  ["one run of its name has nothing beside it", [run("a"), run("b", { name: "other" })], [[], []]],
  ["another kind is another name", [run("a"), run("b", { kind: "agent-eval" })], [[], []]],
  ["the time", [run("a"), run("b", { createdAt: at(18, 9, 5) })], [["09:05"], ["18 Nov, 09:05"]]],
  ["the seconds, where the minute is the same", [run("a", { createdAt: at(19, 9, 5, 1) }), run("b", { createdAt: at(19, 9, 5, 9) })], [["09:05:01"], ["09:05:09"]]],
  ["the id, where nothing else does", [run("eval_00000000000001"), run("eval_00000000000002")], [["09:05:00", "…00000001"], ["09:05:00", "…00000002"]]],
  [
    "what differs, and not what is the same",
    [
      run("a", { agentVersion: "1.0", models: ["m-1"], tags: ["night", "prompt=v1"], suiteVersion: "2" }),
      run("b", { agentVersion: "1.1", models: ["m-1"], tags: ["night", "prompt=v2", "name=x"], suiteVersion: "2", createdAt: at(18, 9, 5) }),
    ],
    [
      ["1.0", "prompt=v1", "09:05"],
      ["1.1", "prompt=v2", "18 Nov, 09:05"],
    ],
  ],
  [
    "a commit, and that files were changed",
    [run("a", { commit: { id: "1f3a9c2b7d", clean: true } }), run("b", { commit: { id: "1f3a9c2b7d", clean: false }, createdAt: at(18, 9, 5) })],
    [
      ["1f3a9c2", "09:05"],
      ["1f3a9c2 + changes", "18 Nov, 09:05"],
    ],
  ],
])("runs of one name are told apart by %s", (_, runs, facts) => {
  const found = factsApart(runs, NOW);
  expect(runs.map((one) => found.get(one.runId))).toEqual(facts);
});
