/** The order of a review, and its numbers in words. */
import type { Answer, ReviewCase, ReviewNumbers } from "~/api/review";
import { percent, plural, points } from "~/ui/format";

/** The place of the first case without an answer of mine, from `after` on and then from the beginning; null: all have one. */
export function nextOpen(cases: ReviewCase[], after: number): number | null {
  const order = [...cases.keys()].map((_, at) => (after + at) % cases.length);
  return order.find((at) => cases[at]?.mine === undefined) ?? null;
}

/** The place that the address names, or else that of the first case without an answer of mine. */
export function placeOf(text: string, cases: ReviewCase[]): number {
  const given = /^\d{1,4}$/.test(text) ? Number(text) - 1 : -1;
  return cases[given] === undefined ? (nextOpen(cases, 0) ?? 0) : given;
}

/** Where people or the judge disagree, among the cases that I answered. */
export function disagreements(cases: ReviewCase[]): { at: number; caseId: string; text: string }[] {
  return cases.flatMap((one, at) => {
    if (one.mine === undefined) return [];
    const said = Object.values(one.people ?? {});
    const people = new Set(said).size > 1;
    const judge = one.judge !== one.mine;
    if (!people && !judge) return [];
    const text = people ? `people differ: ${said.map(answerWord).join(", ")}; judge ${answerWord(one.judge)}` : `you ${answerWord(one.mine)}, judge ${answerWord(one.judge)}`;
    return [{ at, caseId: one.caseId, text }];
  });
}

export function answerWord(answer: Answer | undefined): string {
  return answer === undefined ? "nothing" : typeof answer === "string" ? answer : answer ? "pass" : "fail";
}

const fixed = (value: number, digits: number) => value.toFixed(digits).replace("-", "−");

export function kappaText({ kappa, low, high, why, cases }: ReviewNumbers): string {
  if (cases === 0) return "no answer yet";
  if (kappa === null) return why;
  const limits = low === null || high === null ? "" : ` (95% ${fixed(low, 2)}…${fixed(high, 2)})`;
  return `Cohen's κ ${fixed(kappa, 2)}${limits}`;
}

/** The bias is the difference of two pass rates, so it is in points. */
export function biasText({ bias, biasLow, biasHigh }: ReviewNumbers): [string, string] {
  if (bias === null || biasLow === null || biasHigh === null) return ["–", "not known yet"];
  const side = biasLow > 0 ? "the judge passes more than people" : biasHigh < 0 ? "the judge passes fewer than people" : "no bias is shown";
  return [points(bias), `95% ${points(biasLow).replace(" points", "")}…${points(biasHigh).replace(" points", "")}: ${side}`];
}

export function rateText(numbers: ReviewNumbers): [string, string] {
  const { rate, rateLow, rateHigh, rateLabels, rateWhy, judgedRate } = numbers;
  const judge = judgedRate === null ? "" : `${percent(judgedRate)} by the judge`;
  if (rate === null || rateLow === null || rateHigh === null) return ["–", [judge, rateWhy].filter(Boolean).join("; ")];
  return [percent(rate), `95% ${percent(rateLow).replace("%", "")}…${percent(rateHigh)}, by the first ${rateLabels} drawn; ${judge}`];
}

/** `People agree with it in 83.3% of 30 cases (Cohen's κ 0.62); the judge passes more than people.` */
export function judgeText(numbers: ReviewNumbers, noun = "case"): string {
  if (numbers.agreement === null) return "Nobody has checked it in this run.";
  const [, bias] = biasText(numbers);
  const side = numbers.bias === null ? "" : `; ${bias.split(": ").at(-1)}`;
  return `People agree with it in ${percent(numbers.agreement)} of ${plural(numbers.cases, noun)} (${kappaText(numbers)})${side}.`;
}
