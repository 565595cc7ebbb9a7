/** The difference between what was expected and what came, as parts of one text. Its work is bounded. */

import { diffArrays } from "diff";

export type PartKind = "same" | "expected" | "actual";

export interface Part {
  kind: PartKind;
  text: string;
}

export interface Difference {
  parts: Part[];
  bounded: boolean; // the middle was too different to compare word by word
}

const MAX_TEXT = 200_000; // characters of each side that are compared
const MAX_EDITS = 1_500;
const MAX_MILLISECONDS = 150;
const WORDS = /[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;
const LINES = /[^\n]*\n|[^\n]+$/g;

/** The parts of both texts, in order. The equal beginning and end are found first, so that one change in a long text is cheap. */
export function differenceOf(expected: string, actual: string, byLine = false): Difference {
  const left = expected.slice(0, MAX_TEXT);
  const right = actual.slice(0, MAX_TEXT);
  const cut = left.length < expected.length || right.length < actual.length;
  const head = byLine ? left.slice(0, commonHead(left, right)).lastIndexOf("\n") + 1 : commonHead(left, right);
  const tail = byLine ? lineTail(left, commonTail(left, right, head)) : commonTail(left, right, head);
  const middle = compare(left.slice(head, left.length - tail), right.slice(head, right.length - tail), byLine);
  const parts = readable(
    join([
      { kind: "same", text: left.slice(0, head) },
      ...middle.parts,
      { kind: "same", text: left.slice(left.length - tail) },
    ]),
  );
  return { parts, bounded: middle.bounded || cut };
}

const FAINT = /^[\s\p{P}]{1,3}$/u;

/** A space or a comma between two changes belongs to them, so that a reader sees two phrases and not the words of both by turns. */
function readable(parts: Part[]): Part[] {
  const grouped: Part[] = [];
  let left = "";
  let right = "";
  const flush = () => {
    grouped.push(...sides(left, right));
    left = right = "";
  };
  parts.forEach((part, at) => {
    if (part.kind === "expected") left += part.text;
    else if (part.kind === "actual") right += part.text;
    else if ((left || right) && at < parts.length - 1 && FAINT.test(part.text) && !part.text.includes("\n")) {
      left += part.text;
      right += part.text;
    } else {
      flush();
      grouped.push(part);
    }
  });
  flush();
  return join(grouped);
}

/** Both texts apart, if they share so little that their difference cannot be read; null if it can. */
export function sidesOf({ parts }: Difference): [string, string] | null {
  const weigh = (kinds: PartKind[]) => parts.reduce((sum, part) => sum + (kinds.includes(part.kind) ? part.text.replace(/[\s\p{P}]/gu, "").length : 0), 0);
  const same = weigh(["same"]);
  if (same > 0.3 * Math.min(same + weigh(["expected"]), same + weigh(["actual"]))) return null;
  const text = (other: PartKind) => parts.filter((part) => part.kind !== other).map((part) => part.text).join("");
  return [text("actual"), text("expected")];
}

/** Text of a JSON value with its members in order, so that two values can be compared line by line. */
export function comparableText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(ordered(value, 0), null, 2) ?? "null";
}

function ordered(value: unknown, depth: number): unknown {
  if (depth > 100 || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => ordered(one, depth + 1));
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return Object.fromEntries(entries.map(([name, one]) => [name, ordered(one, depth + 1)]));
}

function compare(left: string, right: string, byLine: boolean): Difference {
  if (!left || !right) return { parts: sides(left, right), bounded: false };
  const words = byLine ? null : tokens(left, right, WORDS, 20_000);
  if (words) return { parts: words, bounded: false };
  const lines = tokens(left, right, LINES, MAX_TEXT);
  if (lines?.some((part) => part.kind === "same")) return { parts: lines, bounded: false };
  return { parts: sides(left, right), bounded: true };
}

function tokens(left: string, right: string, pattern: RegExp, longest: number): Part[] | null {
  if (left.length > longest || right.length > longest) return null;
  const options = { maxEditLength: MAX_EDITS, timeout: MAX_MILLISECONDS };
  const changes = diffArrays(left.match(pattern) ?? [], right.match(pattern) ?? [], options);
  if (!changes) return null;
  return changes.map((change) => ({
    kind: change.added ? "actual" : change.removed ? "expected" : "same",
    text: change.value.join(""),
  }));
}

function sides(left: string, right: string): Part[] {
  return [
    { kind: "expected", text: left },
    { kind: "actual", text: right },
  ];
}

function join(parts: Part[]): Part[] {
  const joined: Part[] = [];
  for (const part of parts) {
    const last = joined[joined.length - 1];
    if (!part.text) continue;
    if (last?.kind === part.kind) last.text += part.text;
    else joined.push({ ...part });
  }
  return joined;
}

function commonHead(left: string, right: string): number {
  const most = Math.min(left.length, right.length);
  let at = 0;
  while (at < most && left.charCodeAt(at) === right.charCodeAt(at)) at += 1;
  return wordStart(left, right, at);
}

function commonTail(left: string, right: string, head: number): number {
  const most = Math.min(left.length, right.length) - head;
  let many = 0;
  while (many < most && left.charCodeAt(left.length - 1 - many) === right.charCodeAt(right.length - 1 - many)) many += 1;
  while (many > 0 && inWord(left, left.length - many) | inWord(right, right.length - many)) many -= 1;
  return many;
}

/** The part of an equal end that begins at the start of a line. */
function lineTail(text: string, many: number): number {
  if (many === 0 || text.charAt(text.length - many - 1) === "\n") return many;
  const start = text.indexOf("\n", text.length - many);
  return start < 0 ? 0 : text.length - start - 1;
}

/** Move a boundary to the start of its word, so that a changed word is marked whole. */
function wordStart(left: string, right: string, at: number): number {
  while (at > 0 && inWord(left, at) | inWord(right, at)) at -= 1;
  return at;
}

const WORD = /[\p{L}\p{N}_\ud800-\udfff]/u;

function inWord(text: string, at: number): number {
  return at > 0 && at < text.length && WORD.test(text.charAt(at - 1)) && WORD.test(text.charAt(at)) ? 1 : 0;
}
