/** The words and signs of a comparison. */
import type { Change, ChangeFilter, CompareVerdict, ComparisonView, DifferenceInterval, InBoth, PairComparison, SliceDifference } from "~/api/comparison";
import type { Tone } from "~/ui";
import { caseValue, count, MISSING, percent } from "~/ui/format";

type VerdictWord = CompareVerdict | "no change";

export const VERDICT_TONE: Record<VerdictWord, Tone> = {
  improved: "pass",
  regressed: "fail",
  equivalent: "live",
  "not enough data": "warn",
  "no change": "mute",
};

/** The verdict for a reader, as the terminal has it. Where nothing differs, what is missing is not data. */
export function verdictWord({ same, verdict }: DifferenceInterval): VerdictWord {
  return same === true && verdict === "not enough data" ? "no change" : verdict;
}

/** Why the verdict is what it is. */
export const VERDICT_WHY: Record<VerdictWord, string> = {
  improved: "The whole interval is on the better side of no difference.",
  regressed: "The whole interval is on the worse side of no difference.",
  equivalent: "The whole interval is within the margin.",
  "no change": "Every case has the same result in both runs.",
  "not enough data": "These cases show neither a gain nor a loss. It does not mean that the runs are equal.",
};

/** Metrics that are not checks, as a reader calls them. */
export const METRIC_NAMES: Record<string, string> = {
  passed: "Passed",
  score: "Score",
  cost_usd: "Cost, system",
  judges_usd: "Cost, judges",
  latency_ms: "Latency, mean",
  "latency_ms:median": "Latency, median",
  "latency_ms:p95": "Latency, p95",
};

/** The menu of metrics: those that the runs have, and the chosen one. Until a comparison says what they have, all that are no checks. */
export function metricOptions(view: ComparisonView | undefined, metric: string): (readonly [string, string])[] {
  const shared = view && new Set(view.pairs.flatMap((pair) => pair.metric_names ?? []));
  const fixed = Object.keys(METRIC_NAMES).filter((name) => shared === undefined || shared.has(name.startsWith("latency_ms") ? "latency_ms:p95" : name));
  const names = [...fixed, ...(view?.checks ?? []).filter((one) => !(one in METRIC_NAMES))];
  const all = metric === "" || names.includes(metric) ? names : [...names, metric];
  return [["", "Default metric"], ...all.map((name) => [name, METRIC_NAMES[name] ?? name] as const)];
}

export const NO_SLICES = "none";

/** The menu of slices: what the cases can be sliced by, and the chosen one. `byTag`: without a choice they are by tag. */
export function groupingOptions(groupings: string[], by: string, byTag = false): (readonly [string, string])[] {
  const all = by === "" || by === NO_SLICES || groupings.includes(by) ? groupings : [...groupings, by];
  const named = all.map((name) => [name, `By ${name}`] as const);
  return byTag || by === NO_SLICES ? [["", "By tag"], ...named.filter(([name]) => name !== "tag" || by === "tag"), [NO_SLICES, "No slices"]] : [["", "No slices"], ...named];
}

export const CHANGE_WORD: Record<Change, string> = {
  worse: "Regressed",
  better: "Improved",
  unchanged: "Same",
  unmeasured: "Not measured",
  only_in_baseline: "Only before",
  only_in_run: "Only after",
};

export const CHANGE_TONE: Record<Change, Tone> = {
  worse: "fail",
  better: "pass",
  unchanged: "mute",
  unmeasured: "warn",
  only_in_baseline: "mute",
  only_in_run: "mute",
};

/** Lists that are not always offered: they show the cases of a number. */
export const LIST_NAMES: Record<InBoth, string> = { passed_in_both: "Pass in both", failed_in_both: "Fail in both" };

/** The lists of a pair with their lengths. Empty ones are left out, except those that a reader looks for first. */
export function filtersOf(pair: PairComparison): [ChangeFilter, string, number][] {
  const all: [ChangeFilter, string, number][] = [
    ["changed", "Changed", pair.worse + pair.better],
    ["worse", "Regressed", pair.worse],
    ["better", "Improved", pair.better],
    ["unchanged", "Same", pair.unchanged],
    ["unmeasured", "Not measured", pair.unmeasured.count],
    ["only_in_baseline", "Only before", pair.only_in_baseline.count],
    ["only_in_run", "Only after", pair.only_in_run.count],
    ["other_inputs", "Another input", pair.other_inputs.count],
  ];
  if (pair.unpaired) return all.filter(([name, , count]) => name === "only_in_run" || (count > 0 && !PAIRED.includes(name)));
  return all.filter(([name, , count], index) => index < 4 || count > 0 || name === "changed");
}

const PAIRED: ChangeFilter[] = ["changed", "worse", "better", "unchanged", "other_inputs"]; // lists of paired runs alone

/** The list that is shown first. */
export function firstFilter(pair: PairComparison): ChangeFilter {
  return pair.unpaired ? "only_in_run" : "changed";
}

/** How many cases a difference is of; of each run, if they are not paired. */
export function casesText({ cases, cases_before: before, cases_after: after }: DifferenceInterval): string {
  return before === undefined || after === undefined ? count(cases) : `${count(before)} and ${count(after)}`;
}

/** The slices that regressed, and those that only fell, the worst of each first, as the server orders them. */
export function fellIn<S extends SliceDifference>(slices: S[], lowerIsBetter: boolean): { regressed: S[]; fell: S[] } {
  const falls = (slice: S) => (slice.result.difference ?? 0) * (lowerIsBetter && !["check", "criterion"].includes(slice.by) ? -1 : 1) < 0;
  return { regressed: slices.filter((slice) => slice.result.verdict === "regressed"), fell: slices.filter(falls) };
}

/** The value of one of the runs: a share of cases in percent, any other number as it is. */
export function endText(result: DifferenceInterval, value: number | null): string {
  return result.share === true ? percent(value) : caseValue(value);
}

export function differenceText(before: number | undefined, after: number | undefined): string {
  if (before === undefined || after === undefined) return MISSING;
  const difference = after - before;
  return `${difference > 0 ? "+" : ""}${caseValue(difference)}`;
}
