import { useState } from "react";

import { VisibleText } from "~/ui/VisibleText";

import { Picture } from "./Picture";
import { isPicture, textOf } from "./shapes";

const MAX_ENTRIES = 400; // of one list or object
const MAX_DEPTH = 24;
const OPEN = 3; // levels that are open at first,
const SMALL = 20_000; // of a value of at most so many characters

/** A JSON value as a tree. Texts keep their lines; long branches can be closed. */
export function JsonTree({ value, depth = 0 }: { value: unknown; depth?: number }) {
  if (typeof value === "string") return <JsonText text={value} />;
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) {
    return (
      <span className="json-plain">
        <VisibleText text={textOf(value)} />
      </span>
    );
  }
  const short = textOf(value);
  if (!short.includes("\n") && !/\\n|"data:image\//.test(short)) {
    return (
      <span className="json-plain">
        <VisibleText text={short} />
      </span>
    );
  }
  const small = short.length <= SMALL;
  const entries: [string, unknown][] = Array.isArray(value) ? value.map((one, at) => [String(at), one]) : Object.entries(value);
  return (
    <ul className="json-tree">
      {entries.slice(0, MAX_ENTRIES).map(([name, one], at) => (
        <li key={at}>
          <Entry name={name} value={one} depth={depth} open={small && depth < OPEN} />
        </li>
      ))}
      {entries.length > MAX_ENTRIES && <li className="quiet">{`… ${(entries.length - MAX_ENTRIES).toLocaleString("en-US")} more; “Raw” has all of them`}</li>}
    </ul>
  );
}

/** What is closed is not drawn, so that a large value costs what is looked at. */
function Entry({ name, value, depth, open: first }: { name: string; value: unknown; depth: number; open: boolean }) {
  const [open, setOpen] = useState(first);
  const head = (
    <span className="json-name">
      <VisibleText text={name.slice(0, 300)} />
    </span>
  );
  if (typeof value !== "object" || value === null || !textOf(value).includes("\n")) {
    return (
      <>
        {head} <JsonTree value={value} depth={depth + 1} />
      </>
    );
  }
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {head} <span className="quiet">{Array.isArray(value) ? `${value.length} items` : `${Object.keys(value).length} members`}</span>
      </summary>
      {open && <JsonTree value={value} depth={depth + 1} />}
    </details>
  );
}

const MAX_TEXT = 20_000; // characters of one text in a tree

function JsonText({ text }: { text: string }) {
  if (isPicture(text)) return <Picture url={text} />;
  const shown = text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}… ${text.length.toLocaleString("en-US")} characters; “Raw” has all of them`;
  return (
    <span className={text.includes("\n") ? "json-text json-lines" : "json-text"}>
      <VisibleText text={shown} />
    </span>
  );
}
