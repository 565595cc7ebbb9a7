import "./runs.css";
import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { queryRuns, type RunGroup, type RunRow, type RunsAnswer } from "~/api/runs";
import { Sparkline } from "~/charts/Sparkline";
import { formatAddress, navigate } from "~/state/address";
import { useKeys } from "~/state/keyboard";
import { Button, type Column, DataTable, ErrorState, ExportMenu, format, Icon, Loading, Notice, VisibleText } from "~/ui";
import { factsApart } from "./apart";
import { CompactRun, EXPORT_COLUMNS, KIND_NAMES, Outcome, runAddress, runColumns, ScoreCell, titleOf } from "./columns";
import { NoMatch, NoRuns } from "./EmptyRuns";
import { useLiveRuns } from "./live";
import { isFiltered, isScanned, useRunsState } from "./query";
import { RunsToolbar } from "./RunsToolbar";

const EXPORT_LIMIT = 5_000;
const NO_KEYS: readonly string[] = [];

/** Every run, newest first, live. */
export default function RunsScreen() {
  const state = useRunsState();
  const queries = useQueryClient();
  const { filter, query, picked } = state;
  const key = useMemo(() => ["runs", query], [query]);
  const list = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => queryRuns({ ...query, cursor: pageParam }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page: RunsAnswer) => page.next,
    placeholderData: keepPreviousData,
  });
  const indexed = { kind: filter.kind, status: filter.status, name: filter.name, passed: filter.passed };
  const scanned = isScanned(filter);
  const counts = useQuery({
    queryKey: ["run-counts", indexed],
    queryFn: ({ signal }) => queryRuns({ filter: indexed, counts: true, limit: 1 }, signal),
    placeholderData: keepPreviousData,
  });
  const pages = list.data?.pages ?? [];
  const rows = useMemo(() => unique(list.data?.pages.flatMap((page) => page.runs ?? []) ?? []), [list.data]);
  const groups = useMemo(() => list.data?.pages.flatMap((page) => page.groups ?? []) ?? [], [list.data]);
  const kinds = pages[0]?.kinds;

  const onNews = useCallback(
    () => Promise.all((state.grouped ? ["run-counts", "runs"] : ["run-counts"]).map((name) => queries.invalidateQueries({ queryKey: [name] }))),
    [queries, state.grouped],
  );
  const newestFirst = state.sort.by === "created" && state.sort.descending;
  useLiveRuns({ key, rows, filter, newestFirst, enabled: list.isSuccess && !list.isPlaceholderData, now: pages[0]?.now, onNews });

  const chosen = useMemo(() => new Set(picked.length > 0 ? picked : NO_KEYS), [picked]);
  const pick = (run: string, on: boolean) => state.setPicked(on ? [...picked, run] : picked.filter((one) => one !== run));
  const compare = () => {
    if (picked.length < 2) return;
    const age = new Map(rows.map((row) => [row.runId, row.createdAt]));
    const ordered = [...picked].sort((a, b) => (age.get(a) ?? "").localeCompare(age.get(b) ?? ""));
    navigate(formatAddress("/compare", { runs: ordered.join(",") }));
  };
  useKeys("Runs", [
    { keys: "c", label: "Compare the picked runs", run: compare },
    { keys: "s", label: "Turn grouping by suite on or off", run: () => state.setGrouped(!state.grouped) },
    ...(picked.length > 0 ? [{ keys: "Escape", label: "Clear the selection", run: () => state.setPicked([]) }] : []),
  ]);

  const { setTag } = state;
  const apart = useMemo(() => factsApart(rows), [rows]);
  const columns = useMemo(() => runColumns(setTag, apart), [setTag, apart]);
  const looked = lookedText(pages.at(-1));
  const clear = () => navigate(formatAddress("/runs"));
  const more = { has: list.hasNextPage, loading: list.isFetchingNextPage, load: () => void list.fetchNextPage() };
  const exportRows = async () => {
    let { data, hasNextPage } = list;
    while (hasNextPage && (data?.pages.flatMap((page) => page.runs ?? []).length ?? 0) < EXPORT_LIMIT) {
      const next = await list.fetchNextPage();
      if (next.isError) throw next.error;
      ({ data, hasNextPage } = next);
    }
    return unique(data?.pages.flatMap((page) => page.runs ?? []) ?? []);
  };
  const missing = kinds && kinds.length < 4 ? (kinds.includes("evaluation") ? "runs:read" : "evaluations:read") : null;
  const shown = state.grouped ? groups.length : rows.length;
  const none = list.isSuccess && shown === 0 && !list.hasNextPage && !isFiltered(filter);

  return (
    <div className="screen runs">
      <header className="screen-head">
        <h1>Runs</h1>
        {counts.data?.counts && (
          <span className="faint num" role="status">
            {scanned ? `${format.count(rows.length)}${list.hasNextPage ? " or more" : ""} of ${format.count(counts.data.counts.total)}` : format.count(counts.data.counts.total)}
          </span>
        )}
        <span className="grow" />
        {picked.length > 0 && (
          <span className="row">
            <span className="quiet num">{`${picked.length} picked`}</span>
            <Button kind="plain" size="small" onClick={() => state.setPicked([])}>
              Clear
            </Button>
          </span>
        )}
        {!none && <Button
          kind={picked.length > 1 ? "primary" : "normal"}
          icon="compare"
          disabled={picked.length < 2}
          title={picked.length < 2 ? "Pick two or more runs to compare them" : "Compare the picked runs (c)"}
          onClick={compare}
        >
          Compare
        </Button>}
        {!none && <ExportMenu name="runs" columns={EXPORT_COLUMNS} rows={state.grouped ? groups.map((group) => group.newest) : exportRows} />}
      </header>
      {!none && <RunsToolbar state={state} counts={counts.data?.counts} kinds={kinds} />}
      {missing && <Notice tone="warn">{`This key cannot see every kind of run. It lacks the scope ${missing}.`}</Notice>}
      {list.isPending ? (
        <div className="card loading-card">
          <Loading label="Loading the runs" lines={10} />
        </div>
      ) : list.isError ? (
        <ErrorState error={list.error} retry={() => void list.refetch()} />
      ) : shown === 0 && !list.hasNextPage ? (
        isFiltered(filter) ? (
          <NoMatch clear={clear} looked={looked} />
        ) : (
          <NoRuns />
        )
      ) : state.grouped ? (
        <DataTable
          label="Suites and experiments"
          columns={GROUP_COLUMNS}
          rows={groups}
          rowKey={groupKey}
          rowHeight={48}
          rowLabel={(group) => group.name || "Without a name"}
          onOpen={(group) => navigate(groupAddress(group))}
          more={more}
          compact={{ below: 800, height: 92, row: (group) => <CompactRun run={group.newest} amount={group.count} /> }}
        />
      ) : (
        <DataTable
          label="Runs"
          className={list.isPlaceholderData ? "fill runs-old" : "fill"}
          columns={columns}
          rows={rows}
          rowKey={runKey}
          rowHeight={48}
          rowLabel={(run) => `${KIND_NAMES[run.kind]} ${titleOf(run)}`}
          onOpen={(run) => navigate(runAddress(run))}
          sort={state.sort}
          onSort={state.setSort}
          picked={chosen}
          onPick={pick}
          total={isFiltered(filter) ? undefined : counts.data?.counts?.total}
          more={more}
          compact={{ below: 800, height: 92, row: (run) => <CompactRun run={run} facts={apart.get(run.runId)} /> }}
          foot={list.isFetchingNextPage ? "Loading more" : looked || undefined}
        />
      )}
    </div>
  );
}

const GROUP_COLUMNS: Column<RunGroup>[] = [
  {
    id: "name",
    header: "Suite or experiment",
    width: "minmax(200px, 3fr)",
    cell: (group) => (
      <div className="runs-name">
        <a className="truncate" href={groupAddress(group)} tabIndex={-1}>
          {group.kind === "deployment" ? "Changes of deployments" : <VisibleText text={group.name || "Without a name"} />}
        </a>
        <span className="faint">{KIND_NAMES[group.kind]}</span>
      </div>
    ),
  },
  { id: "count", header: "Runs", width: "70px", align: "end", cell: (group) => format.count(group.count) },
  { id: "outcome", header: "Newest", width: "140px", cell: (group) => <Outcome run={group.newest} /> },
  { id: "score", header: "Newest score", width: "196px", align: "end", cell: (group) => <ScoreCell run={group.newest} /> },
  {
    id: "trend",
    header: "Trend",
    title: "The scores of the newest runs, the oldest first",
    width: "92px",
    from: 900,
    cell: (group) => (
      <a href={historyAddress(group)} tabIndex={-1} title="Show the runs over time" onClick={(event) => event.stopPropagation()}>
        <Sparkline values={group.scores} label={trendLabel(group)} />
      </a>
    ),
  },
  {
    id: "created",
    header: "Started",
    width: "100px",
    align: "end",
    cell: ({ newest }) => <time dateTime={newest.createdAt} title={format.moment(newest.createdAt)}>{format.ago(newest.createdAt)}</time>,
  },
  { id: "open", header: <span className="sr">Opens</span>, width: "16px", cell: () => <Icon name="right" size={14} className="faint" /> },
];

function historyAddress(group: RunGroup): string {
  return formatAddress("/history", { name: group.name, kind: group.kind });
}

/** A suite or an experiment opens over time; the other kinds have no score, and a list. */
function groupAddress(group: RunGroup): string {
  return group.name && (group.kind === "evaluation" || group.kind === "agent-eval") ? historyAddress(group) : formatAddress("/runs", { name: group.name, kind: group.kind });
}

function trendLabel({ scores, kind }: RunGroup): string {
  const known = scores.filter((one): one is number => one !== null);
  const text = (score: number | undefined) => (score === undefined ? "none" : kind === "evaluation" ? format.percent(score) : format.score(score));
  return `Scores of ${format.plural(known.length, "run")}, from ${text(known[0])} to ${text(known.at(-1))}`;
}

function groupKey(group: RunGroup): string {
  return `${group.kind} ${group.name}`;
}

function runKey(run: RunRow): string {
  return run.runId;
}

function unique(rows: RunRow[]): RunRow[] {
  const seen = new Set<string>();
  return rows.filter(({ runId }) => !seen.has(runId) && seen.add(runId));
}

function lookedText(page: RunsAnswer | undefined): string {
  if (!page?.looked) return "";
  const { runs, until, complete } = page.looked;
  if (complete) return `The search looked at all ${format.plural(runs, "run")}.`;
  return `The search looked at ${format.plural(runs, "run")}${until ? `, back to ${format.moment(until)}` : ""}.`;
}
