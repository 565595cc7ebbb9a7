import "./history.css";
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { ScreenProps } from "~/app/routes";
import { getHistory, type HistoryKind, type HistoryRow } from "~/api/history";
import { ChartView } from "~/charts/ChartView";
import { formatAddress, navigate, useListParam, useParam } from "~/state/address";
import { useKeys } from "~/state/keyboard";
import { Button, Chip, type Column, DataTable, Empty, ErrorState, type ExportColumn, ExportMenu, format, Loading, Missing, Segments, Select, StatusChip, Tag, VisibleText } from "~/ui";
import { COST, eventsOf, historyChart, LATENCY, type Measure, noScore, SCORE, type Spacing, summaryOf } from "./marks";

const PAGE = 100;
const SPACINGS = [
  ["run", "By run"],
  ["time", "By time"],
] as const;

/** The runs of a suite, an experiment or a project of traces over time. */
export default function HistoryScreen(_: ScreenProps) {
  const [name] = useParam("name");
  const [kind] = useParam("kind", "agent-eval");
  const [agent, setAgent] = useParam("agent");
  const [spacing, setSpacing] = useParam("x", "run");
  const [picked, setPicked] = useListParam("pick");
  const known: HistoryKind = kind === "evaluation" ? "evaluation" : "agent-eval";
  const list = useInfiniteQuery({
    queryKey: ["history", name, known, agent],
    queryFn: ({ pageParam, signal }) => getHistory({ name, kind: known, agentId: agent || undefined, limit: PAGE, cursor: pageParam }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
    placeholderData: keepPreviousData,
    enabled: name !== "",
  });
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.rows) ?? [], [list.data]);
  const oldestFirst = useMemo(() => [...rows].reverse(), [rows]);
  const agents = useMemo(() => [...new Set(rows.map((row) => row.agentId).filter(Boolean))], [rows]);
  const columns = useMemo(() => columnsOf(rows), [rows]);
  const compare = () => {
    if (picked.length < 2) return;
    const order = new Map(oldestFirst.map((row, at) => [row.runId, at]));
    navigate(formatAddress("/compare", { runs: [...picked].sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0)).join(",") }));
  };
  useKeys("History", [{ keys: "c", label: "Compare the picked runs", run: compare }]);
  if (name === "") return <NoName />;
  const open = (run: string) => navigate(formatAddress(`/runs/${encodeURIComponent(run)}`));
  return (
    <div className="screen history">
      <header className="screen-head">
        <div className="history-title">
          <h1>
            <VisibleText text={name} />
          </h1>
          <span className="faint">{known === "agent-eval" ? "Suite" : rows.some((row) => row.windowStart) ? "Project of traces" : "Experiment"}, over time</span>
        </div>
        <span className="grow" />
        <div className="toolbar">
          {(agents.length > 1 || agent !== "") && (
            <Select label="Agent" value={agent} options={[["", "Every agent"], ...[...new Set([...agents, ...(agent ? [agent] : [])])].map((one) => [one, one] as const)]} onChange={setAgent} />
          )}
          <Segments label="Distance between the runs" value={spacing} options={SPACINGS} onChange={setSpacing} />
          <Button kind={picked.length > 1 ? "primary" : "normal"} icon="compare" disabled={picked.length < 2} title={picked.length < 2 ? "Pick two or more runs to compare them" : "Compare the picked runs (c)"} onClick={compare}>
            Compare
          </Button>
          <a className="button" href={formatAddress("/runs", { name, kind: known })}>
            All runs
          </a>
          <ExportMenu name={`history-${name}`} columns={EXPORT} rows={rows} />
        </div>
      </header>
      {list.isPending ? (
        <div className="card loading-card">
          <Loading label="Loading the runs" lines={8} />
        </div>
      ) : list.isError ? (
        <ErrorState error={list.error} retry={() => void list.refetch()} />
      ) : rows.length === 0 && !list.hasNextPage ? (
        <NoRows agent={agent} clear={() => setAgent("")} />
      ) : (
        <>
          <HistoryChart title="Score" rows={oldestFirst} measure={SCORE} spacing={spacing as Spacing} name={name} onOpen={open} />
          <Legend rows={rows} />
          <div className="history-pair">
            <HistoryChart title="Cost" rows={oldestFirst} measure={COST} spacing={spacing as Spacing} name={name} onOpen={open} />
            <HistoryChart title="Latency, p95" rows={oldestFirst} measure={LATENCY} spacing={spacing as Spacing} name={name} onOpen={open} />
          </div>
          <div className="history-list" style={{ height: Math.min(560, 40 + rows.length * 44 + 4) }}>
            <DataTable
              label="Runs over time"
              columns={columns}
              rows={rows}
              rowKey={(row) => row.runId}
              rowHeight={44}
              rowLabel={(row) => `${format.moment(row.createdAt)}, score ${SCORE.text(row)}`}
              onOpen={(row) => open(row.runId)}
              picked={new Set(picked)}
              onPick={(run, on) => setPicked(on ? [...picked, run] : picked.filter((one) => one !== run))}
              more={{ has: list.hasNextPage, loading: list.isFetchingNextPage, load: () => void list.fetchNextPage() }}
              compact={{ below: 620, height: 68, row: (row) => <CompactRow row={row} /> }}
            />
          </div>
        </>
      )}
    </div>
  );
}

interface ChartProps {
  title: string;
  rows: HistoryRow[];
  measure: Measure;
  spacing: Spacing;
  name: string;
  onOpen: (run: string) => void;
}

function HistoryChart({ title, rows, measure, spacing, name, onOpen }: ChartProps) {
  if (!rows.some((row) => measure.value(row) !== null)) {
    return (
      <section className="card history-none" aria-label={title}>
        <h2>{title}</h2>
        <p className="quiet">{`No run has a ${measure.name}.`}</p>
      </section>
    );
  }
  return (
    <ChartView
      title={title}
      name={`${name}-${measure.name.replace(/\W+/g, "-")}`}
      summary={summaryOf(rows, measure)}
      draw={(width, height) => historyChart(rows, measure, spacing, width, measure.events ? height : Math.min(height, 200))}
      table={{
        header: ["started", "run", "agent version", measure.name, "events"],
        rows: rows.map((row, at) => [format.moment(row.windowStart ?? row.createdAt), row.runId, row.agentVersion || format.MISSING, measure.text(row), eventsOf(row, rows[at - 1]).join(", ") || format.MISSING]),
      }}
      onOpen={onOpen}
    />
  );
}

/** Only what the chart has. */
function Legend({ rows }: { rows: HistoryRow[] }) {
  const parts = [
    "The band is the 95% interval.",
    new Set(rows.map((row) => row.agentVersion)).size > 1 && "A dashed line is a new version of the agent.",
    rows.some((row) => row.promotedBy) && "▲ is the run that promoted a version.",
    rows.some((row) => row.corrections > 0) && "A ring is a run whose verdicts people corrected; the score is the recorded one.",
    rows.some((row) => row.passed === false) && "A red point did not pass.",
    rows.some((row) => row.score === null) && "A run without a score is a gap.",
  ];
  return <p className="faint history-legend">{parts.filter(Boolean).join(" ")}</p>;
}

function columnsOf(rows: HistoryRow[]): Column<HistoryRow>[] {
  const has = (of: (row: HistoryRow) => unknown) => rows.some(of);
  return [
    {
      id: "created",
      header: rows.some((row) => row.windowStart) ? "Window" : "Started",
      width: "minmax(128px, 0.8fr)",
      cell: (row) => (
        <a className="truncate" href={formatAddress(`/runs/${encodeURIComponent(row.runId)}`)} tabIndex={-1} title={row.runId}>
          {format.moment(row.windowStart ?? row.createdAt)}
        </a>
      ),
    },
    { id: "score", header: "Score", width: "minmax(150px, 1fr)", align: "end", cell: (row) => <Score row={row} /> },
    ...(has((row) => row.agentVersion) ? [{ id: "version", header: "Agent version", width: "minmax(110px, 0.8fr)", from: 760, cell: (row: HistoryRow) => <span className="truncate"><VisibleText text={row.agentVersion || format.MISSING} /></span> }] : []),
    { id: "cost", header: "Cost", width: "90px", align: "end", from: 700, cell: (row) => (row.costText ? <span className="num">{row.costText}</span> : <Missing />) },
    { id: "p95", header: "p95", width: "90px", align: "end", from: 820, cell: (row) => (row.p95Text ? <span className="num">{row.p95Text}</span> : <Missing />) },
    ...(has((row) => row.state) ? [{ id: "state", header: "Deployment", width: "150px", from: 980, cell: (row: HistoryRow) => (row.state ? <Chip tone={row.promotedBy ? "pass" : "mute"}>{row.promotedBy ? `${row.state}, by this run` : row.state}</Chip> : <Missing />) }] : []),
    ...(has((row) => row.corrections > 0) ? [{ id: "corrections", header: "Corrected", width: "86px", align: "end" as const, from: 900, cell: (row: HistoryRow) => (row.corrections > 0 ? <span className="num">{format.count(row.corrections)}</span> : <Missing />) }] : []),
    ...(has((row) => row.commit || row.tags.length > 0)
      ? [{ id: "about", header: "Commit and tags", width: "minmax(140px, 1.4fr)", from: 1_080, cell: (row: HistoryRow) => <About row={row} /> }]
      : []),
  ];
}

function Score({ row }: { row: HistoryRow }) {
  if (row.score === null) return row.status === "completed" ? <span className="faint truncate">{noScore(row)}</span> : <StatusChip status={row.status} />;
  return (
    <span className="num truncate" title={row.range}>
      {row.text}
      {row.low !== null && <span className="faint">{` ${row.range}`}</span>}
    </span>
  );
}

function About({ row }: { row: HistoryRow }) {
  return (
    <span className="row history-about" title={[row.commit && `commit ${row.commit}`, ...row.tags].filter(Boolean).join(", ")}>
      {row.commit && <span className="mono faint truncate">{row.commit}</span>}
      {row.tags.slice(0, 2).map((tag) => (
        <Tag key={tag}>
          <VisibleText text={tag} />
        </Tag>
      ))}
    </span>
  );
}

function CompactRow({ row }: { row: HistoryRow }) {
  return (
    <div className="history-compact">
      <div className="row">
        <a className="grow truncate" href={formatAddress(`/runs/${encodeURIComponent(row.runId)}`)} tabIndex={-1}>
          {format.moment(row.windowStart ?? row.createdAt)}
        </a>
        <Score row={row} />
      </div>
      <div className="faint truncate">
        <VisibleText text={[row.agentVersion, row.costText, row.p95Text, row.commit, ...row.tags].filter(Boolean).join(" · ") || format.shortId(row.runId)} />
      </div>
    </div>
  );
}

const EXPORT: ExportColumn<HistoryRow>[] = [
  { name: "run", value: (row) => row.runId },
  { name: "created", value: (row) => row.createdAt },
  { name: "status", value: (row) => row.status },
  { name: "agent", value: (row) => row.agentId },
  { name: "agent version", value: (row) => row.agentVersion },
  { name: "score", value: (row) => row.score },
  { name: "low", value: (row) => row.low },
  { name: "high", value: (row) => row.high },
  { name: "cost usd", value: (row) => row.costUsd },
  { name: "p95 ms", value: (row) => row.p95LatencyMs },
  { name: "corrections", value: (row) => row.corrections },
  { name: "deployment", value: (row) => row.state },
  { name: "commit", value: (row) => row.commit },
  { name: "tags", value: (row) => row.tags.join(" ") || null },
];

function NoName() {
  return (
    <Empty title="Choose a suite or an experiment" icon="clock" actions={<a className="button primary" href={formatAddress("/runs", { group: "name" })}>Suites and experiments</a>}>
      <p>Its runs are then shown over time: score, cost and latency.</p>
    </Empty>
  );
}

function NoRows({ agent, clear }: { agent: string; clear: () => void }) {
  return (
    <Empty title="There is no run here" icon="clock" actions={agent ? <Button onClick={clear}>Every agent</Button> : undefined}>
      <p>{agent ? "This agent has no run of this name." : "No stored run has this name, or your key does not see it."}</p>
    </Empty>
  );
}
