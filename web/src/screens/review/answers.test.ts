// @vitest-environment happy-dom
import { expect, test, vi } from "vitest";

import type { ReviewCase } from "~/api/review";
import { AnswerLine, type Given } from "./answers";

const LONG = { timeout: 120_000 }; // of a machine that is busy with other things
const cases: ReviewCase[] = ["a", "b", "c"].map((caseId, position) => ({ caseId, position }));
const [a, b, c] = cases as [ReviewCase, ReviewCase, ReviewCase];

/** A line whose answers arrive when the test says so. */
function slowLine() {
  const asked: { given: Given; done: (problem?: Error) => void }[] = [];
  const line = new AnswerLine(
    (given) => new Promise<void>((resolve, reject) => asked.push({ given, done: (problem) => (problem ? reject(problem) : resolve()) })),
    () => undefined,
  );
  return { line, asked };
}

test("answers that come faster than the server takes them are all sent, in order, each for its own case", async () => {
  const { line, asked } = slowLine();
  line.give({ one: a, passed: true, note: "" });
  line.give({ one: b, passed: false, note: "why" });
  line.give({ one: c, passed: true, note: "" });
  line.give({ one: a, passed: false, note: "" }); // a second thought
  expect(line.over(cases).map((one) => one.mine)).toEqual([false, false, true]); // before the server has any
  for (const [at, [id, passed]] of ([["a", true], ["b", false], ["c", true], ["a", false]] as const).entries()) {
    await vi.waitFor(() => expect(asked).toHaveLength(at + 1), LONG);
    expect([asked[at]?.given.one.caseId, asked[at]?.given.passed]).toEqual([id, passed]);
    asked[at]?.done();
  }
});

test("an answer that the server does not take stays open with its problem, and can be sent again", async () => {
  const { line, asked } = slowLine();
  line.give({ one: a, passed: true, note: "" });
  await vi.waitFor(() => expect(asked).toHaveLength(1), LONG);
  asked[0]?.done(new Error("The server is gone."));
  await vi.waitFor(() => expect(line.failures()).toHaveLength(1), LONG);
  expect(line.over(cases)[0]?.mine).toBeUndefined();
  line.give({ one: a, passed: true, note: "" });
  expect(line.failures()).toEqual([]);
  await vi.waitFor(() => expect(asked).toHaveLength(2), LONG);
});
