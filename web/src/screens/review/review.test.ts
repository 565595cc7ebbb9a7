import { describe, expect, test } from "vitest";

import type { ReviewCase, ReviewNumbers } from "~/api/review";
import { biasText, disagreements, judgeText, kappaText, nextOpen, rateText } from "./words";

const open = (id: string): ReviewCase => ({ position: 0, caseId: id });
const done = (id: string, mine: boolean, judge: boolean, people: Record<string, boolean> = { me: mine }): ReviewCase => ({ ...open(id), mine, judge, people, answers: Object.keys(people).length });
const NOTHING: ReviewNumbers = { agreement: null, kappa: null, low: null, high: null, why: "", cases: 0, judgedRate: 0.72, bias: null, biasLow: null, biasHigh: null, rate: null, rateLow: null, rateHigh: null, rateLabels: 0, rateWhy: "30 of 30 drawn cases have no label" };

describe("the order of a review", () => {
  test.each([
    [[open("a"), open("b")], 0, 0],
    [[done("a", true, true), open("b")], 0, 1],
    [[open("a"), done("b", true, true)], 1, 0],
    [[done("a", true, true)], 0, null],
    [[], 0, null],
  ])("the next case without an answer of %j from %d is %j", (cases, after, next) => expect(nextOpen(cases, after)).toBe(next));

  test("disagreements with the judge and among people are listed, agreements and open cases are not", () => {
    const cases = [done("a", true, true), done("b", true, false), open("c"), done("d", true, true, { me: true, bob: false })];
    expect(disagreements(cases)).toEqual([
      { at: 1, caseId: "b", text: "you pass, judge fail" },
      { at: 3, caseId: "d", text: "people differ: pass, fail; judge pass" },
    ]);
  });
});

describe("numbers of a review", () => {
  test("nothing is known before the first answer", () => {
    expect([kappaText(NOTHING), biasText(NOTHING), rateText(NOTHING)]).toEqual(["no answer yet", ["–", "not known yet"], ["–", "72.0% by the judge; 30 of 30 drawn cases have no label"]]);
  });

  test("they have their intervals, and a kappa that is undefined says why", () => {
    const known = { ...NOTHING, cases: 12, kappa: 0.7136, low: 0.421, high: 0.95, bias: -0.1, biasLow: -0.3, biasHigh: 0.1, rate: 0.648, rateLow: 0.479, rateHigh: 0.805, rateLabels: 12, rateWhy: "" };
    expect(kappaText(known)).toBe("Cohen's κ 0.71 (95% 0.42…0.95)");
    expect(biasText(known)).toEqual(["−10.0 points", "95% −30.0…+10.0: no bias is shown"]); // the interval has 0 in it
    expect(biasText({ ...known, biasHigh: -0.02 })[1]).toBe("95% −30.0…−2.0: the judge passes fewer than people");
    expect(rateText(known)).toEqual(["64.8%", "95% 47.9…80.5%, by the first 12 drawn; 72.0% by the judge"]);
    expect(kappaText({ ...NOTHING, cases: 3, why: "undefined: all answers are in one category" })).toContain("undefined");
  });
});

test("what people say about a judge stands beside its failures", () => {
  expect(judgeText(NOTHING)).toBe("Nobody has checked it in this run.");
  const some = { ...NOTHING, agreement: 0.83, kappa: 0.62, cases: 30, bias: 0.1, biasLow: 0.02, biasHigh: 0.2 };
  expect(judgeText(some)).toBe("People agree with it in 83.0% of 30 cases (Cohen's κ 0.62); the judge passes more than people.");
});
