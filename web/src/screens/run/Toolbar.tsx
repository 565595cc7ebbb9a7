import type { CaseRow, CasesAnswer, CheckColumn, Overview } from "~/api/cases";
import { Button, SearchField, Segments, Select } from "~/ui/controls";
import type { ExportColumn } from "~/ui/export";
import { ExportMenu } from "~/ui/ExportMenu";
import { count } from "~/ui/format";
import { plainText } from "~/ui/visible";

import type { Rows } from "./rows";
import { reportSource } from "~/api/client";
import { Filters } from "./Filters";
import { checksText, isFiltered, isSearch, NO_FILTER, type Show, toggledCheck, type View } from "./view";
import { cellText } from "./words";

const SORTS = [
  ["status", "Failures first"],
  ["position", "In order"],
  ["score", "Lowest score first"],
  ["-score", "Highest score first"],
  ["-cost", "Most expensive first"],
  ["-latency", "Slowest first"],
] as const;

type Counts = CasesAnswer["counts"];

interface Props {
  overview: Overview;
  view: View;
  rows: Rows;
  noun: string;
  counts: Counts | undefined; // of the headline: there before the first rows
  change: (params: Record<string, string | undefined>) => void;
  collect: () => Promise<CaseRow[]>;
}

/** Search, filter, order and export of the cases. */
export function Toolbar({ overview, view, rows, noun, counts, change, collect }: Props) {
  const { run, columns, findings, effective } = overview;
  const sort = `${view.descending ? "-" : ""}${view.sort}`;
  const changed = rows.first?.effective?.corrected ?? effective?.corrected.length;
  const failing = view.checks.filter((one) => one.outcome === "failed");
  const others = view.checks.filter((one) => one.outcome !== "failed");
  const sorts = SORTS.some(([value]) => value === sort) ? SORTS : [...SORTS, [sort, `By ${view.sort}`] as const];
  return (
    <div className="toolbar" role="group" aria-label={`Filter the ${noun}s`}>
      <SearchField className="run-search" label={`Search ${noun}s`} placeholder="Search ids, inputs, outputs, reasons" value={view.text} hotkey="/" delay={300} onChange={(text) => change({ q: text || undefined })} />
      <Segments label="Show" value={view.show} options={showOptions(rows.first?.counts ?? counts, findings !== undefined, view.show)} onChange={(show) => change({ show: show === "all" ? undefined : show })} />
      {(changed !== undefined || view.corrected) && (
        <Button aria-pressed={view.corrected} onClick={() => change({ corrected: view.corrected ? undefined : "true" })}>
          Corrected <span className="segment-count num">{count(changed ?? 0)}</span>
        </Button>
      )}
      {columns.length > 1 && (
        <Select
          label="Only where this check failed"
          value={failing.length === 1 ? String(failing[0]?.index) : ""}
          options={[["", failing.length > 1 ? `${failing.length} checks` : "Any check"], ...columns.map((column) => [String(column.index), `Fails ${plainText(column.label.slice(0, 60))}`] as const)]}
          onChange={(value) => change({ check: checksText(value === "" ? others : toggledCheck(others, Number(value))) })}
        />
      )}
      <Select label="Order" value={sort} options={sorts} onChange={(value) => change({ sort: value === "status" ? undefined : value })} />
      {reportSource() === null && <Filters overview={overview} view={view} change={change} />}
      {(isFiltered(view) || isSearch(view)) && (
        <Button kind="plain" icon="close" onClick={() => change(NO_FILTER)}>
          Clear
        </Button>
      )}
      <span className="grow" />
      <ExportMenu name={run.runId} columns={exportColumns(columns)} rows={collect} />
    </div>
  );
}

function showOptions(counts: Counts | undefined, findings: boolean, now: Show): [Show, React.ReactNode][] {
  const unmeasured = counts ? counts.error + counts.skipped : 0;
  const options: [Show, string, number | undefined][] = [
    ["all", "All", counts?.all],
    ["failed", "Failed", counts?.failed],
    ["passed", "Passed", counts?.passed],
    ...(unmeasured > 0 || now === "unmeasured" ? [["unmeasured", "Not measured", unmeasured] as [Show, string, number]] : []),
    ...((counts?.ungraded ?? 0) > 0 || now === "ungraded" ? [["ungraded", "No verdict", counts?.ungraded] as [Show, string, number | undefined]] : []),
    ...(findings || now === "findings" ? [["findings", "With findings", undefined] as [Show, string, undefined]] : []),
  ];
  return options.map(([value, text, many]) => [
    value,
    <>
      {text}
      {many !== undefined && <span className="segment-count num"> {count(many)}</span>}
    </>,
  ]);
}

function exportColumns(columns: CheckColumn[]): ExportColumn<CaseRow>[] {
  return [
    { name: "position", value: (row) => row.position },
    { name: "case", value: (row) => row.caseId },
    { name: "status", value: (row) => row.status },
    { name: "score", value: (row) => row.score },
    { name: "effective status", value: (row) => row.effective?.status ?? row.status },
    { name: "effective score", value: (row) => (row.effective ? row.effective.score : row.score) },
    { name: "trials", value: (row) => row.trials.total },
    { name: "trials passed", value: (row) => row.trials.passed },
    ...columns.map((column) => ({ name: column.label, value: (row: CaseRow) => cellText(row.cells[column.index] ?? null).text || null })),
    { name: "cost in USD", value: (row) => row.costUsd },
    { name: "latency in ms", value: (row) => row.latencyMs },
    { name: "findings", value: (row) => row.findings },
    { name: "input", value: (row) => row.preview?.input },
    { name: "output", value: (row) => row.preview?.output },
    { name: "expected", value: (row) => row.preview?.expected },
    { name: "reason", value: (row) => row.preview?.reason },
  ];
}
