import { memo, useMemo, useState } from "react";

import { blocksOf, foldPoint, lengthText } from "./fold";
import { VisibleText } from "~/ui/VisibleText";

const MAX_SHOWN = 4_000_000; // characters; more would make the tab slow, and "Copy" has all of it

/** A value from outside, as text: a JSON value is indented, a long one is folded. Nothing in it is ever markup. */
export const Content = memo(function Content({ value, label }: { value: unknown; label: string }) {
  if (value === undefined) return <p className="quiet">This content was not stored, or was erased.</p>;
  return <LongText text={textOf(value)} label={label} />;
});

const ONE_LINE = 88; // characters of a JSON value that stays on one line

/** The text of a value: a string as it is, anything else as JSON; a short value on one line. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  const lines = JSON.stringify(value, null, 2) ?? "";
  if (lines.length > 2 * ONE_LINE) return lines;
  const line = lines.replace(/\n\s*/g, " ").replace(/([[{]) | (?=[\]}])/g, "$1");
  return line.length <= ONE_LINE && JSON.stringify(JSON.parse(line)) === JSON.stringify(value) ? line : lines;
}

export function LongText({ text, label }: { text: string; label: string }) {
  const [open, setOpen] = useState(false);
  const point = useMemo(() => foldPoint(text), [text]);
  const folded = point < text.length;
  const shown = useMemo(() => blocksOf(open ? text.slice(0, MAX_SHOWN) : text.slice(0, point)), [text, open, point]);
  if (text === "") return <p className="quiet">Empty text.</p>;
  return (
    <div className="content">
      <div className="content-text" dir="auto" tabIndex={0} role="group" aria-label={label}>
        {shown.map((block, at) => (
          <span className="content-block" key={at}>
            <VisibleText text={block} />
          </span>
        ))}
        {folded && !open && <span className="quiet">…</span>}
      </div>
      {folded && (
        <button type="button" className="button plain small" onClick={() => setOpen(!open)} aria-expanded={open}>
          {open ? "Show less" : `Show all ${lengthText(text.length)}`}
        </button>
      )}
      {open && text.length > MAX_SHOWN && <p className="quiet">The first {lengthText(MAX_SHOWN)} are shown. “Copy” has all of them.</p>}
    </div>
  );
}
