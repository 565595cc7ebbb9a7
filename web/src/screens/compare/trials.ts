/** Which trials of a case in two runs stand beside each other. */
import type { TrialDetail } from "~/api/cases";
import { firstFailing, trialMark, trialNumber } from "~/screens/run/words";

type Pair = [before: TrialDetail | undefined, after: TrialDetail | undefined];

/** A trial that both runs have and that failed in one of them; else the first failing trial of each; else the first of both. */
export function trialPair(before: readonly TrialDetail[] = [], after: readonly TrialDetail[] = []): Pair {
  const pairs = before.flatMap((one): [TrialDetail, TrialDetail][] => {
    const other = after.find(({ trial }) => trial === one.trial);
    return other === undefined ? [] : [[one, other]];
  });
  const failed = pairs.filter((pair) => pair.some(({ passed }) => passed === false));
  const apart = failed.find(([one, other]) => one.passed !== other.passed) ?? failed[0];
  if (apart !== undefined) return apart;
  const ownFailure = [...before, ...after].some(({ passed }) => passed === false); // of a trial that the other run does not have
  const both = pairs.find((pair) => pair.some(({ passed }) => passed === null)) ?? pairs[0];
  return ownFailure || both === undefined ? [firstFailing(before), firstFailing(after)] : both;
}

/** `Before: trial 2 of 3 ✗. After: trial 2 of 3 ✓.` Null: neither run has several trials. */
export function pairText([before, after]: Pair, totals: readonly [number, number]): string | null {
  if (Math.max(...totals) < 2) return null;
  const side = (name: string, trial: TrialDetail | undefined, total: number) => (trial === undefined ? [] : [`${name}: trial ${trialNumber(trial)} of ${total}${trialMark(trial)}.`]);
  return [...side("Before", before, totals[0]), ...side("After", after, totals[1])].join(" ");
}
