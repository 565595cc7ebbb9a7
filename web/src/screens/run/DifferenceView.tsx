import { useMemo, useState } from "react";

import { LongText } from "~/content/LongText";
import { comparableText, differenceOf, type Part, sidesOf } from "./difference";
import { lengthText } from "~/content/fold";
import { VisibleText } from "~/ui/VisibleText";

const CONTEXT = 160; // characters of equal text beside a change
const MAX_PARTS = 600;
const NAMES = ["expected", "actual"] as const;

/** What was expected and what came, as one text: what is missing is struck through, what is new is underlined. */
export function DifferenceView({ expected, actual, names = NAMES }: { expected: unknown; actual: unknown; names?: readonly [string, string] }) {
  const [open, setOpen] = useState(false);
  const difference = useMemo(() => differenceOf(comparableText(expected), comparableText(actual), typeof expected === "object" && typeof actual === "object"), [expected, actual]);
  const apart = useMemo(() => sidesOf(difference), [difference]);
  const parts = difference.parts;
  if (parts.every((part) => part.kind === "same")) return <p className="quiet">Equal, apart from differences that the check ignores.</p>;
  if (apart) {
    return (
      <div className="difference-sides">
        {names.map((name, at) => (
          <div key={name}>
            <span className="faint">{name}</span>
            <LongText text={apart[at] ?? ""} label={name} />
          </div>
        ))}
      </div>
    );
  }
  const shown = parts.slice(0, MAX_PARTS);
  const long = shown.some((part) => part.text.length > 3 * CONTEXT);
  return (
    <div className="content">
      <div className="content-text difference" dir="auto" tabIndex={0} role="group" aria-label="Difference">
        {shown.map((part, at) => (
          <DifferencePart key={at} part={part} names={names} open={open} first={at === 0} last={at === parts.length - 1} />
        ))}
        {parts.length > shown.length && <span className="quiet"> … {parts.length - shown.length} more changes</span>}
      </div>
      <div className="content-foot">
        <span className="legend">
          <del>{names[0]}</del> <ins>{names[1]}</ins>
        </span>
        {difference.bounded && <span className="quiet">The texts differ too much to compare word by word.</span>}
        {long && (
          <button type="button" className="button plain small" onClick={() => setOpen(!open)} aria-expanded={open}>
            {open ? "Only changes" : "Show the whole text"}
          </button>
        )}
      </div>
    </div>
  );
}

function DifferencePart({ part, names, open, first, last }: { part: Part; names: readonly [string, string]; open: boolean; first: boolean; last: boolean }) {
  if (part.kind === "same") return <VisibleText text={open ? part.text : shorten(part.text, first, last)} />;
  const text = open ? part.text : cut(part.text);
  const Tag = part.kind === "expected" ? "del" : "ins";
  return (
    <Tag>
      <span className="sr">{`${part.kind === "expected" ? names[0] : names[1]}: `}</span>
      <VisibleText text={text} />
    </Tag>
  );
}

function cut(text: string): string {
  return text.length <= 6 * CONTEXT ? text : `${text.slice(0, 6 * CONTEXT)} … ${lengthText(text.length)}`;
}

/** Equal text far from a change is left out. */
function shorten(text: string, first: boolean, last: boolean): string {
  if (text.length <= 3 * CONTEXT) return text;
  const left = first ? "" : text.slice(0, CONTEXT);
  const right = last ? "" : text.slice(-CONTEXT);
  return `${left}${left ? " " : ""}⋯${right ? " " : ""}${right}`;
}
