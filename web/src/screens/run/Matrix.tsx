import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState, type Ref } from "react";

import type { CaseRow, CaseSort, CheckColumn, CheckStats, SearchMatch } from "~/api/cases";
import { reportSource } from "~/api/client";
import { Chip } from "~/ui/display";
import { count, duration, money, plural, score as formatScore } from "~/ui/format";
import { Icon } from "~/ui/icons";

import type { Rows } from "./rows";
import type { View } from "./view";
import { cellText, STATUS_TONE, STATUS_WORD, trialsText } from "./words";
import { VisibleText } from "~/ui/VisibleText";

const ROW = 58;
const NARROW_ROW = 104;
const NARROW = 720; // pixels; a row is a small card below it

export interface MatrixHandle {
  focusRow: (index: number) => void;
  showRow: (index: number) => void; // without the focus
}

interface Props {
  handle: Ref<MatrixHandle>;
  label: string;
  noun: string;
  rows: Rows;
  columns: CheckColumn[];
  stats: CheckStats[];
  view: View;
  active: number;
  onActive: (index: number) => void;
  addressOf: (row: CaseRow) => string;
  onSort: (by: CaseSort) => void;
  onCheck: (index: number) => void;
  repeated: boolean;
  findings: boolean;
}

/** Cases × checks. It draws the rows in view and asks for their pages. */
export function Matrix(props: Props) {
  const { rows, columns, active, onActive } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(1_200);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const narrow = width < NARROW;
  const height = narrow ? NARROW_ROW : ROW;
  const virtual = useVirtualizer({
    count: rows.total,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 8,
    scrollPaddingStart: narrow ? 0 : 44,
  });
  useEffect(() => virtual.measure(), [height, virtual]);
  const items = virtual.getVirtualItems();
  const low = items[0]?.index ?? 0;
  const high = items.at(-1)?.index ?? 0;
  const { onRange } = rows;
  useEffect(() => onRange(low, high), [low, high, onRange]);
  useImperativeHandle(
    props.handle,
    () => ({
      showRow: (index) => virtual.scrollToIndex(index, { align: "center" }),
      focusRow: (index) => {
        virtual.scrollToIndex(index, { align: "auto" });
        const focus = (left: number) => {
          const link = scroller.current?.querySelector<HTMLElement>(`[data-index="${index}"] a`);
          if (link) link.focus({ preventScroll: true });
          else if (left > 0) requestAnimationFrame(() => focus(left - 1));
        };
        focus(30);
      },
    }),
    [virtual],
  );
  const checks = columns.map(() => "84px");
  const numbers = ["64px", ...(props.repeated ? ["56px"] : []), ...(props.findings ? ["64px"] : []), "84px", "84px"];
  const template = narrow ? "1fr" : ["minmax(140px, 1fr)", "minmax(240px, 2fr)", ...checks, ...numbers].join(" ");
  const shape = { template, narrow, columns, repeated: props.repeated, findings: props.findings };
  return (
    <div ref={scroller} className="table fill matrix" role="table" aria-label={props.label} aria-rowcount={rows.total + (narrow ? 0 : 1)} tabIndex={-1} style={{ minHeight: Math.min(380, rows.total * height + 46) }}>
      <div className={narrow ? "" : "table-inner"} role="presentation">
        {!narrow && <Head {...props} template={template} />}
        <div className="table-body" role="rowgroup" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => (
            <MatrixRow
              key={item.key}
              index={item.index}
              top={item.start}
              height={height}
              row={rows.at(item.index)}
              match={rowMatch(rows, item.index)}
              active={item.index === active}
              onActive={onActive}
              addressOf={props.addressOf}
              shape={shape}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

function rowMatch(rows: Rows, index: number): SearchMatch | undefined {
  const row = rows.at(index);
  return row === undefined ? undefined : rows.match(row);
}

function Head({ template, noun, columns, stats, view, onSort, onCheck, repeated, findings }: Props & { template: string }) {
  const sortable = (by: CaseSort, text: string, className = "") => (
    <div role="columnheader" className={className} aria-sort={view.sort === by ? (view.descending ? "descending" : "ascending") : undefined}>
      <button type="button" onClick={() => onSort(by)}>
        {text}
        {view.sort === by && <Icon name={view.descending ? "down" : "up"} size={12} />}
      </button>
    </div>
  );
  return (
    <div role="rowgroup">
      <div className="table-head matrix-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
        {sortable("position", `${noun === "task" ? "Task" : "Case"} and input`)}
        {sortable("status", "Reason and output")}
        {columns.map((column) => (
          <div key={column.index} role="columnheader" className="check-head">
            <button type="button" aria-pressed={view.check === column.index} onClick={() => onCheck(column.index)} title={`${column.label}: show only ${noun}s that fail it`}>
              <span className="check-name">
                <VisibleText text={column.label} />
              </span>
              <small className="num">{stats.find((one) => one.index === column.index)?.rateText ?? ""}</small>
            </button>
          </div>
        ))}
        {sortable("score", "Score", "end")}
        {repeated && (
          <div role="columnheader" className="end" title="Trials that passed">
            k/N
          </div>
        )}
        {findings && (
          <div role="columnheader" className="end">
            Findings
          </div>
        )}
        {sortable("cost", "Cost", "end")}
        {sortable("latency", "Latency", "end")}
      </div>
    </div>
  );
}

interface Shape {
  template: string;
  narrow: boolean;
  columns: CheckColumn[];
  repeated: boolean;
  findings: boolean;
}

interface RowProps {
  index: number;
  top: number;
  height: number;
  row: CaseRow | undefined;
  match: SearchMatch | undefined;
  active: boolean;
  onActive: (index: number) => void;
  addressOf: (row: CaseRow) => string;
  shape: Shape;
}

const MatrixRow = memo(
  function MatrixRow({ index, top, height, row, match, active, onActive, addressOf, shape }: RowProps) {
    const style = { transform: `translateY(${top}px)`, height, gridTemplateColumns: shape.template };
    if (row === undefined) {
      return (
        <div role="row" className="table-row" aria-rowindex={index + 2} data-index={index} style={style}>
          <div role="cell" aria-label="Loading">
            <div className="skeleton" />
          </div>
        </div>
      );
    }
    const link = (
      <a href={addressOf(row)} className="row-link truncate" tabIndex={active ? 0 : -1} onFocus={() => onActive(index)}>
        {row.caseId === null ? <span className="faint">{reportSource() === null ? "erased" : `case ${row.position}`}</span> : <VisibleText text={row.caseId.slice(0, 200) || `case ${row.position}`} />}
      </a>
    );
    const status = <Chip tone={STATUS_TONE[row.status]}>{STATUS_WORD[row.status]}</Chip>;
    return (
      <div role="row" className={`table-row opens${active ? " active" : ""}`} aria-rowindex={index + (shape.narrow ? 1 : 2)} data-index={index} data-status={row.status} style={style}>
        {shape.narrow ? <NarrowRow row={row} link={link} status={status} match={match} /> : <WideCells row={row} link={link} status={status} match={match} shape={shape} />}
      </div>
    );
  },
  (before, after) =>
    before.row === after.row &&
    before.top === after.top &&
    before.height === after.height &&
    before.active === after.active &&
    before.match === after.match &&
    before.shape.template === after.shape.template &&
    before.shape.columns === after.shape.columns &&
    before.addressOf === after.addressOf,
);

interface CellProps {
  row: CaseRow;
  link: React.ReactNode;
  status: React.ReactNode;
  match: SearchMatch | undefined;
}

function WideCells({ row, link, status, match, shape }: CellProps & { shape: Shape }) {
  return (
    <>
      <div role="cell" className="two-lines">
        <span className="row">
          {status}
          {link}
        </span>
        <span className="faint truncate">{row.preview && <VisibleText text={row.preview.input} />}</span>
      </div>
      <div role="cell" className="two-lines">
        <ReasonAndOutput row={row} match={match} />
      </div>
      {shape.columns.map((column) => (
        <CheckMark key={column.index} row={row} column={column} />
      ))}
      <div role="cell" className="end num">
        {formatScore(row.score)}
      </div>
      {shape.repeated && (
        <div role="cell" className="end num">
          {trialsText(row)}
        </div>
      )}
      {shape.findings && (
        <div role="cell" className="end num">
          {row.findings === undefined ? "–" : count(row.findings)}
        </div>
      )}
      <div role="cell" className="end num">
        {money(row.costUsd)}
      </div>
      <div role="cell" className="end num">
        {duration(row.latencyMs)}
      </div>
    </>
  );
}

function NarrowRow({ row, link, status, match }: CellProps) {
  const parts = [row.score === null ? "" : formatScore(row.score), trialsText(row), row.latencyMs === null ? "" : duration(row.latencyMs)];
  return (
    <div role="cell" className="narrow-row">
      <span className="row">
        {status}
        <span className="grow truncate">{link}</span>
        <span className="num faint">{parts.filter(Boolean).join(" · ")}</span>
      </span>
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

function CheckMark({ row, column }: { row: CaseRow; column: CheckColumn }) {
  const cell = cellText(row.cells[column.index] ?? null);
  return (
    <div role="cell" className={`check-cell ${cell.tone}`} title={`${column.label}: ${cell.title}`}>
      {cell.text && <span className="check-mark num">{cell.text}</span>}
      {!cell.text && <span className="sr">{cell.title}</span>}
    </div>
  );
}
