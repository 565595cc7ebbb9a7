import { useMemo, useState } from "react";

import { blocksOf, foldPoint, lengthText } from "./fold";
import { VisibleText } from "~/ui/VisibleText";

const MAX_SHOWN = 4_000_000; // characters; more would make the tab slow, and "Copy" has all of it

/** A long text is folded. Nothing in it is ever markup. */
export function LongText({ text, label }: { text: string; label: string }) {
  return (
    <Folded text={text} label={label}>
      {(shown) => <PlainText text={shown.slice(0, MAX_SHOWN)} />}
    </Folded>
  );
}

/** The text, laid out in blocks. */
export function PlainText({ text }: { text: string }) {
  const blocks = useMemo(() => blocksOf(text), [text]);
  return blocks.map((block, at) => (
    <span className="content-block" key={at}>
      <VisibleText text={block} />
    </span>
  ));
}

/** Shows the beginning of a text, and all of it on demand. `children` draw the part that is shown. */
export function Folded({ text, label, children }: { text: string; label: string; children: (shown: string) => React.ReactNode }) {
  const [open, setOpen] = useState(false);
  const point = useMemo(() => foldPoint(text), [text]);
  const folded = point < text.length;
  if (text === "") return <p className="quiet">Empty text.</p>;
  return (
    <div className="content">
      <div className="content-text" dir="auto" tabIndex={0} role="group" aria-label={label}>
        {children(open ? text : text.slice(0, point))}
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
