import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { getPartings, type PartingView } from "~/api/comparison";
import { changeParams } from "~/state/address";
import { type Column, DataTable, Empty, ErrorState, ExportMenu, format, Loading, VisibleText } from "~/ui";

const PAGE = 100;

/** Where two runs part ways, case by case, as `assay diff` prints it. A row opens the case side by side. */
export function DiffView({ runs }: { runs: [string, string] }) {
  const diff = useInfiniteQuery({
    queryKey: ["comparison", runs, "diff"],
    queryFn: ({ pageParam, signal }) => getPartings(runs, pageParam, PAGE, signal),
    initialPageParam: 0,
    getNextPageParam: (page) => (page.first + page.partings.length < page.total && page.partings.length > 0 ? page.first + page.partings.length : undefined),
    staleTime: Infinity,
    retry: false,
  });
  const rows = useMemo(() => diff.data?.pages.flatMap((page) => page.partings) ?? [], [diff.data]);
  const first = diff.data?.pages[0];
  return (
    <section className="compare-cases" aria-label="Where the runs part">
      <div className="toolbar">
        <h2>Where the runs part</h2>
        {first && (
          <span className="quiet num">
            {[`${format.plural(first.same + first.total, first.noun)} in both: ${format.count(first.same)} the same, ${format.count(first.total)} part ways`, first.only_a > 0 && `${format.count(first.only_a)} only before`, first.only_b > 0 && `${format.count(first.only_b)} only after`].filter(Boolean).join(", ")}
          </span>
        )}
        <span className="grow" />
        <ExportMenu name="comparison-diff" columns={EXPORT} rows={rows} />
      </div>
      {diff.isPending ? (
        <Loading label="Comparing the steps" lines={8} />
      ) : diff.isError ? (
        <ErrorState error={diff.error} retry={() => void diff.refetch()} />
      ) : rows.length === 0 ? (
        <div className="card">
          <Empty title="The runs do not part" icon="check">
            <p>Every case that both runs have took the same steps to the same answer and outcome.</p>
          </Empty>
        </div>
      ) : (
        <div className="compare-list" style={{ height: Math.min(680, 40 + rows.length * 58 + 4) }}>
          <DataTable
            label="Where the runs part"
            columns={COLUMNS}
            rows={rows}
            rowKey={(row) => `${row.id} ${row.trial ?? ""}`}
            rowHeight={58}
            total={first?.total}
            rowLabel={(row) => `${row.id}, ${row.outcome_a} before, ${row.outcome_b} after, ${row.what}`}
            onOpen={(row) => changeParams({ view: undefined, case: row.id })}
            more={{ has: diff.hasNextPage, loading: diff.isFetchingNextPage, load: () => void diff.fetchNextPage() }}
            compact={{ below: 640, height: 108, row: (row) => <CompactRow row={row} /> }}
          />
        </div>
      )}
    </section>
  );
}

const COLUMNS: Column<PartingView>[] = [
  { id: "case", header: "Case", width: "minmax(130px, 1.2fr)", cell: (row) => <CaseName row={row} /> },
  { id: "outcome", header: "Outcome", width: "150px", cell: (row) => `${row.outcome_a} → ${row.outcome_b}` },
  { id: "what", header: "First difference", width: "minmax(120px, 0.8fr)", cell: (row) => <What row={row} />, from: 860 },
  { id: "sides", header: "Before and after", width: "minmax(240px, 4fr)", cell: (row) => <Sides row={row} /> },
];

function CaseName({ row }: { row: PartingView }) {
  return (
    <span className="truncate" title={row.id}>
      <span className="mono">
        <VisibleText text={row.id} />
      </span>
      {row.trial !== undefined && <span className="faint">{` trial ${row.trial}`}</span>}
    </span>
  );
}

function What({ row }: { row: PartingView }) {
  return (
    <span>
      {row.what}
      {row.same_steps > 0 && <span className="faint">{` after ${format.plural(row.same_steps, "equal step")}`}</span>}
    </span>
  );
}

function Sides({ row }: { row: PartingView }) {
  return (
    <div className="diff-sides">
      <span className="truncate" title={row.a}>
        <span className="faint">before </span>
        <VisibleText text={row.a} />
      </span>
      <span className="truncate" title={row.b}>
        <span className="faint">after </span>
        <VisibleText text={row.b} />
      </span>
    </div>
  );
}

function CompactRow({ row }: { row: PartingView }) {
  return (
    <div className="grid-compact">
      <div className="row">
        <CaseName row={row} />
        <span className="grow" />
        <span className="faint">{`${row.outcome_a} → ${row.outcome_b}`}</span>
      </div>
      <What row={row} />
      <Sides row={row} />
    </div>
  );
}

const EXPORT = [
  { name: "case", value: (row: PartingView) => row.id },
  { name: "trial", value: (row: PartingView) => row.trial },
  { name: "outcome before", value: (row: PartingView) => row.outcome_a },
  { name: "outcome after", value: (row: PartingView) => row.outcome_b },
  { name: "first difference", value: (row: PartingView) => row.what },
  { name: "before", value: (row: PartingView) => row.a },
  { name: "after", value: (row: PartingView) => row.b },
];
