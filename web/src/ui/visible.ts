/** Text from agents, models and users, cut into plain text and marks: a mark stands for characters that a reader cannot see. */

export interface TextPiece {
  kind: "text";
  text: string;
}

export interface Mark {
  kind: "mark";
  label: string; // short, for a chip: ZWSP, RLO, ESC[31m
  name: string; // for a tooltip and a screen reader
  count: number; // of the same character in a row
}

export type Piece = TextPiece | Mark;

export const MAX_MARKS = 2_000; // chips of one text; the characters after them are escaped

const NAMES: Record<number, [string, string]> = {
  0x00: ["NUL", "null character"],
  0x07: ["BEL", "bell"],
  0x08: ["BS", "backspace"],
  0x0b: ["VT", "vertical tab"],
  0x0c: ["FF", "form feed"],
  0x0d: ["CR", "carriage return"],
  0x1b: ["ESC", "escape"],
  0x7f: ["DEL", "delete"],
  0x85: ["NEL", "next line"],
  0xad: ["SHY", "soft hyphen"],
  0x034f: ["CGJ", "combining grapheme joiner"],
  0x061c: ["ALM", "Arabic letter mark"],
  0x115f: ["HF", "Hangul filler"],
  0x1160: ["HF", "Hangul filler"],
  0x17b4: ["KIV", "Khmer inherent vowel"],
  0x17b5: ["KIV", "Khmer inherent vowel"],
  0x180e: ["MVS", "Mongolian vowel separator"],
  0x200b: ["ZWSP", "zero-width space"],
  0x200c: ["ZWNJ", "zero-width non-joiner"],
  0x200d: ["ZWJ", "zero-width joiner"],
  0x200e: ["LRM", "left-to-right mark"],
  0x200f: ["RLM", "right-to-left mark"],
  0x2028: ["LS", "line separator"],
  0x2029: ["PS", "paragraph separator"],
  0x202a: ["LRE", "left-to-right embedding"],
  0x202b: ["RLE", "right-to-left embedding"],
  0x202c: ["PDF", "pop directional formatting"],
  0x202d: ["LRO", "left-to-right override"],
  0x202e: ["RLO", "right-to-left override"],
  0x2060: ["WJ", "word joiner"],
  0x2061: ["FA", "function application"],
  0x2062: ["IT", "invisible times"],
  0x2063: ["IS", "invisible separator"],
  0x2064: ["IP", "invisible plus"],
  0x2066: ["LRI", "left-to-right isolate"],
  0x2067: ["RLI", "right-to-left isolate"],
  0x2068: ["FSI", "first strong isolate"],
  0x2069: ["PDI", "pop directional isolate"],
  0x2800: ["BLANK", "braille pattern blank"],
  0x3164: ["HF", "Hangul filler"],
  0xfeff: ["BOM", "byte order mark"],
  0xffa0: ["HF", "halfwidth Hangul filler"],
  0xfffc: ["OBJ", "object replacement character"],
};

// A terminal's sequence; else one invisible character. Tab and line feed stay in the text.
const CSI = "\\u001b\\[[0-?]{0,32}[ -/]{0,8}[@-~]";
const OSC = "\\u001b\\][^\\u0007\\u001b\\n]{0,200}(?:\\u0007|\\u001b\\\\)";
const INVISIBLE =
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f" +
  "\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufeff\\uffa0\\ufff0-\\ufffc\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e01ef}\\ud800-\\udfff]";
const PATTERN = new RegExp(`${CSI}|${OSC}|${INVISIBLE}`, "gu");
const PICTURE_BEFORE = /[\p{Extended_Pictographic}\ufe0f\p{Emoji_Modifier}]$/u;
const PICTURE_AFTER = /^\p{Extended_Pictographic}/u;

/** The pieces of a text, in order. The work is linear in the text. */
export function piecesOf(text: string, maxMarks: number = MAX_MARKS): Piece[] {
  const pieces: Piece[] = [];
  let plain = 0;
  let marks = 0;
  let tail = ""; // the text that is not yet a piece
  const flush = () => {
    if (tail) pieces.push({ kind: "text", text: tail });
    tail = "";
  };
  for (const match of text.matchAll(PATTERN)) {
    const found = match[0];
    const at = match.index;
    if (found === "\r" && text[at + 1] === "\n") {
      tail += text.slice(plain, at); // the line end of Windows
      plain = at + 1;
      continue;
    }
    if (found === "\u200d" && joinsPictures(text, at)) continue;
    tail += text.slice(plain, at);
    plain = at + found.length;
    const last = pieces[pieces.length - 1];
    const [label, name] = describe(found);
    if (!tail && last?.kind === "mark" && last.label === label) {
      last.count += 1;
    } else if (marks < maxMarks) {
      flush();
      pieces.push({ kind: "mark", label, name, count: 1 });
      marks += 1;
    } else {
      tail += escape(found);
    }
  }
  tail += text.slice(plain);
  flush();
  return pieces;
}

/** The same text with every invisible character escaped, for a place that has room for text only. */
export function plainText(text: string): string {
  return piecesOf(text)
    .map((piece) => (piece.kind === "text" ? piece.text : `⟨${piece.label}${piece.count > 1 ? `×${piece.count}` : ""}⟩`))
    .join("");
}

function joinsPictures(text: string, at: number): boolean {
  return PICTURE_BEFORE.test(text.slice(Math.max(0, at - 2), at)) && PICTURE_AFTER.test(text.slice(at + 1, at + 3));
}

function describe(found: string): [string, string] {
  const code = found.codePointAt(0) ?? 0;
  if (found.length > 1 && code === 0x1b) {
    const shown = found.slice(1).replace(/[\u0000-\u001f]/g, (one) => escape(one));
    const label = shown.length > 24 ? `${shown.slice(0, 23)}…` : shown;
    return [`ESC${label}`, "terminal escape sequence"];
  }
  const known = NAMES[code];
  if (known) return known;
  if (code >= 0xe0020 && code <= 0xe007e) return [`TAG ${String.fromCharCode(code - 0xe0000)}`, "tag character"];
  if (code >= 0xfe00 && code <= 0xfe0f) return ["VS", "variation selector"];
  const hex = code.toString(16).toUpperCase().padStart(4, "0");
  const name = code >= 0xd800 && code <= 0xdfff ? "half of a surrogate pair" : code < 0xa0 ? "control character" : "invisible character";
  return [`U+${hex}`, name];
}

function escape(found: string): string {
  return Array.from(found, (one) => {
    const code = one.codePointAt(0) ?? 0;
    return code > 0x1f && code < 0x7f ? one : `\\u{${code.toString(16)}}`;
  }).join("");
}
