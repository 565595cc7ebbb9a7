/** Two trajectories beside each other: equal steps in one line, and where they part. */
import { diffArrays } from "diff";
import type { Step } from "~/api/cases";
import { textOf } from "~/content/shapes";
import { comparableText } from "~/screens/run/difference";
import { isFailed, type Item, turnsOf } from "~/screens/run/trajectory";

/** What differs, in the words of `assay diff`. */
export type Parting = "another tool" | "other arguments" | "another result of the tool" | "another step";

/** What an agent did at one step. `key` and `result.key` are what is compared. */
interface Action {
  tool: string; // "": a message or a hand-off
  text: string;
  key: string;
  result: { word: string; text: string; key: string } | null; // of a tool
  failed: boolean;
}

export interface StepSide {
  text: string;
  result: { word: string; text: string } | null;
  failed: boolean;
}

export interface AlignedStep {
  before: StepSide | null; // null: only the other agent did it
  after: StepSide | null;
  parted: boolean;
}

export interface Alignment {
  rows: AlignedStep[];
  parting: { after: number; word: Parting } | null; // null: both did the same
  bounded: boolean; // only the first MAX_STEPS are compared
}

export const MAX_STEPS = 500;
const SHOWN = 300; // characters of a step or a result
const CONTEXT = 20; // characters before the first difference of two long ones

/** Two trajectories, aligned by what the agents did. A result of a tool that differs parts them too; a time or a thought does not. */
export function alignedSteps(before: readonly Step[], after: readonly Step[]): Alignment {
  const [left, right] = [actionsOf(before), actionsOf(after)];
  const bounded = Math.max(left.length, right.length) > MAX_STEPS;
  const [first, second] = [left.slice(0, MAX_STEPS), right.slice(0, MAX_STEPS)];
  const rows = pairsOf(first, second).map(([one, other]) => ({ ...sidesOf(one, other), parted: one === null || other === null || partingOf(one, other) !== null }));
  const at = rows.findIndex((row) => row.parted);
  return { rows, bounded, parting: at < 0 ? null : { after: at, word: partingOf(first[at], second[at]) ?? "another step" } };
}

/** What both agents did: tools with their arguments and answers, hand-offs and messages; not what they thought. */
function actionsOf(steps: readonly Step[]): Action[] {
  return turnsOf(steps)
    .flatMap((turn) => turn.items)
    .filter((item) => item.kind !== "reasoned")
    .map(actionOf);
}

function actionOf(item: Item): Action {
  if (item.kind !== "tool") return { tool: "", ...namedTexts(item.title, item.text), result: null, failed: false };
  const { answered, error, outcome, status } = item;
  const word = answered ? (error === undefined ? "answer" : "error") : "no answer";
  const value = error ?? outcome ?? (answered ? status : "");
  return { tool: item.tool, ...namedTexts(item.tool, item.inputs), result: { word, text: textOf(value), key: comparableText([answered, outcome, error, status]) }, failed: isFailed(item) };
}

function namedTexts(name: string, value: unknown): { text: string; key: string } {
  return { text: `${name} ${textOf(value ?? "")}`.trim(), key: comparableText([name, value]) };
}

/** The actions of both agents in one order; those that are equal, apart from the result of a tool, are a pair. */
function pairsOf(before: Action[], after: Action[]): [Action | null, Action | null][] {
  const changes = diffArrays(before.map((one) => one.key), after.map((one) => one.key));
  const [left, right] = [before.values(), after.values()];
  const take = (from: Iterator<Action>, count: number): Action[] => Array.from({ length: count }, () => from.next().value as Action);
  const pairs: [Action | null, Action | null][] = [];
  let removed: Action[] = [];
  const add = (added: Action[]) => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) pairs.push([removed[at] ?? null, added[at] ?? null]);
    removed = [];
  };
  for (const { removed: only, added, value } of changes) {
    if (only) removed = take(left, value.length);
    else if (added) add(take(right, value.length));
    else {
      add([]);
      removed = take(left, value.length);
      add(take(right, value.length));
    }
  }
  add([]);
  return pairs;
}

function partingOf(before: Action | undefined, after: Action | undefined): Parting | null {
  if (before === undefined || after === undefined || Boolean(before.tool) !== Boolean(after.tool)) return "another step";
  if (before.tool !== after.tool) return "another tool";
  if (before.key !== after.key) return before.tool ? "other arguments" : "another step";
  return before.result?.key === after.result?.key ? null : "another result of the tool";
}

function sidesOf(before: Action | null, after: Action | null): { before: StepSide | null; after: StepSide | null } {
  const [left, right] = shownTexts(before?.text ?? "", after?.text ?? "");
  const [answer, other] = shownTexts(before?.result?.text ?? "", after?.result?.text ?? "");
  const side = (action: Action | null, text: string, result: string): StepSide | null =>
    action && { text, result: action.result && { word: action.result.word, text: result }, failed: action.failed };
  return { before: side(before, left, answer), after: side(after, right, other) };
}

/** The beginning of two texts; of long ones that are equal there, the place where they differ. */
function shownTexts(left: string, right: string): [string, string] {
  let at = 0;
  while (at < left.length && left[at] === right[at]) at += 1;
  const from = left !== right && at > SHOWN - CONTEXT ? at - CONTEXT : 0;
  const cut = (text: string) => `${from > 0 ? "…" : ""}${text.slice(from, from + SHOWN)}${text.length > from + SHOWN ? "…" : ""}`;
  return [cut(left), cut(right)];
}
