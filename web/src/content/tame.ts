/** Whether a text can be parsed as Markdown in a moment: an attacker writes texts whose parsing takes minutes. */

const MAX_LENGTH = 20_000; // characters
const MAX_LINES = 400;
const MAX_SIGNS = 600; // characters that may open or close something
const NESTED = /^(?:[ \t]*(?:[-*+>]|\d{1,9}[.)])(?=[ \t]|>|$)){7}/m;
const SIGNS = /[*_`[\]!<|&\\~]/g;
const LINES = /\n/g;

export function isTame(text: string): boolean {
  return text.length <= MAX_LENGTH && !NESTED.test(text) && count(text, LINES) <= MAX_LINES && count(text, SIGNS) <= MAX_SIGNS;
}

function count(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0;
}
