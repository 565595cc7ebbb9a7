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
export function differenceOf(expected: string, actual: string): Difference {
  const left = expected.slice(0, MAX_TEXT);
  const right = actual.slice(0, MAX_TEXT);
  const cut = left.length < expected.length || right.length < actual.length;
  const head = commonHead(left, right);
  const tail = commonTail(left, right, head);
  const middle = compare(left.slice(head, left.length - tail), right.slice(head, right.length - tail));
  const parts = join([
    { kind: "same", text: left.slice(0, head) },
    ...middle.parts,
    { kind: "same", text: left.slice(left.length - tail) },
  ]);
  return { parts, bounded: middle.bounded || cut };
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

function compare(left: string, right: string): Difference {
  if (!left || !right) return { parts: sides(left, right), bounded: false };
  const words = tokens(left, right, WORDS, 20_000);
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

/** Move a boundary to the start of its word, so that a changed word is marked whole. */
function wordStart(left: string, right: string, at: number): number {
  while (at > 0 && inWord(left, at) | inWord(right, at)) at -= 1;
  return at;
}

const WORD = /[\p{L}\p{N}_\ud800-\udfff]/u;

function inWord(text: string, at: number): number {
  return at > 0 && at < text.length && WORD.test(text.charAt(at - 1)) && WORD.test(text.charAt(at)) ? 1 : 0;
}
