/** Questions to people and the state of a loop, in words. */
import type { LoopTurn, TurnLog } from "~/api/decisions";
import type { Tone } from "~/ui";
import { duration, MISSING } from "~/ui/format";

export function deadlineText(deadline: string | null | undefined, now = Date.now()): string {
  if (!deadline) return MISSING;
  const left = Date.parse(deadline) - now;
  return left > 0 ? duration(Math.round(left / 60_000) * 60_000 || left) : "over";
}

interface Meaning {
  title: string;
  accept: string; // what it does
  reject: string;
  acceptLabel: string;
  rejectLabel: string;
}

const END = "End as failed";

/** What a person decides, and what each answer does. */
const MEANING: Record<string, Meaning> = {
  retry: {
    title: "A critic rejects this result",
    accept: "The actor gets another turn. The rejected result is never committed.",
    reject: "The run ends as failed.",
    acceptLabel: "Let it try again",
    rejectLabel: END,
  },
  result: {
    title: "The confidence in this result is below its floor",
    accept: "The result is committed.",
    reject: "The run ends as failed.",
    acceptLabel: "Commit the result",
    rejectLabel: END,
  },
  decision: {
    title: "The supervisor is unsure about its decision",
    accept: "The decision is carried out.",
    reject: "The run ends as failed.",
    acceptLabel: "Carry it out",
    rejectLabel: END,
  },
  outputs: {
    title: "A child run has outputs to merge",
    accept: "The outputs are merged.",
    reject: "The outputs are dropped.",
    acceptLabel: "Merge the outputs",
    rejectLabel: "Drop the outputs",
  },
  question: { title: "An agent asks a question", accept: "", reject: "", acceptLabel: "", rejectLabel: "" },
};

/** An approval that no other entry describes. */
const GATE: Meaning = { title: "An approval is needed", accept: "The run continues.", reject: "The run ends as failed.", acceptLabel: "Let it continue", rejectLabel: END };

export function meaningOf(about: string): Meaning {
  return MEANING[about] ?? GATE;
}

/** The answer that a person gave, in the words of the button. */
export function answerWord(action: string | null, about: string): string {
  const { acceptLabel, rejectLabel } = meaningOf(about);
  const words: Record<string, string> = { accept: acceptLabel, "edit-accept": "Carry out as changed", reject: rejectLabel, timeout: "No answer in time", answer: "Answered" };
  return words[action ?? ""] ?? action ?? "";
}

export const TURN_STATE: Record<LoopTurn["state"], [Tone, string]> = {
  working: ["live", "Working"],
  waiting: ["warn", "Waits for a person"],
  committed: ["pass", "Committed"],
  withheld: ["mute", "Withheld"],
  failed: ["fail", "No result"],
};

export const VERDICT: Record<string, [Tone, string]> = {
  pass: ["pass", "pass"],
  revise: ["warn", "revise"],
  fail: ["fail", "fail"],
};

export const OUT_OF_TURNS = "loop_limit_exceeded";

/** Why a loop failed, in words. */
export function failureText({ report, total }: TurnLog): string {
  if (!report.error) return "";
  if (report.error.code === OUT_OF_TURNS) return `The loop used all of its turns (${total}), and no critic accepted a result.`;
  return `${report.error.code}: ${report.error.message}`;
}

/** How the loop ended, or where it is. A give-up is never a success, whatever the status of the run. */
export function outcomeOf(log: TurnLog): [Tone, string] {
  const { report, end } = log;
  if (report.goalSatisfied) return ["pass", "Goal reached"];
  if (end?.gaveUp) return ["fail", "Gave up"];
  if (report.status === "completed") return ["warn", "Goal not reached"];
  if (report.status === "failed") return ["fail", report.error?.code === OUT_OF_TURNS ? "No turn left" : "Failed"];
  if (report.status === "cancelled") return ["mute", "Cancelled"];
  return report.waiting ? ["warn", "Waits for a person"] : ["live", "Running"];
}
