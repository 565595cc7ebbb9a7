/** The verdict of a run and the state of a case, in words. */

import type { Bar, CaseRow, CaseStatus, CheckCell, Overview, TrialDetail } from "~/api/cases";
import { count, plural } from "~/ui/format";

export type Tone = "pass" | "fail" | "warn" | "live" | "mute";

export const STATUS_TONE: Record<CaseStatus, Tone> = {
  passed: "pass",
  failed: "fail",
  ungraded: "mute",
  error: "warn",
  skipped: "mute",
};

export const STATUS_WORD: Record<CaseStatus, string> = {
  passed: "Passed",
  failed: "Failed",
  ungraded: "No verdict",
  error: "Not measured",
  skipped: "Not run",
};

export interface Verdict {
  tone: Tone;
  word: string;
  reasons: string[]; // the bar that decided, or why there is no verdict
}

interface BarWords {
  noun: string;
  low: boolean; // a value below the bar fails
}

const BARS: Record<string, BarWords> = {
  passScore: { noun: "score", low: true },
  maxCostUsd: { noun: "cost", low: false },
  maxP95LatencyMs: { noun: "p95 latency", low: false },
};

/** `score at least 0.700`. */
export function barText(bar: Bar): string {
  const { noun, low } = BARS[bar.name] ?? { noun: bar.name, low: true };
  return `${noun} ${low ? "at least" : "at most"} ${bar.requiredText}`;
}

/** Why a bar was met or not. */
export function barSentence(bar: Bar): string {
  const { noun, low } = BARS[bar.name] ?? { noun: bar.name, low: true };
  const required = bar.requiredText;
  if (bar.observedText === null) return `The ${noun} is not known, and the bar is ${required}.`;
  const observed = bar.observedText;
  if (bar.met) return `The ${noun} ${observed} meets the bar of ${required}.`;
  return `The ${noun} ${observed} is ${low ? "below" : "above"} the bar of ${required}.`;
}

/** The verdict of a run, and why. */
export function verdictOf(overview: Overview): Verdict {
  const { run, bars } = overview;
  const decided = bars.filter((bar) => bar.decided);
  const noun = nounOf(overview);
  const critical = criticalFindings(overview);
  if (run.status === "cancelled") return { tone: "mute", word: "Cancelled", reasons: ["The run was cancelled. There is no verdict."] };
  if (run.status === "failed") {
    const left = unmeasuredCount(overview);
    const why = run.error?.message ? [run.error.message] : [];
    if (left > 0) why.push(`${plural(left, noun)} ${left === 1 ? "was" : "were"} not measured, so there is no verdict.`);
    if (critical !== null) return { tone: "fail", word: "Not passed", reasons: [critical, ...why] };
    return { tone: "warn", word: "No verdict", reasons: why.length > 0 ? why : ["The run failed."] };
  }
  if (run.status !== "completed") return { tone: "live", word: "In progress", reasons: ["The verdict follows the last result."] };
  if (critical !== null) return { tone: "fail", word: "Not passed", reasons: [critical, ...decided.map(barSentence)] };
  if (run.suiteTotal !== undefined) return { tone: "mute", word: "No verdict", reasons: [`A part of the suite: ${run.total} of ${plural(run.suiteTotal, "task")}.`] };
  if (run.passed === null) return { tone: "mute", word: "No bar", reasons: [run.score === null ? "There is no score, and no bar." : "The run has a score, but no bar to pass."] };
  if (run.passed) return { tone: "pass", word: "Passed", reasons: bars.map(barSentence) };
  return { tone: "fail", word: "Not passed", reasons: decided.map(barSentence) };
}

/** "4 critical findings (secret-leak).": a run with one does not pass, whatever its score is. */
function criticalFindings({ findings }: Overview): string | null {
  const critical = (findings ?? []).filter((one) => one.severity === "critical" && one.count > 0);
  if (critical.length === 0) return null;
  const total = critical.reduce((sum, one) => sum + one.count, 0);
  return `${plural(total, "critical finding")} (${critical.map((one) => one.kind).join(", ")}).`;
}

/** Whether the interval of the score has the bar inside, so that another run could decide the other way. */
export function isClose(overview: Overview): boolean {
  const bar = overview.bars.find((one) => one.name === "passScore");
  const { score: value, passed } = overview.run;
  if (bar === undefined || passed === null || !value || value.low === null || value.high === null) return false;
  return value.low < bar.required && bar.required <= value.high;
}

export function unmeasuredCount({ unmeasured }: Overview): number {
  return unmeasured.error + unmeasured.skipped + unmeasured.neverReached;
}

/** "task" of an agent eval, "case" of an evaluation. */
export function nounOf({ run }: Pick<Overview, "run">): "task" | "case" {
  return run.kind === "agent-eval" ? "task" : "case";
}

export interface CellText {
  tone: Tone;
  text: string; // for a cell of the matrix
  title: string; // in words
}

/** A cell of the matrix: a mark for one trial, k/N for several. */
export function cellText(cell: CheckCell | null): CellText {
  if (cell === null) return { tone: "mute", text: "", title: "this check does not apply" };
  const total = cell.passed + cell.failed + cell.error + cell.skipped + cell.ungraded;
  const tone = cellTone(cell);
  const words = (Object.entries(cell) as [keyof CheckCell, number][]).filter(([, many]) => many > 0).map(([name, many]) => `${many} ${CELL_WORD[name]}`);
  if (total <= 1) return { tone, text: CELL_MARK[tone], title: words.map((word) => word.slice(2)).join("") };
  return { tone, text: `${cell.passed}/${total}`, title: `${words.join(", ")} of ${plural(total, "trial")}` };
}

const CELL_WORD: Record<keyof CheckCell, string> = {
  passed: "passed",
  failed: "failed",
  error: "not measured",
  skipped: "not run",
  ungraded: "without a verdict",
};
const CELL_MARK: Record<Tone, string> = { pass: "pass", fail: "fail", warn: "error", live: "", mute: "–" };

function cellTone(cell: CheckCell): Tone {
  if (cell.failed > 0) return "fail";
  if (cell.error > 0) return "warn";
  return cell.passed > 0 && cell.skipped === 0 ? "pass" : "mute";
}

/** Whether a trial passed; its checks and criteria alone do not say it. */
export function trialMark({ passed }: Pick<TrialDetail, "passed">): string {
  return passed === null ? " ?" : passed ? " ✓" : " ✗";
}

/** Trials count from 1 for a reader, in the address too. */
export function trialNumber({ trial }: Pick<TrialDetail, "trial">): string {
  return String(trial + 1);
}

/** The trial that a reader looks for first. */
export function firstFailing(trials: readonly TrialDetail[]): TrialDetail | undefined {
  return trials.find((one) => one.passed === false) ?? trials.find((one) => one.passed === null) ?? trials[0];
}

/** `2/3` trials of a task; "" if it has one. */
export function trialsText(row: CaseRow): string {
  return row.trials.total > 1 ? `${row.trials.passed}/${row.trials.total}` : "";
}

/** The numbers of a run as one line of text, for a title and a screen reader. */
export function countsText(counts: { passed: number; failed: number; ungraded: number; error: number; skipped: number }): string {
  const parts = [
    `${count(counts.passed)} passed`,
    `${count(counts.failed)} failed`,
    ...(counts.ungraded > 0 ? [`${count(counts.ungraded)} without a verdict`] : []),
    ...(counts.error + counts.skipped > 0 ? [`${count(counts.error + counts.skipped)} not measured`] : []),
  ];
  return parts.join(", ");
}
