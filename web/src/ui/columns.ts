/** The columns of a table: what a screen says of them, and what the model of the table gets. */
import { type ColumnDef, columnVisibilityFeature, rowSortingFeature, tableFeatures } from "@tanstack/react-table";
import type { ReactNode } from "react";

export interface Column<Row> {
  id: string;
  header: ReactNode;
  cell: (row: Row) => ReactNode;
  /** A track of a CSS grid: `80px`, `minmax(160px, 2fr)`. */
  width: string;
  align?: "end";
  /** The name that `onSort` gets; without it the column does not sort. */
  sort?: string;
  /** The order of the first click. Numbers begin with the largest. */
  first?: "ascending" | "descending";
  /** The column is shown only where the table is at least this wide. */
  from?: number;
  /** The header in words, where `header` is a drawing. */
  title?: string;
  headClass?: string;
}

export interface Sort {
  by: string;
  descending: boolean;
}

/** What the model of the table does. The server orders, filters and pages. */
export const FEATURES = tableFeatures({ columnVisibilityFeature, rowSortingFeature });

/** What the model holds of a row in view. */
export interface Line<Row> {
  index: number;
  row: Row | undefined;
}

export function columnDefs<Row>(columns: Column<Row>[]): ColumnDef<typeof FEATURES, Line<Row>>[] {
  return columns.map(({ id, sort, first }) => ({
    id,
    accessorFn: () => null, // a cell is drawn from its row
    enableSorting: sort !== undefined,
    sortDescFirst: first !== "ascending",
  }));
}

/** Which columns a table of this width hides. */
export function visibility(columns: Column<never>[], width: number): Record<string, boolean> {
  return Object.fromEntries(columns.map(({ id, from }) => [id, from === undefined || width >= from]));
}

export function sorting(columns: Column<never>[], sort: Sort | undefined): { id: string; desc: boolean }[] {
  const column = sort && columns.find((one) => one.sort === sort.by);
  return column ? [{ id: column.id, desc: sort.descending }] : [];
}

/** The tracks of the grid of a row. */
export function templateOf(shown: Column<never>[], narrow: boolean, picks: boolean): string {
  return [...(picks ? ["18px"] : []), ...(narrow ? ["1fr"] : shown.map((column) => column.width))].join(" ");
}
