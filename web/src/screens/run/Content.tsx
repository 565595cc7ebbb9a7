import { memo, useMemo, useState } from "react";

import { blocksOf, foldPoint, lengthText } from "./fold";
import { VisibleText } from "./VisibleText";

const MAX_SHOWN = 4_000_000; // characters; more would make the tab slow, and "Copy" has all of it

/** A value from outside, as text: a JSON value is indented, a long one is folded. Nothing in it is ever markup. */
export const Content = memo(function Content({ value, label }: { value: unknown; label: string }) {
  if (value === undefined) return <p className="quiet">Not stored, or erased.</p>;
  return <LongText text={textOf(value)} label={label} />;
});

/** The text of a value: a string as it is, anything else as JSON. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
}

export function LongText({ text, label }: { text: string; label: string }) {
  const [open, setOpen] = useState(false);
  const point = useMemo(() => foldPoint(text), [text]);
  const folded = point < text.length;
  const shown = useMemo(() => blocksOf(open ? text.slice(0, MAX_SHOWN) : text.slice(0, point)), [text, open, point]);
  if (text === "") return <p className="quiet">An empty text.</p>;
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
