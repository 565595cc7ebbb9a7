/** Long texts: the part that is shown first, and blocks that a browser lays out only when they are near. */

export const FOLD_CHARACTERS = 2_000;
export const FOLD_LINES = 24;
const BLOCK = 8_192;

/** How many characters of a text are shown before "Show all"; the length of the text if it is short. */
export function foldPoint(text: string, characters: number = FOLD_CHARACTERS, lines: number = FOLD_LINES): number {
  let at = -1;
  for (let line = 0; line < lines; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at < 0 || at > characters) break;
  }
  const byLines = at < 0 ? text.length : at;
  const point = Math.min(byLines, characters);
  return text.length - point < 200 ? text.length : whole(text, point); // a fold that hides a line or two helps little
}

/** The text in blocks. A block ends with a line if there is one near, and never inside a character. */
export function blocksOf(text: string, size: number = BLOCK): string[] {
  const blocks: string[] = [];
  let start = 0;
  while (start < text.length) {
    let end = Math.min(text.length, start + size);
    if (end < text.length) {
      const line = text.lastIndexOf("\n", end);
      end = line > start + size / 2 ? line + 1 : whole(text, end);
    }
    blocks.push(text.slice(start, end));
    start = end;
  }
  return blocks;
}

/** `1,240,000 characters`. */
export function lengthText(characters: number): string {
  return `${characters.toLocaleString("en-US")} character${characters === 1 ? "" : "s"}`;
}

function whole(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}
