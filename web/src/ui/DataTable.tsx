/** A table that holds any number of rows: it draws only those in view, and asks for more when its end comes near. */
import "./table.css";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
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
  /** The heading above the first of several rows in a row that give the same text. */
  groupOf?: (row: Row) => string;
  groupHeader?: (group: string, first: Row) => ReactNode;
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
}

type Line<Row> = { kind: "row"; row: Row; key: string } | { kind: "group"; group: string; first: Row; key: string };

export function DataTable<Row>(props: Props<Row>) {
  const { rows, columns, rowKey, onOpen, sort, onSort, picked, onPick, groupOf, more, rowHeight = 40, compact } = props;
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
  const lines = useMemo(() => linesOf(rows, rowKey, groupOf), [rows, rowKey, groupOf]);
  const narrow = compact !== undefined && width < compact.below;
  const height = narrow ? compact.height : rowHeight;
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (lines[index]?.kind === "group" ? 34 : height),
    getItemKey: (index) => lines[index]?.key ?? index,
    overscan: 12,
    scrollPaddingStart: narrow ? 0 : 36,
  });
  useEffect(() => virtual.measure(), [height, lines, virtual]);

  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  const { has = false, loading = false, load } = more ?? {};
  useEffect(() => {
    if (has && !loading && last >= lines.length - 15) load?.();
  }, [has, loading, last, lines.length, load]);

  const shown = columns.filter((column) => column.from === undefined || width >= column.from);
  const template = [...(picked && !narrow ? ["18px"] : []), ...(narrow ? ["1fr"] : shown.map((column) => column.width))].join(" ");

  const focusLine = (index: number) => {
    const next = Math.max(0, Math.min(lines.length - 1, index));
    setFocus(next);
    virtual.scrollToIndex(next, { align: "auto" });
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-line="${next}"]`)?.focus({ preventScroll: true }));
  };
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    const target = event.target as HTMLElement;
    if (target.dataset["line"] === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const index = Number(target.dataset["line"]);
    const line = lines[index];
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 400) / height) - 2);
    const moves: Record<string, number> = {
      ArrowDown: index + 1, j: index + 1, ArrowUp: index - 1, k: index - 1,
      PageDown: index + page, PageUp: index - page, Home: 0, End: lines.length - 1,
    };
    const to = moves[event.key];
    if (to !== undefined) focusLine(to);
    else if (event.key === "Enter" && line?.kind === "row" && onOpen) onOpen(line.row);
    else if ((event.key === " " || event.key === "x") && line?.kind === "row" && onPick && picked) onPick(line.key, !picked.has(line.key));
    else return;
    event.preventDefault();
  };
  const current = Math.min(focus, Math.max(0, lines.length - 1));
  const tabbable = items.some((item) => item.index === current) ? current : (items[0]?.index ?? 0);

  return (
    <div
      ref={scroller}
      className={`table ${props.className ?? "fill"}`}
      role="grid"
      aria-label={props.label}
      aria-rowcount={(props.total ?? lines.length) + (narrow ? 0 : 1)}
      aria-colcount={narrow ? 1 : shown.length + (picked ? 1 : 0)}
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
            const line = lines[item.index];
            if (!line) return null;
            const place = { transform: `translateY(${item.start}px)`, height: item.size, gridTemplateColumns: template };
            const common = {
              "data-line": item.index,
              tabIndex: item.index === tabbable ? 0 : -1,
              "aria-rowindex": item.index + (narrow ? 1 : 2),
              style: place,
            };
            if (line.kind === "group") {
              return (
                <div key={line.key} role="row" className="table-row group" {...common}>
                  <div role="gridcell">{props.groupHeader?.(line.group, line.first) ?? line.group}</div>
                </div>
              );
            }
            const selected = picked?.has(line.key);
            return (
              <div
                key={line.key}
                role="row"
                className={`table-row${onOpen ? " opens" : ""}`}
                aria-selected={picked ? selected : undefined}
                aria-label={props.rowLabel?.(line.row)}
                onFocus={(event) => event.target === event.currentTarget && setFocus(item.index)}
                onClick={(event) => {
                  const element = event.target as HTMLElement;
                  if (element.closest("a, button, input, label") || window.getSelection()?.toString()) return;
                  setFocus(item.index);
                  onOpen?.(line.row);
                }}
                {...common}
              >
                {narrow ? (
                  <div role="gridcell" className="table-compact">
                    {compact.row(line.row)}
                  </div>
                ) : (
                  <>
                    {picked && (
                      <div role="gridcell">
                        <input
                          type="checkbox"
                          tabIndex={-1}
                          aria-label={`Pick ${props.rowLabel?.(line.row) ?? line.key}`}
                          checked={selected}
                          onChange={(event) => onPick?.(line.key, event.target.checked)}
                        />
                      </div>
                    )}
                    {shown.map((column) => (
                      <div key={column.id} role="gridcell" className={column.align}>
                        {column.cell(line.row)}
                      </div>
                    ))}
                  </>
                )}
              </div>
            );
          })}
        </div>
      </div>
      {props.foot && <div className="table-foot">{props.foot}</div>}
    </div>
  );
}

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

function linesOf<Row>(rows: Row[], rowKey: (row: Row) => string, groupOf?: (row: Row) => string): Line<Row>[] {
  const lines: Line<Row>[] = [];
  let group: string | null = null;
  for (const row of rows) {
    const key = rowKey(row);
    const own = groupOf?.(row);
    if (own !== undefined && own !== group) {
      lines.push({ kind: "group", group: own, first: row, key: `group ${own} ${key}` });
      group = own;
    }
    lines.push({ kind: "row", row, key });
  }
  return lines;
}
