import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { queryRuns, type RunRow } from "~/api/runs";
import { formatAddress, navigate, useParam } from "~/state/address";
import { type Column, DataTable, ErrorState, format, Interval, Loading, SearchField, StatusChip } from "~/ui";

const COLUMNS: Column<RunRow>[] = [
  {
    id: "name",
    header: "Run",
    width: "minmax(180px, 3fr)",
    cell: (run) => <a href={runAddress(run)}>{run.name || format.shortId(run.runId)}</a>,
  },
  { id: "status", header: "Status", width: "140px", cell: (run) => <StatusChip status={run.status} /> },
  {
    id: "score",
    header: "Score",
    width: "180px",
    align: "end",
    cell: (run) => <Interval value={run.score?.value} low={run.score?.low} high={run.score?.high} bar />,
  },
  { id: "created", header: "Created", width: "110px", align: "end", cell: (run) => format.ago(run.createdAt) },
];

function runAddress(run: RunRow): string {
  return formatAddress(`/runs/${encodeURIComponent(run.runId)}`);
}

export default function RunsScreen() {
  const [text, setText] = useParam("q");
  const runs = useInfiniteQuery({
    queryKey: ["runs", text],
    queryFn: ({ pageParam, signal }) => queryRuns({ filter: text ? { text } : {}, cursor: pageParam }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
  });
  const rows = useMemo(() => runs.data?.pages.flatMap((page) => page.runs ?? []) ?? [], [runs.data]);
  return (
    <div className="screen">
      <header className="screen-head">
        <h1>Runs</h1>
        <SearchField label="Search the runs" hotkey="/" value={text} onChange={(value) => setText(value)} />
      </header>
      {runs.isPending ? (
        <Loading />
      ) : runs.isError ? (
        <ErrorState error={runs.error} retry={() => void runs.refetch()} />
      ) : (
        <DataTable
          label="Runs"
          columns={COLUMNS}
          rows={rows}
          rowKey={(run) => run.runId}
          onOpen={(run) => navigate(runAddress(run))}
          more={{ has: runs.hasNextPage, loading: runs.isFetchingNextPage, load: () => void runs.fetchNextPage() }}
        />
      )}
    </div>
  );
}
