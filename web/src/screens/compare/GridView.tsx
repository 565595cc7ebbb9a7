import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { getGrid, type GridCell, type GridRow } from "~/api/comparison";
import type { RunRow } from "~/api/runs";
import { factsApart } from "~/screens/runs/apart";
import { formatAddress, navigate, useParam } from "~/state/address";
import { type Column, DataTable, Empty, ErrorState, ExportMenu, format, Loading, Segments, VisibleText } from "~/ui";

const PAGE = 200;
const SHOWN = [
  ["different", "Only different"],
  ["all", "All cases"],
] as const;

/** The cases of several runs: a row for each case, a column for each run. */
export function GridView({ runs, metric, rows: about }: { runs: string[]; metric: string; rows: Record<string, { run: RunRow }> }) {
  const [only, setOnly] = useParam("only", "different");
  const different = only === "different";
  const grid = useInfiniteQuery({
    queryKey: ["comparison", runs, metric, "grid", different],
    queryFn: ({ pageParam, signal }) => getGrid({ runs, metric, different }, pageParam, PAGE, signal),
    initialPageParam: 0,
    getNextPageParam: (page) => (page.first + page.rows.length < page.total && page.rows.length > 0 ? page.first + page.rows.length : undefined),
    staleTime: Infinity,
    retry: false,
  });
  const rows = useMemo(() => grid.data?.pages.flatMap((page) => page.rows) ?? [], [grid.data]);
  const apart = useMemo(() => factsApart(Object.values(about).map((one) => one.run)), [about]);
  const names = runs.map((run, at) => nameOf(run, apart.get(run) ?? [], at));
  const first = grid.data?.pages[0];
  const words = first?.metric === "passed";
  const columns = useMemo(() => columnsOf(runs, names, words), [runs, names.join("\n"), words]);
  return (
    <section className="compare-cases" aria-label="Cases and runs">
      <div className="toolbar">
        <h2>Cases and runs</h2>
        <Segments label="Which cases" value={different ? "different" : "all"} options={SHOWN} onChange={setOnly} />
        {first && <span className="quiet num">{`${format.plural(first.different, "case")} with different values of ${first.metric}`}</span>}
        <span className="grow" />
        <ExportMenu name="comparison-grid" columns={[{ name: "case", value: (row: GridRow) => row.id }, ...runs.map((run, at) => ({ name: run, value: (row: GridRow) => row.cells[at]?.value ?? null }))]} rows={rows} />
      </div>
      {grid.isPending ? (
        <Loading label="Loading the cases" lines={8} />
      ) : grid.isError ? (
        <ErrorState error={grid.error} retry={() => void grid.refetch()} />
      ) : rows.length === 0 ? (
        <div className="card">
          <Empty title={different ? "No case differs" : "There is no case"} icon="check">
            <p>Every case has the same value in all of these runs.</p>
          </Empty>
        </div>
      ) : (
        <div className="compare-list" style={{ height: Math.min(680, 40 + rows.length * 40 + 4) }}>
          <DataTable
            label="Cases and runs"
            columns={columns}
            rows={rows}
            rowKey={(row) => row.id}
            total={first?.total}
            rowLabel={(row) => `${row.id}, ${row.different ? "different" : "the same in all runs"}`}
            onOpen={(row) => openRow(runs, metric, row)}
            more={{ has: grid.hasNextPage, loading: grid.isFetchingNextPage, load: () => void grid.fetchNextPage() }}
            compact={{
              below: 560,
              height: 40 + 20 * runs.length,
              row: (row) => (
                <div className="grid-compact">
                  <span className="mono truncate">
                    <VisibleText text={row.id} />
                  </span>
                  {row.cells.map((cell, at) => (
                    <div key={at} className="row">
                      <span className="faint grow truncate">{names[at]}</span>
                      <Cell cell={cell} words={words} />
                    </div>
                  ))}
                </div>
              ),
            }}
          />
        </div>
      )}
    </section>
  );
}

/** A case of two runs side by side: the first run, and the first of the others that differs from it. */
function openRow(runs: string[], metric: string, row: GridRow): void {
  const other = row.cells.findIndex((cell, at) => at > 0 && (cell.value !== row.cells[0]?.value || cell.state !== row.cells[0]?.state));
  navigate(formatAddress("/compare", { runs: runs.join(","), metric, of: runs[Math.max(1, other)], case: row.id }));
}

function nameOf(run: string, facts: string[], at: number): string {
  return `${at === 0 ? "Baseline" : `Run ${at}`} ${facts[0] ?? `…${run.slice(-4)}`}`;
}

function columnsOf(runs: string[], names: string[], words: boolean): Column<GridRow>[] {
  return [
    {
      id: "case",
      header: "Case",
      width: "minmax(140px, 2fr)",
      cell: (row) => (
        <span className="mono truncate" title={row.id}>
          <VisibleText text={row.id} />
        </span>
      ),
    },
    ...runs.map((run, at): Column<GridRow> => ({
      id: run + at,
      header: <span className="truncate">{names[at]}</span>,
      title: run,
      width: "minmax(90px, 1fr)",
      align: "end",
      cell: (row) => <Cell cell={row.cells[at]} words={words} />,
    })),
  ];
}

/** Colour is not the only sign: the value is written. `words`: as pass or fail. */
function Cell({ cell, words }: { cell: GridCell | undefined; words: boolean }) {
  if (cell === undefined || cell.state === "absent") return <span className="faint">not there</span>;
  if (cell.state === "unmeasured") return <span className="grid-cell none">not measured</span>;
  const tone = cell.value === 1 ? "pass" : cell.value === 0 ? "fail" : "";
  return <span className={`grid-cell num ${tone}`}>{words && tone ? tone : format.caseValue(cell.value)}</span>;
}
