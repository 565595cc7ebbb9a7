import "./matrix.css";
import { type Ref, useCallback, useMemo } from "react";

import type { CaseRow, CaseSort, CheckColumn, CheckStats, SearchMatch } from "~/api/cases";
import { reportSource } from "~/api/client";
import type { Column, Sort } from "~/ui/columns";
import { DataTable, type DataTableHandle } from "~/ui/DataTable";
import { Chip } from "~/ui/display";
import { count, duration, money, plural, score as formatScore } from "~/ui/format";

import type { Rows } from "./rows";
import type { View } from "./view";
import { cellText, STATUS_TONE, STATUS_WORD, trialsText } from "./words";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";

const NARROW = 720; // pixels; a row is a small card below it

interface Props {
  handle: Ref<DataTableHandle>;
  noun: string;
  rows: Rows;
  columns: CheckColumn[];
  stats: CheckStats[];
  view: View;
  active: number;
  onActive: (index: number) => void;
  addressOf: (row: CaseRow) => string;
  onOpen: (row: CaseRow) => void;
  onSort: (by: CaseSort, descending: boolean) => void;
  onCheck: (index: number) => void;
  repeated: boolean;
  findings: boolean;
}

/** Cases × checks. */
export function Matrix(props: Props) {
  const { rows, columns, stats, view, noun, addressOf, onCheck, repeated, findings } = props;
  const { match } = rows;
  const title = useCallback((row: CaseRow) => <Title row={row} address={addressOf(row)} />, [addressOf]);
  const shown = useMemo(
    () => matrixColumns({ columns, stats, noun, repeated, findings, checks: view.checks, title, match, onCheck }),
    [columns, stats, noun, repeated, findings, view.checks, title, match, onCheck],
  );
  const sort: Sort = { by: view.sort, descending: view.descending };
  return (
    <DataTable
      handle={props.handle}
      label={`${noun}s and checks`}
      className="fill matrix"
      columns={shown}
      rows={rows}
      rowKey={rowKey}
      rowHeight={58}
      headHeight={46}
      least={380}
      compact={{ below: NARROW, height: 104, row: (row) => <NarrowRow row={row} title={title(row)} match={match(row)} /> }}
      rowData={rowData}
      active={props.active}
      onActive={props.onActive}
      screenMoves
      onOpen={props.onOpen}
      sort={sort}
      onSort={({ by, descending }) => props.onSort(by as CaseSort, descending)}
    />
  );
}

function rowKey(row: CaseRow): string {
  return String(row.position);
}

function rowData(row: CaseRow) {
  return { "data-status": row.status };
}

interface Shown extends Pick<Props, "columns" | "stats" | "noun" | "repeated" | "findings" | "onCheck"> {
  checks: View["checks"];
  title: (row: CaseRow) => React.ReactNode;
  match: (row: CaseRow) => SearchMatch | undefined;
}

function matrixColumns({ columns, stats, noun, repeated, findings, checks, title, match, onCheck }: Shown): Column<CaseRow>[] {
  return [
    {
      id: "case",
      header: `${noun === "task" ? "Task" : "Case"} and input`,
      width: "minmax(140px, 1fr)",
      sort: "position",
      first: "ascending",
      cell: (row) => (
        <div className="two-lines">
          {title(row)}
          <span className="faint truncate">{row.preview && <VisibleText text={row.preview.input} />}</span>
        </div>
      ),
    },
    {
      id: "reason",
      header: "Reason and output",
      width: "minmax(240px, 2fr)",
      sort: "status",
      first: "ascending",
      cell: (row) => (
        <div className="two-lines">
          <ReasonAndOutput row={row} match={match(row)} />
        </div>
      ),
    },
    ...columns.map((column) => checkColumn(column, stats.find((one) => one.index === column.index)?.rateText ?? "", noun, checks.some((one) => one.index === column.index && one.outcome === "failed"), onCheck)),
    { id: "score", header: "Score", width: "64px", align: "end", sort: "score", first: "ascending", cell: (row) => <ScoreOf row={row} /> },
    ...(repeated ? [{ id: "trials", header: "k/N", title: "Trials that passed", width: "56px", align: "end", cell: trialsText } as const] : []),
    ...(findings ? [{ id: "findings", header: "Findings", width: "64px", align: "end", cell: (row: CaseRow) => (row.findings === undefined ? "–" : count(row.findings)) } as const] : []),
    { id: "cost", header: "Cost", width: "84px", align: "end", sort: "cost", cell: (row) => money(row.costUsd) },
    { id: "latency", header: "Latency", width: "84px", align: "end", sort: "latency", cell: (row) => duration(row.latencyMs) },
  ];
}

/** A check: its header chooses the cases that fail it. */
function checkColumn(column: CheckColumn, rate: string, noun: string, chosen: boolean, onCheck: (index: number) => void): Column<CaseRow> {
  return {
    id: `check-${column.index}`,
    headClass: "check-head",
    header: (
      <button type="button" aria-pressed={chosen} onClick={() => onCheck(column.index)} title={`${plainText(column.label)}: show only ${noun}s that fail it`}>
        <span className="check-name">
          <VisibleText text={column.label} />
        </span>
        <small className="num">{rate}</small>
      </button>
    ),
    width: "84px",
    cell: (row) => <CheckMark row={row} column={column} />,
  };
}

function Title({ row, address }: { row: CaseRow; address: string }) {
  return (
    <span className="row">
      <StatusOf row={row} />
      <a href={address} className="row-link truncate" tabIndex={-1}>
        {row.caseId === null ? <span className="faint">{reportSource() === null ? "erased" : `case ${row.position}`}</span> : <VisibleText text={row.caseId.slice(0, 200) || `case ${row.position}`} />}
      </a>
    </span>
  );
}

/** The recorded outcome, and the one of people beside it. */
export function StatusOf({ row }: { row: CaseRow }) {
  const { status, effective } = row;
  if (effective === undefined) return <Chip tone={STATUS_TONE[status]}>{STATUS_WORD[status]}</Chip>;
  if (effective.status === status) {
    return (
      <>
        <Chip tone={STATUS_TONE[status]}>{STATUS_WORD[status]}</Chip>
        <span className="tag">corrected</span>
      </>
    );
  }
  return (
    <span className="row corrected" title={`Recorded: ${STATUS_WORD[status]}. A person corrected it.`}>
      <s className="faint">{STATUS_WORD[status]}</s>
      <Chip tone={STATUS_TONE[effective.status]}>{STATUS_WORD[effective.status]}</Chip>
      <span className="tag">corrected</span>
    </span>
  );
}

function NarrowRow({ row, title, match }: { row: CaseRow; title: React.ReactNode; match: SearchMatch | undefined }) {
  const parts = [row.score === null ? "" : formatScore(row.score), trialsText(row), row.latencyMs === null ? "" : duration(row.latencyMs)];
  return (
    <div className="narrow-row">
      <span className="row">
        <span className="grow truncate">{title}</span>
        <span className="num faint">{parts.filter(Boolean).join(" · ")}</span>
      </span>
      {row.status === "passed" && !match && <span className="faint truncate">{row.preview && <VisibleText text={row.preview.input} />}</span>}
      <ReasonAndOutput row={row} match={match} />
    </div>
  );
}

/** The failing reason above the output; while a search is on, the place that it found. */
function ReasonAndOutput({ row, match }: { row: CaseRow; match: SearchMatch | undefined }) {
  const failing = row.status === "failed" || row.status === "error";
  const found = row.status === "failed" && row.findings ? `${plural(row.findings, "finding")} of the detectors` : null;
  const reason = row.preview?.reason ?? found;
  const output = row.preview?.output === "null" && failing ? null : row.preview?.output;
  return (
    <>
      {match ? <Snippet match={match} /> : reason && <span className={`truncate ${failing ? `reason-${row.status}` : "quiet"}`}><VisibleText text={reason} /></span>}
      {output === null ? <span className="faint">no output</span> : <span className="faint truncate output-line">{output && <VisibleText text={output} />}</span>}
    </>
  );
}

function Snippet({ match }: { match: SearchMatch }) {
  const { snippet, at, length } = match;
  if (at < 0) return null;
  return (
    <span className="truncate snippet">
      <span className="faint">{match.in}: </span>
      <VisibleText text={snippet.slice(Math.max(0, at - 40), at)} />
      <mark>
        <VisibleText text={snippet.slice(at, at + length)} />
      </mark>
      <VisibleText text={snippet.slice(at + length)} />
    </span>
  );
}

function ScoreOf({ row: { score, effective } }: { row: CaseRow }) {
  if (effective === undefined || effective.score === score) return formatScore(score);
  return (
    <span title={`Recorded: ${formatScore(score)}`}>
      {formatScore(effective.score)}
      <sup>*</sup>
    </span>
  );
}

function CheckMark({ row, column }: { row: CaseRow; column: CheckColumn }) {
  const corrected = row.effective?.checks?.[String(column.index)];
  if (corrected !== undefined) {
    return (
      <div className={`check-cell ${corrected ? "pass" : "fail"}`} title={`${plainText(column.label)}: corrected; recorded: ${cellText(row.cells[column.index] ?? null).title}`}>
        <span className="check-mark num">
          {corrected ? "pass" : "fail"}
          <sup>*</sup>
        </span>
      </div>
    );
  }
  const cell = cellText(row.cells[column.index] ?? null);
  return (
    <div className={`check-cell ${cell.tone}`} title={`${plainText(column.label)}: ${plainText(cell.title)}`}>
      {cell.text && <span className="check-mark num">{cell.text}</span>}
      {!cell.text && <span className="sr">{cell.title}</span>}
    </div>
  );
}
