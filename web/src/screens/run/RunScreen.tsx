import "./run.css";
import "./case.css";

import { usePrefetchQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import type { ScreenProps } from "~/app/routes";
import { reportSource } from "~/api/client";
import { getOverview, type CaseRow, type CaseSort, type Overview, type SliceName } from "~/api/cases";
import { changeParams, currentAddress, formatAddress, navigate, useAddress } from "~/state/address";
import { useKeys } from "~/state/keyboard";
import { Button, CopyButton } from "~/ui/controls";
import type { DataTableHandle } from "~/ui/DataTable";
import { Empty, ErrorState, Loading, Notice, StatusChip, Tag } from "~/ui/display";
import { isWide } from "~/ui/overlay";
import { ago, count, duration, moment, plural } from "~/ui/format";

import { CASE_VIEW, CaseDrawer } from "./CaseDrawer";
import { Decision } from "./Decision";
import { Headline } from "./Headline";
import { useLive } from "./live";
import { LiveBar } from "./LiveBar";
import { Matrix } from "./Matrix";
import { allRows, PAGE, placeOf, prefetchRows, useRows, type Rows } from "./rows";
import { RunSlices } from "./RunSlices";
import { SearchNote } from "./SearchNote";
import { Toolbar } from "./Toolbar";
import { Slices } from "./Slices";
import { checksText, isFiltered, NO_FILTER, toggledCheck, viewOf, whereText, withSlice } from "./view";
import { nounOf } from "./words";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";

const MAX_EXPORT = 100_000; // rows
const MAX_LOOK = 20; // pages that "next failure" looks through

/** One run: the headline, then cases × checks, and a drawer for one case. */
export default function RunScreen({ params }: ScreenProps) {
  const id = params["id"] ?? "";
  const queries = useQueryClient();
  useEffect(() => prefetchRows(queries, id, viewOf(currentAddress().params)), [queries, id]);
  const overview = useQuery({ queryKey: ["run", id, "overview"], queryFn: ({ signal }) => getOverview(id, signal) });
  if (overview.isPending) {
    return (
      <div className="screen">
        <Loading label="Loading the run" lines={6} />
      </div>
    );
  }
  if (overview.data === undefined) return <ErrorState error={overview.error} retry={() => void overview.refetch()} />;
  return <RunView key={id} overview={overview.data} />;
}

function RunView({ overview }: { overview: Overview }) {
  const { run } = overview;
  const connection = useLive(run);
  const noun = nounOf(overview);
  useEffect(() => {
    document.title = `${plainText(run.name) || run.runId} · assay`;
  }, [run.name, run.runId]);
  const cases = run.kind === "evaluation" || run.kind === "agent-eval";
  return (
    <div className="screen run-screen">
      <RunHead overview={overview} />
      {run.error?.message && run.status === "failed" && overview.bars.length === 0 && (
        <Notice tone="fail">
          <VisibleText text={run.error.message} />
        </Notice>
      )}
      <LiveBar overview={overview} connection={connection} />
      <Decision overview={overview} />
      {run.erasedAt && <Notice tone="warn">{erasure(run)}. Its log and its numbers remain.</Notice>}
      {cases ? (
        <Cases overview={overview} noun={noun} />
      ) : (
        <Elsewhere run={run.runId} />
      )}
    </div>
  );
}

/** A verifier loop or a promotion has a screen of its own. */
function Elsewhere({ run }: { run: string }) {
  useEffect(() => navigate(formatAddress(`/verify/${encodeURIComponent(run)}`), { replace: true }), [run]);
  return <Loading label="Opening the run" lines={6} />;
}

function isScored({ kind }: Overview["run"]): boolean {
  return kind === "evaluation" || kind === "agent-eval";
}

function RunHead({ overview: { run, about, links } }: { overview: Overview }) {
  const report = reportSource();
  const facts = [
    run.agentId ? `${run.agentId}${run.agentVersion ? ` ${run.agentVersion}` : ""}` : "",
    ...(run.models ?? []),
    (run.modes ?? []).join(", "),
    run.trials ? plural(run.trials, "trial") : "",
    run.durationMs === null ? "" : duration(run.durationMs),
    about.part ? `only a part: ${about.part}` : "",
  ].filter(Boolean);
  return (
    <header className="run-head">
      <div className="row wrap">
        <h1 className="truncate">
          <VisibleText text={run.name || run.runId} />
          {run.suiteVersion && <span className="faint"> {run.suiteVersion}</span>}
        </h1>
        <StatusChip status={run.status} />
        <span className="grow" />
        {report === null && links.review !== undefined && (
          <a className="button" href={formatAddress(`/runs/${encodeURIComponent(run.runId)}/review`)}>
            Review
          </a>
        )}
        {report === null && isScored(run) && !run.erasedAt && (
          <a className="button" href={formatAddress("/compare", { runs: [run.baselineRunId, run.runId].filter(Boolean).join(",") })}>
            Compare
          </a>
        )}
      </div>
      <p className="run-facts">
        {!run.copy && (
          <>
            <span className="mono">{run.runId}</span>
            <CopyButton text={run.runId} label="Copy the id of the run" />
            <span title={moment(run.createdAt)}>{ago(run.createdAt)}</span>
          </>
        )}
        {facts.map((fact, at) => (
          <span key={at}>
            <VisibleText text={fact} />
          </span>
        ))}
        {(run.tags ?? []).map((tag) => (
          <Tag key={tag}>
            <VisibleText text={tag} />
          </Tag>
        ))}
        {run.commit && (
          <span className="mono" title={`commit ${run.commit.id}`}>
            {`${run.commit.id.slice(0, 10)}${run.commit.clean === false ? " and changed files" : ""}`}
          </span>
        )}
        {run.name && report === null && (run.kind === "evaluation" || run.kind === "agent-eval") && <a href={formatAddress("/history", { name: run.name, kind: run.kind })}>over time</a>}
        {run.baselineRunId && (report === null || report.runs.includes(run.baselineRunId)) && (
          <a href={formatAddress(`/runs/${encodeURIComponent(run.baselineRunId)}`)}>
            baseline{run.regressions != null && `: ${plural(run.regressions, "regression")}`}
          </a>
        )}
      </p>
      {about.command && (
        <p className="run-command">
          <code className="truncate" title={about.command}>
            <VisibleText text={about.command} />
          </code>
          <CopyButton text={about.command} label="Copy the command" />
        </p>
      )}
    </header>
  );
}

function Cases({ overview, noun }: { overview: Overview; noun: string }) {
  const { run } = overview;
  usePrefetchQuery(CASE_VIEW);
  const { path, params } = useAddress();
  const view = useMemo(() => viewOf(params), [params]);
  const rows = useRows(run.runId, view);
  const [active, setActive] = useState(0);
  const [message, setMessage] = useState("");
  const matrix = useRef<DataTableHandle>(null);
  const open = caseOf(params);
  const [placed, setPlaced] = useState<number | null>(null); // the open case whose row is the active one
  useEffect(() => {
    if (open === null || open === placed || rows.loading || rows.search?.running) return;
    setPlaced(open);
    if (rows.at(active)?.position === open) return;
    void placeOf(run.runId, rows.query, open).then((index) => {
      setActive(index ?? -1);
      if (index !== null) matrix.current?.showRow(index);
    });
  }, [open, placed, rows, active, run.runId]);
  const change = useCallback((next: Record<string, string | undefined>) => {
    setActive(0);
    setPlaced(null); // the open case has another row now
    changeParams(next, { replace: true });
  }, []);
  const onCheck = useCallback((index: number) => change({ check: checksText(toggledCheck(view.checks, index)) }), [change, view.checks]);
  const addressOf = useCallback(
    (row: CaseRow) => {
      const next = new URLSearchParams(params);
      next.set("case", String(row.position));
      next.delete("trial");
      next.delete("item");
      return formatAddress(path, next);
    },
    [path, params],
  );
  const openRow = (index: number, row: CaseRow | undefined) => {
    if (row === undefined) return;
    setActive(index);
    setPlaced(row.position);
    matrix.current?.showRow(index);
    changeParams({ case: String(row.position), trial: undefined, item: undefined }, { replace: true });
  };
  const place = () => Math.max(0, active);
  const move = (by: 1 | -1) => {
    const outside = open === null && document.activeElement?.closest(".matrix") == null;
    const next = Math.max(0, Math.min(rows.total - 1, place() + (outside ? 0 : by))); // the first key enters the table
    if (open === null) {
      setActive(next);
      matrix.current?.focusRow(next);
    } else {
      void rows.load(next).then((row) => openRow(next, row));
    }
  };
  const nextFailure = () => {
    const outside = open === null && document.activeElement?.closest(".matrix") == null;
    void findFailure(rows, place() - (outside ? 1 : 0)).then((index) => {
      setMessage(index === null ? `No further failure among the ${noun}s shown.` : "");
      if (index === null) return;
      if (open === null) {
        setActive(index);
        matrix.current?.focusRow(index);
      } else {
        void rows.load(index).then((row) => openRow(index, row));
      }
    });
  };
  const close = () => {
    changeParams({ case: undefined, trial: undefined, item: undefined });
    setPlaced(null);
    requestAnimationFrame(() => matrix.current?.focusRow(Math.max(0, active)));
  };
  useKeys("Run", [
    { keys: "j", label: `Next ${noun}`, run: () => move(1) },
    { keys: "ArrowDown", label: `Next ${noun}`, run: () => move(1), outside: "dialog" }, // there it scrolls
    { keys: "k", label: `Previous ${noun}`, run: () => move(-1) },
    { keys: "ArrowUp", label: `Previous ${noun}`, run: () => move(-1), outside: "dialog" },
    { keys: "n", label: "Next failure", run: nextFailure },
  ]);
  const toggle = (slice: SliceName) => {
    const others = view.where.filter((one) => one.by !== slice.by || one.name !== slice.name);
    change({ where: whereText(others.length < view.where.length ? others : [...others.filter((one) => one.by !== slice.by), slice]) });
  };
  const likeThis = (slice: SliceName) => change({ where: whereText(withSlice(view.where, slice)), ...(isWide() ? {} : { case: undefined, trial: undefined, item: undefined }) });
  const chooseCheck = (label: string) => {
    const column = overview.columns.find((one) => one.label === label);
    if (column) onCheck(column.index);
  };
  const sortBy = (by: CaseSort, descending: boolean) => {
    change({ sort: by === "status" && !descending ? undefined : `${descending ? "-" : ""}${by}` });
  };
  const collect = () => allRows(run.runId, rows.query, MAX_EXPORT);
  if (run.erasedAt) return <Headline overview={overview} onFilter={() => undefined} />;
  return (
    <>
      <Headline overview={overview} onFilter={(show) => change({ show, q: undefined })} />
      {(overview.slices ?? []).length > 0 && <RunSlices slices={overview.slices ?? []} />}
      <Slices
        run={run.runId}
        live={overview.progress !== null}
        judged={overview.links["review"] !== undefined}
        results={(run.total ?? 0) * (run.trials ?? 1)}
        failures={run.counts !== null && run.counts.failed + run.counts.error > 0}
        where={view.where}
        failing={overview.columns.filter(({ index }) => view.checks.some((one) => one.index === index && one.outcome === "failed")).map((one) => one.label)}
        onWhere={toggle}
        onCheck={chooseCheck}
      >
      <Toolbar overview={overview} view={view} rows={rows} noun={noun} counts={countsOf(overview)} change={change} collect={collect} />
      <SearchNote rows={rows} noun={noun} />
      <div className="sr" role="status">
        {message}
      </div>
      {rows.error !== null && rows.first === undefined ? (
        <ErrorState error={rows.error} />
      ) : rows.total === 0 && !rows.loading ? (
        <NoRows overview={overview} rows={rows} noun={noun} filtered={isFiltered(view)} clear={() => change(NO_FILTER)} />
      ) : rows.total === 0 ? (
        <div className="card loading-card">
          <Loading label={`Loading the ${noun}s`} lines={8} />
        </div>
      ) : (
        <Matrix
          handle={matrix}
          noun={noun}
          rows={rows}
          columns={overview.columns}
          stats={overview.checks}
          view={view}
          active={active}
          onActive={setActive}
          addressOf={addressOf}
          onOpen={(row) => navigate(addressOf(row))}
          onSort={sortBy}
          onCheck={onCheck}
          repeated={run.trials !== undefined}
          findings={overview.findings !== undefined}
        />
      )}
      </Slices>
      {open !== null && <CaseDrawer run={run.runId} position={open} onClose={close} onMove={move} onNextFailure={nextFailure} onWhere={likeThis} />}
    </>
  );
}

function NoRows({ overview, rows, noun, filtered, clear }: { overview: Overview; rows: Rows; noun: string; filtered: boolean; clear: () => void }) {
  if (rows.search?.running) return <Loading label="Searching" />;
  if (filtered || rows.search) {
    return (
      <Empty title={`No ${noun} matches`} actions={<Button onClick={clear}>Show all {noun}s</Button>}>
        {rows.search && !rows.search.complete && <p>The search looked at {count(rows.search.looked)} of {count(rows.search.total)} results.</p>}
      </Empty>
    );
  }
  return <Empty title={overview.progress ? "No result yet" : `This run has no ${noun}s`} icon="clock">{overview.progress && <p>Results appear here one by one.</p>}</Empty>;
}

/** The counts of the cases as the list has them; it comes later. */
function countsOf({ run: { counts }, progress }: Overview) {
  if (counts === null || progress !== null) return undefined;
  const { passed, failed, ungraded, error, skipped } = counts;
  return { ...counts, all: passed + failed + ungraded + error + skipped };
}

function caseOf(params: URLSearchParams): number | null {
  const text = params.get("case") ?? "";
  return /^\d{1,9}$/.test(text) ? Number(text) : null;
}

async function findFailure(rows: Rows, after: number): Promise<number | null> {
  const last = Math.min(rows.total, after + 1 + MAX_LOOK * PAGE);
  for (let index = after + 1; index < last; index += 1) {
    const row = rows.at(index) ?? (await rows.load(index));
    if (row && (row.status === "failed" || row.status === "error")) return index;
  }
  return null;
}

/** What happened to the content of a run. */
function erasure({ erasedAt, erasedBy }: Overview["run"]): string {
  if (erasedAt && erasedBy === "deletion") return `Content deleted on ${erasedAt.slice(0, 10)}`;
  if (erasedAt && erasedBy) return `Evidence removed by ${erasedBy} on ${erasedAt.slice(0, 10)}`;
  return `The content of this run was erased${erasedAt ? ` ${ago(erasedAt)}` : ""}`;
}
