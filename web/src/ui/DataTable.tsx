/** The table of every screen, for any number of rows: it draws only those in view, and asks for more when they come near. */
import "./table.css";
import { type Header, type Row as TableLine, useTable } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type ReactNode, type Ref, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useKeys } from "~/state/keyboard";
import { Icon } from "./icons";
import { type Column, columnDefs, FEATURES, type Line, sorting, type Sort, templateOf, visibility } from "./columns";

/** Rows that are loaded when they come into view. */
export interface RowSource<Row> {
  total: number;
  at: (index: number) => Row | undefined; // undefined: not loaded yet
  onRange: (first: number, last: number) => void;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[] | RowSource<Row>;
  rowKey: (row: Row) => string;
  /** Opens a row: by a click, or by Enter. */
  onOpen?: (row: Row, index: number) => void;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** With these two, each row has a box to pick it; Space picks the row in focus. */
  picked?: ReadonlySet<string>;
  onPick?: (key: string, picked: boolean) => void;
  /** The row that the screen holds as the current one; -1: none. Without it the table remembers its own. */
  active?: number;
  onActive?: (index: number) => void;
  /** The screen itself has keys for the next and the previous row. */
  screenMoves?: boolean;
  /** The number of rows on the server, if there are more than `rows`. */
  total?: number;
  more?: { has: boolean; loading: boolean; load: () => void };
  rowHeight?: number;
  headHeight?: number;
  /** A table with enough rows is at least this high. */
  least?: number;
  /** A row on a narrow screen, in place of its cells, with its height. */
  compact?: { below: number; height: number; row: (row: Row) => ReactNode };
  foot?: ReactNode;
  /** Fills the height of a flex column; otherwise give the table a height with `className`. */
  className?: string;
  /** A description of a row for a screen reader. */
  rowLabel?: (row: Row) => string;
  /** Attributes of a row for style sheets: `data-status`. */
  rowData?: (row: Row) => Record<`data-${string}`, string>;
  handle?: Ref<DataTableHandle>;
}

export interface DataTableHandle {
  focusRow: (index: number) => void;
  showRow: (index: number) => void; // without the focus
}

const FRESH_MS = 30_000; // a row says how long ago something was
const FRAMES = 30; // in which a row far away comes into view

export function DataTable<Row>(props: Props<Row>) {
  const { columns, rowKey, onOpen, sort, onSort, picked, onPick, more, compact, rowHeight = 40, headHeight = 34 } = props;
  const rows = useSource(props.rows);
  const scroller = useRef<HTMLDivElement>(null);
  const [own, setOwn] = useState(0);
  const focus = props.active ?? own;
  const setFocus = (index: number) => (setOwn(index), props.onActive?.(index));
  const width = useWidth(scroller);
  const narrow = compact !== undefined && width < compact.below;
  const height = narrow ? compact.height : rowHeight;
  const virtual = useVirtualizer({
    count: rows.total,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    getItemKey: (index) => keyOf(rows.at(index), index, rowKey),
    overscan: 10,
    scrollPaddingStart: narrow ? 0 : headHeight,
  });
  useEffect(() => virtual.measure(), [height, props.rows, virtual]);
  const place = useRef({ focus, height });
  place.current.focus = focus;
  useEffect(() => {
    if (place.current.height !== height) virtual.scrollToIndex(Math.max(0, place.current.focus), { align: "auto" }); // as cards, the rows are elsewhere
    place.current.height = height;
  }, [height, virtual]);

  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? -1;
  const { has = false, loading = false, load } = more ?? {};
  useEffect(() => {
    if (has && !loading && last >= rows.total - 15) load?.();
  }, [has, loading, last, rows.total, load]);
  const { onRange } = rows;
  useEffect(() => onRange(first, Math.max(first, last)), [first, last, onRange]);

  const lines: Line<Row>[] = items.map(({ index }) => ({ index, row: rows.at(index) }));
  const columnVisibility = useMemo(() => visibility(columns, width), [columns, width]);
  const order = useMemo(() => sorting(columns, sort), [columns, sort?.by, sort?.descending]);
  const table = useTable({
    features: FEATURES,
    columns: useMemo(() => columnDefs(columns), [columns]),
    data: lines,
    getRowId: (line) => String(line.index),
    state: { columnVisibility, sorting: order },
    manualSorting: true,
    enableSorting: onSort !== undefined,
    enableSortingRemoval: false,
    onSortingChange: (change) => {
      const [next] = typeof change === "function" ? change(order) : change;
      const by = columns.find((column) => column.id === next?.id)?.sort;
      if (next && by !== undefined) onSort?.({ by, descending: next.desc });
    },
  });
  const shown = table.getVisibleLeafColumns();
  const template = templateOf(columns.filter((column) => shown.some(({ id }) => id === column.id)), narrow, picked !== undefined);

  const focusLine = (index: number) => {
    const next = Math.max(0, Math.min(rows.total - 1, index));
    setFocus(next);
    virtual.scrollToIndex(next, { align: "auto" });
    const focusRow = (left: number) => {
      const row = scroller.current?.querySelector<HTMLElement>(`[data-line="${next}"]`);
      if (row) row.focus({ preventScroll: true });
      else if (left > 0) requestAnimationFrame(() => focusRow(left - 1));
    };
    focusRow(FRAMES); // at once if it can be: a key that follows acts on the new row
  };
  useImperativeHandle(props.handle, () => ({ focusRow: focusLine, showRow: (index) => virtual.scrollToIndex(index, { align: "auto" }) }));
  useKeys(
    "List",
    props.screenMoves
      ? []
      : [
          { keys: "j", label: "To the rows, next row", run: () => focusLine(focus) },
          { keys: "k", label: "To the rows, previous row", run: () => focusLine(focus) },
        ],
  );
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    const target = event.target as HTMLElement;
    if (target.dataset["line"] === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const index = Number(target.dataset["line"]);
    const row = rows.at(index);
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 400) / height) - 2);
    const steps: Record<string, number> = { ArrowDown: index + 1, j: index + 1, ArrowUp: index - 1, k: index - 1 };
    const jumps: Record<string, number> = { PageDown: index + page, PageUp: index - page, Home: 0, End: rows.total - 1 };
    const to = jumps[event.key] ?? (props.screenMoves ? undefined : steps[event.key]);
    if (to !== undefined) focusLine(to);
    else if (event.key === "Enter" && row !== undefined && onOpen) onOpen(row, index);
    else if ((event.key === " " || event.key === "x") && row !== undefined && onPick && picked) onPick(rowKey(row), !picked.has(rowKey(row)));
    else return;
    event.preventDefault();
  };
  const current = Math.max(0, Math.min(focus, rows.total - 1));
  const tabbable = items.some((item) => item.index === current) ? current : first;
  const latest = useRef({ props, setFocus });
  latest.current = { props, setFocus };
  const minute = Math.floor(Date.now() / FRESH_MS);
  const minHeight = props.least === undefined ? undefined : Math.min(props.least, rows.total * height + (narrow ? 0 : headHeight));
  const models = table.getRowModel().rows;

  return (
    <div
      ref={scroller}
      className={`table ${props.className ?? "fill"}`}
      role="grid"
      aria-label={props.label}
      aria-rowcount={(props.total ?? rows.total) + (narrow ? 0 : 1)}
      aria-colcount={(narrow ? 1 : shown.length) + (picked ? 1 : 0)}
      aria-multiselectable={picked ? true : undefined}
      style={{ minHeight }}
      onKeyDown={onKeyDown}
    >
      <div className={narrow ? "" : "table-inner"} role="presentation">
        {!narrow &&
          table.getHeaderGroups().map((group) => (
            <div key={group.id} role="rowgroup">
              <div className="table-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template, height: headHeight }}>
                {picked && (
                  <div role="columnheader">
                    <span className="sr">Pick</span>
                  </div>
                )}
                {group.headers.map((header) => (
                  <Heading key={header.id} header={header} column={columnOf(columns, header.column.id)} />
                ))}
              </div>
            </div>
          ))}
        <div className="table-body" role="rowgroup" style={{ height: virtual.getTotalSize() }}>
          {items.map((item, at) => {
            const line = models[at];
            if (line === undefined) return null;
            const { row } = line.original;
            return (
              <RowView<Row>
                key={item.key}
                line={line}
                row={row}
                index={item.index}
                top={item.start}
                height={item.size}
                template={template}
                narrow={narrow}
                columns={columns}
                tabbable={item.index === tabbable}
                active={item.index === props.active}
                selected={row === undefined ? undefined : picked?.has(rowKey(row))}
                minute={minute}
                latest={latest}
              />
            );
          })}
        </div>
      </div>
      {props.foot && <div className="table-foot">{props.foot}</div>}
    </div>
  );
}

/** An array as a source of rows, which has them all. */
function useSource<Row>(rows: Row[] | RowSource<Row>): RowSource<Row> {
  return useMemo(() => (Array.isArray(rows) ? { total: rows.length, at: (index) => rows[index], onRange: () => undefined } : rows), [rows]);
}

function keyOf<Row>(row: Row | undefined, index: number, rowKey: (row: Row) => string): string | number {
  return row === undefined ? index : rowKey(row);
}

function useWidth(element: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(1_200);
  useLayoutEffect(() => {
    const box = element.current;
    if (!box) return;
    const measure = () => setWidth(box.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

function columnOf<Row>(columns: Column<Row>[], id: string): Column<Row> | undefined {
  return columns.find((column) => column.id === id);
}

type Latest<Row> = { readonly current: { props: Props<Row>; setFocus: (index: number) => void } };

interface RowViewProps<Row> {
  line: TableLine<typeof FEATURES, Line<Row>>;
  row: Row | undefined;
  index: number;
  top: number;
  height: number;
  template: string;
  narrow: boolean;
  columns: Column<Row>[];
  tabbable: boolean;
  active: boolean;
  /** Undefined: rows of this table are not picked. */
  selected: boolean | undefined;
  minute: number;
  /** Does not change: what a line calls, as of the last drawing of the table. */
  latest: Latest<Row>;
}

/** A row. While the table scrolls, a row that stays in view is not drawn again: the model makes its line anew each time. */
const RowView = memo(
  function RowView<Row>({ line, row, index, top, height, template, narrow, columns, tabbable, active, selected, latest }: RowViewProps<Row>) {
    const { rowLabel, rowKey, rowData, onOpen, compact } = latest.current.props;
    const label = row === undefined ? undefined : rowLabel?.(row);
    return (
      <div
        role="row"
        className={`table-row${onOpen && row !== undefined ? " opens" : ""}${active ? " active" : ""}`}
        aria-selected={selected}
        aria-label={label}
        data-line={index}
        {...(row === undefined ? {} : rowData?.(row))}
        tabIndex={tabbable ? 0 : -1}
        aria-rowindex={index + (narrow ? 1 : 2)}
        style={{ transform: `translateY(${top}px)`, height, gridTemplateColumns: template }}
        onFocus={() => latest.current.setFocus(index)}
        onClick={(event) => {
          const element = event.target as HTMLElement;
          if (row === undefined || element.closest("a, button, input, label") || window.getSelection()?.toString()) return;
          latest.current.setFocus(index);
          latest.current.props.onOpen?.(row, index);
        }}
      >
        {selected !== undefined && row !== undefined && (
          <div role="gridcell" className="table-pick">
            <label>
              <input
                type="checkbox"
                tabIndex={-1}
                aria-label={`Pick ${label ?? rowKey(row)}`}
                checked={selected}
                onChange={(event) => latest.current.props.onPick?.(rowKey(row), event.target.checked)}
              />
            </label>
          </div>
        )}
        {row === undefined ? (
          <div role="gridcell" aria-label="Loading">
            <div className="skeleton" />
          </div>
        ) : narrow && compact ? (
          <div role="gridcell" className="table-compact">
            {compact.row(row)}
          </div>
        ) : (
          line.getVisibleCells().map((cell) => {
            const column = columnOf(columns, cell.column.id);
            return (
              <div key={cell.id} role="gridcell" className={column?.align}>
                {column?.cell(row)}
              </div>
            );
          })
        )}
      </div>
    );
  },
  (before, after) => (Object.keys(after) as (keyof typeof after)[]).every((name) => name === "line" || before[name] === after[name]),
) as <Row>(props: RowViewProps<Row>) => ReactNode;

function Heading<Row>({ header, column }: { header: Header<typeof FEATURES, Line<Row>>; column: Column<Row> | undefined }) {
  const sorted = header.column.getIsSorted();
  const order = sorted === false ? undefined : sorted === "desc" ? "descending" : "ascending";
  return (
    <div role="columnheader" className={`truncate ${column?.align ?? ""} ${column?.headClass ?? ""}`} aria-sort={order} title={column?.title}>
      {header.column.getCanSort() ? (
        <button type="button" onClick={() => header.column.toggleSorting()}>
          <span className="truncate">{column?.header}</span>
          {sorted !== false && <Icon name={sorted === "desc" ? "down" : "up"} size={12} />}
        </button>
      ) : (
        column?.header
      )}
    </div>
  );
}
