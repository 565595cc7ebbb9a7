/** Export of what a table shows: CSV, JSON, Markdown. Pure, so that tests and other screens use it without a page. */

export type Cell = string | number | boolean | null | undefined;

export interface ExportColumn<Row> {
  name: string;
  value: (row: Row) => Cell;
}

const FORMULA = /^[=+\-@\t\r]/; // a spreadsheet would run a text that begins so

export function toCsv<Row>(columns: ExportColumn<Row>[], rows: Row[]): string {
  const field = (cell: Cell): string => {
    if (cell === null || cell === undefined) return "";
    let text = String(cell);
    if (typeof cell === "string" && FORMULA.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map((column) => field(column.name)), ...rows.map((row) => columns.map((column) => field(column.value(row))))];
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
}

export function toJson<Row>(columns: ExportColumn<Row>[], rows: Row[]): string {
  const objects = rows.map((row) => Object.fromEntries(columns.map((column) => [column.name, column.value(row) ?? null])));
  return `${JSON.stringify(objects, null, 2)}\n`;
}

export function toMarkdown<Row>(columns: ExportColumn<Row>[], rows: Row[]): string {
  const field = (cell: Cell): string =>
    cell === null || cell === undefined
      ? ""
      : String(cell).replaceAll("\\", "\\\\").replaceAll("|", "\\|").replace(/[<>]/g, (sign) => (sign === "<" ? "&lt;" : "&gt;")).replace(/\r?\n/g, " ");
  const numeric = columns.map((column) => rows.length > 0 && rows.every((row) => typeof (column.value(row) ?? 0) === "number"));
  const lines = [
    columns.map((column) => field(column.name)),
    numeric.map((right) => (right ? "---:" : "---")),
    ...rows.map((row) => columns.map((column) => field(column.value(row)))),
  ];
  return `${lines.map((line) => `| ${line.join(" | ")} |`).join("\n")}\n`;
}

/** Offer a file to save. */
export function download(name: string, content: string | Blob, type = "text/plain"): void {
  const blob = typeof content === "string" ? new Blob([content], { type: `${type};charset=utf-8` }) : content;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
