/** A table that holds any number of rows: it draws only those in view, and asks for more when its end comes near. */
import "./table.css";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type ReactNode, type Ref, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useKeys } from "~/state/keyboard";
import { Icon } from "./icons";

export interface Column<Row> {
  id: string;
  header: ReactNode;
  cell: (row: Row) => ReactNode;
  /** A track of a CSS grid: `80px`, `minmax(160px, 2fr)`. */
  width: string;
  align?: "end";
  /** The name that `onSort` gets; without it the column does not sort. */
  sort?: string;
  /** The column is shown only where the table is at least this wide. */
  from?: number;
  /** The header in words, where `header` is a drawing. */
  title?: string;
}

export interface Sort {
  by: string;
  descending: boolean;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  /** Opens a row: by a click, or by Enter. */
  onOpen?: (row: Row) => void;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** With these two, each row has a box to pick it; Space picks the row in focus. */
  picked?: ReadonlySet<string>;
  onPick?: (key: string, picked: boolean) => void;
  /** The number of rows on the server, if there are more than `rows`. */
  total?: number;
  more?: { has: boolean; loading: boolean; load: () => void };
  rowHeight?: number;
  /** A row on a narrow screen, in place of its cells, with its height. */
  compact?: { below: number; height: number; row: (row: Row) => ReactNode };
  foot?: ReactNode;
  /** Fills the height of a flex column; otherwise give the table a height with `className`. */
  className?: string;
  /** A description of a row for a screen reader. */
  rowLabel?: (row: Row) => string;
  handle?: Ref<DataTableHandle>;
}

export interface DataTableHandle {
  focusRow: (index: number) => void;
}

const FRESH_MS = 30_000; // a row says how long ago something was

export function DataTable<Row>(props: Props<Row>) {
  const { rows, columns, rowKey, onOpen, sort, onSort, picked, onPick, more, rowHeight = 40, compact } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(1_200);
  const [focus, setFocus] = useState(0);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const narrow = compact !== undefined && width < compact.below;
  const height = narrow ? compact.height : rowHeight;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    getItemKey: (index) => (rows[index] === undefined ? index : rowKey(rows[index])),
    overscan: 12,
    scrollPaddingStart: narrow ? 0 : 36,
  });
  useEffect(() => virtual.measure(), [height, rows, virtual]);

  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  const { has = false, loading = false, load } = more ?? {};
  useEffect(() => {
    if (has && !loading && last >= rows.length - 15) load?.();
  }, [has, loading, last, rows.length, load]);

  const shown = useMemo(() => columns.filter((column) => column.from === undefined || width >= column.from), [columns, width]);
  const template = [...(picked ? ["18px"] : []), ...(narrow ? ["1fr"] : shown.map((column) => column.width))].join(" ");

  const focusLine = (index: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    setFocus(next);
    virtual.scrollToIndex(next, { align: "auto" });
    const focusRow = () => {
      const row = scroller.current?.querySelector<HTMLElement>(`[data-line="${next}"]`);
      row?.focus({ preventScroll: true });
      return row != null;
    };
    if (!focusRow()) requestAnimationFrame(focusRow); // a key that follows at once acts on the new row
  };
  useImperativeHandle(props.handle, () => ({ focusRow: focusLine }));
  useKeys("List", [
    { keys: "j", label: "To the rows, next row", run: () => focusLine(focus) },
    { keys: "k", label: "To the rows, previous row", run: () => focusLine(focus) },
  ]);
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    const target = event.target as HTMLElement;
    if (target.dataset["line"] === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const index = Number(target.dataset["line"]);
    const row = rows[index];
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 400) / height) - 2);
    const moves: Record<string, number> = {
      ArrowDown: index + 1, j: index + 1, ArrowUp: index - 1, k: index - 1,
      PageDown: index + page, PageUp: index - page, Home: 0, End: rows.length - 1,
    };
    const to = moves[event.key];
    if (to !== undefined) focusLine(to);
    else if (event.key === "Enter" && row !== undefined && onOpen) onOpen(row);
    else if ((event.key === " " || event.key === "x") && row !== undefined && onPick && picked) onPick(rowKey(row), !picked.has(rowKey(row)));
    else return;
    event.preventDefault();
  };
  const current = Math.min(focus, Math.max(0, rows.length - 1));
  const tabbable = items.some((item) => item.index === current) ? current : (items[0]?.index ?? 0);
  const latest = useRef({ props, setFocus });
  latest.current = { props, setFocus };
  const minute = Math.floor(Date.now() / FRESH_MS);

  return (
    <div
      ref={scroller}
      className={`table ${props.className ?? "fill"}`}
      role="grid"
      aria-label={props.label}
      aria-rowcount={(props.total ?? rows.length) + (narrow ? 0 : 1)}
      aria-colcount={(narrow ? 1 : shown.length) + (picked ? 1 : 0)}
      aria-multiselectable={picked ? true : undefined}
      onKeyDown={onKeyDown}
    >
      <div className={narrow ? "" : "table-inner"} role="presentation">
        {!narrow && (
          <div role="rowgroup">
            <div className="table-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
              {picked && (
                <div role="columnheader">
                  <span className="sr">Pick</span>
                </div>
              )}
              {shown.map((column) => (
                <Heading key={column.id} column={column} sort={sort} onSort={onSort} />
              ))}
            </div>
          </div>
        )}
        <div className="table-body" role="rowgroup" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const row = rows[item.index];
            if (row === undefined) return null;
            const key = rowKey(row);
            return (
              <Line<Row>
                key={key}
                row={row}
                index={item.index}
                top={item.start}
                height={item.size}
                template={template}
                narrow={narrow}
                columns={shown}
                tabbable={item.index === tabbable}
                selected={picked?.has(key)}
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

interface LineProps<Row> {
  row: Row;
  index: number;
  top: number;
  height: number;
  template: string;
  narrow: boolean;
  columns: Column<Row>[];
  tabbable: boolean;
  /** Undefined: rows of this table are not picked. */
  selected: boolean | undefined;
  minute: number;
  /** Does not change: what a line calls, as of the last drawing of the table. */
  latest: { readonly current: { props: Props<Row>; setFocus: (index: number) => void } };
}

/** A row. While the table scrolls, a row that stays in view is not drawn again. */
const Line = memo(function Line<Row>({ row, index, top, height, template, narrow, columns, tabbable, selected, latest }: LineProps<Row>) {
  const { rowLabel, rowKey, onOpen, compact } = latest.current.props;
  const label = rowLabel?.(row);
  return (
    <div
      role="row"
      className={`table-row${onOpen ? " opens" : ""}`}
      aria-selected={selected}
      aria-label={label}
      data-line={index}
      tabIndex={tabbable ? 0 : -1}
      aria-rowindex={index + (narrow ? 1 : 2)}
      style={{ transform: `translateY(${top}px)`, height, gridTemplateColumns: template }}
      onFocus={(event) => event.target === event.currentTarget && latest.current.setFocus(index)}
      onClick={(event) => {
        const element = event.target as HTMLElement;
        if (element.closest("a, button, input, label") || window.getSelection()?.toString()) return;
        latest.current.setFocus(index);
        latest.current.props.onOpen?.(row);
      }}
    >
      {selected !== undefined && (
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
      {narrow && compact ? (
        <div role="gridcell" className="table-compact">
          {compact.row(row)}
        </div>
      ) : (
        columns.map((column) => (
          <div key={column.id} role="gridcell" className={column.align}>
            {column.cell(row)}
          </div>
        ))
      )}
    </div>
  );
}) as <Row>(props: LineProps<Row>) => ReactNode;

function Heading<Row>({ column, sort, onSort }: { column: Column<Row>; sort?: Sort; onSort?: (sort: Sort) => void }) {
  const { sort: by } = column;
  const active = by !== undefined && sort?.by === by;
  const order = active ? (sort.descending ? "descending" : "ascending") : undefined;
  return (
    <div role="columnheader" className={`truncate ${column.align ?? ""}`} aria-sort={order} title={column.title}>
      {by !== undefined && onSort ? (
        <button type="button" onClick={() => onSort({ by, descending: active ? !sort.descending : true })}>
          <span className="truncate">{column.header}</span>
          {active && <Icon name={sort.descending ? "down" : "up"} size={12} />}
        </button>
      ) : (
        column.header
      )}
    </div>
  );
}
