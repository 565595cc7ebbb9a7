// @vitest-environment happy-dom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { setSize } from "~/testing/dom";
import { type Column, type Sort } from "./columns";
import { DataTable } from "./DataTable";

interface Fruit {
  id: string;
  weight: number;
}

const FRUIT: Fruit[] = Array.from({ length: 5_000 }, (_, at) => ({ id: `fruit-${at}`, weight: at }));
const COLUMNS: Column<Fruit>[] = [
  { id: "name", header: "Name", width: "1fr", sort: "name", first: "ascending", cell: (row) => row.id },
  { id: "weight", header: "Weight", width: "80px", align: "end", sort: "weight", cell: (row) => `${row.weight} g` },
  { id: "note", header: "Note", width: "80px", from: 900, cell: () => "ripe" },
];
const COMMON = { label: "Fruit", columns: COLUMNS, rows: FRUIT, rowKey: (row: Fruit) => row.id };
const rows = () => screen.getAllByRole("row").filter((row) => row.dataset["line"] !== undefined);
const line = (index: number) => rows().find((row) => row.dataset["line"] === String(index)) as HTMLElement;

test("a table of many rows draws those in view, and says how many there are", () => {
  render(<DataTable {...COMMON} />);
  expect(rows().length).toBeGreaterThan(9);
  expect(rows().length).toBeLessThan(60);
  expect(screen.getByRole("grid", { name: "Fruit" }).getAttribute("aria-rowcount")).toBe("5001");
  expect(within(line(3)).getAllByRole("gridcell").map((cell) => cell.textContent)).toEqual(["fruit-3", "3 g", "ripe"]);
});

test.each([
  [1_200, ["Name", "Weight", "Note"], "fruit-0"],
  [800, ["Name", "Weight"], "fruit-0"],
  [390, [], "fruit-0 as a card"],
])("a table %d wide has the columns %j", (width, headers, first) => {
  setSize(width);
  render(<DataTable {...COMMON} compact={{ below: 500, height: 80, row: (row) => `${row.id} as a card` }} />);
  expect(screen.queryAllByRole("columnheader").map((header) => header.textContent)).toEqual(headers);
  expect(within(line(0)).getAllByRole("gridcell")[0]?.textContent).toBe(first);
});

test("a header orders: numbers from the largest, names from the first, then the other way", () => {
  const asked: Sort[] = [];
  function Ordered() {
    const [sort, setSort] = useState<Sort | undefined>(undefined);
    return <DataTable {...COMMON} sort={sort} onSort={(next) => (asked.push(next), setSort(next))} />;
  }
  render(<Ordered />);
  for (const name of ["Weight", "Weight", "Name"]) fireEvent.click(screen.getByRole("button", { name }));
  expect(asked).toEqual([{ by: "weight", descending: true }, { by: "weight", descending: false }, { by: "name", descending: false }]);
  expect(screen.getAllByRole("columnheader").map((header) => header.getAttribute("aria-sort"))).toEqual(["ascending", null, null]);
  expect(screen.queryByRole("button", { name: "Note" })).toBeNull();
});

test("the keyboard enters the rows, moves, picks and opens", () => {
  const onOpen = vi.fn();
  const onPick = vi.fn();
  render(<DataTable {...COMMON} onOpen={onOpen} onPick={onPick} picked={new Set(["fruit-1"])} />);
  fireEvent.keyDown(document.body, { key: "j" });
  expect(document.activeElement).toBe(line(0));
  for (const key of ["ArrowDown", "j", "k"]) fireEvent.keyDown(document.activeElement ?? document.body, { key });
  expect(document.activeElement).toBe(line(1));
  expect(line(1).getAttribute("aria-selected")).toBe("true");
  fireEvent.keyDown(line(1), { key: " " });
  fireEvent.keyDown(line(1), { key: "Enter" });
  expect(onPick).toHaveBeenCalledWith("fruit-1", false);
  expect(onOpen).toHaveBeenCalledWith(FRUIT[1], 1);
  expect(rows().filter((row) => row.tabIndex === 0)).toEqual([line(1)]);
});

test("a screen with keys of its own keeps them, and holds the active row", () => {
  const onActive = vi.fn();
  render(<DataTable {...COMMON} screenMoves active={2} onActive={onActive} />);
  fireEvent.keyDown(line(2), { key: "ArrowDown" });
  expect(onActive).not.toHaveBeenCalled();
  expect(rows().filter((row) => row.classList.contains("active"))).toEqual([line(2)]);
  fireEvent.keyDown(line(2), { key: "Home" });
  expect(onActive).toHaveBeenCalledWith(0);
});

test("rows that are not loaded are asked for, and are no rows of nothing", () => {
  const onRange = vi.fn();
  const onOpen = vi.fn();
  render(<DataTable {...COMMON} rows={{ total: 2_000, at: (index) => (index < 2 ? FRUIT[index] : undefined), onRange }} onOpen={onOpen} />);
  expect(onRange.mock.lastCall?.[0]).toBe(0);
  expect(onRange.mock.lastCall?.[1]).toBeGreaterThan(9);
  expect(within(line(2)).getByRole("gridcell", { name: "Loading" })).toBeTruthy();
  fireEvent.click(line(2));
  fireEvent.click(line(1));
  expect(onOpen.mock.calls).toEqual([[FRUIT[1], 1]]);
});

test("a list asks for more when its end is near, and not while it loads", () => {
  const load = vi.fn();
  const few = { ...COMMON, rows: FRUIT.slice(0, 12) };
  const { rerender } = render(<DataTable {...few} more={{ has: true, loading: true, load }} />);
  expect(load).not.toHaveBeenCalled();
  rerender(<DataTable {...few} more={{ has: true, loading: false, load }} />);
  expect(load).toHaveBeenCalledOnce();
});
