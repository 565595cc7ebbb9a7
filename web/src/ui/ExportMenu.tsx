import { useState } from "react";
import { Button, Menu, type MenuEntry, writeClipboard } from "./controls";
import { describe } from "./display";
import { download, type ExportColumn, toCsv, toJson, toMarkdown } from "./export";

interface Props<Row> {
  /** The name of the file without its ending. */
  name: string;
  columns: ExportColumn<Row>[];
  /** The rows that are shown; a function may fetch the pages that are not loaded yet. */
  rows: Row[] | (() => Promise<Row[]>);
  /** More entries, such as the PNG of a chart. */
  more?: MenuEntry[];
}

/** Export of what is shown: CSV, JSON or Markdown as a file, or Markdown to the clipboard. */
export function ExportMenu<Row>({ name, columns, rows, more = [] }: Props<Row>) {
  const [state, setState] = useState("");
  const all = async () => (typeof rows === "function" ? await rows() : rows);
  const run = (work: (rows: Row[]) => void | Promise<unknown>) => () => {
    setState("Collecting");
    all()
      .then(work)
      .then(() => setState(""))
      .catch((error: unknown) => setState(describe(error).text));
  };
  return (
    <>
      <Menu
        trigger={
          <Button icon="export" title="Export what is shown">
            Export
          </Button>
        }
        entries={[
          { label: "CSV", onSelect: run((rows) => download(`${name}.csv`, toCsv(columns, rows), "text/csv")) },
          { label: "JSON", onSelect: run((rows) => download(`${name}.json`, toJson(columns, rows), "application/json")) },
          { label: "Markdown", onSelect: run((rows) => download(`${name}.md`, toMarkdown(columns, rows), "text/markdown")) },
          { line: true, label: "" },
          { label: "Copy as Markdown", onSelect: run((rows) => writeClipboard(toMarkdown(columns, rows))) },
          ...more,
        ]}
      />
      <span className="sr" role="status">
        {state}
      </span>
    </>
  );
}
