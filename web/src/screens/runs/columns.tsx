/** The columns of the list, for the screen and for its export. */
import { type CaseCounts, type Kind, type RunRow } from "~/api/runs";
import { formatAddress } from "~/state/address";
import { Chip, type Column, costOf, type ExportColumn, format, Interval, isLive, Missing, NotMeasured, Progress, StatusChip, Tag, VisibleText } from "~/ui";

export const KIND_NAMES: Record<Kind, string> = {
  evaluation: "Evaluation",
  "agent-eval": "Agent eval",
  workflow: "Workflow",
  deployment: "Deployment",
};

/** The screen of a run: a verifier loop or a promotion has one of its own. */
export function runAddress(run: RunRow): string {
  const screen = run.kind === "workflow" || run.kind === "deployment" ? "/verify" : "/runs";
  return formatAddress(`${screen}/${encodeURIComponent(run.runId)}`);
}

export function titleOf(run: RunRow): string {
  if (run.kind === "deployment") return [run.transition, run.agentId ?? run.name].filter(Boolean).join(" ");
  return run.name || "Without a name";
}

/** Beside a run of the same name, what tells them apart stands in the place of the id. */
function Name({ run, facts }: { run: RunRow; facts: string[] }) {
  const parts = facts.length > 0 ? facts : [KIND_NAMES[run.kind], run.suiteVersion && `v${run.suiteVersion}`, format.shortId(run.runId)].filter(Boolean);
  return (
    <div className="runs-name">
      <a className="truncate" href={runAddress(run)} tabIndex={-1} title={run.name || run.runId}>
        <VisibleText text={titleOf(run)} />
      </a>
      <span className="faint truncate" title={[KIND_NAMES[run.kind], ...facts, run.runId].join(" · ")}>
        <VisibleText text={parts.join(" · ")} />
      </span>
    </div>
  );
}

/** The verdict where there is one, else the status. */
export function Outcome({ run }: { run: RunRow }) {
  if (run.erasedAt) return <Chip tone="mute" title={`Its content was erased ${format.ago(run.erasedAt)}`}>Erased</Chip>;
  if (run.status !== "completed") {
    return (
      <span title={run.error?.message}>
        <StatusChip status={run.status} />
      </span>
    );
  }
  if (run.passed === true) return <Chip tone="pass">{run.kind === "workflow" ? "Goal reached" : "Passed"}</Chip>;
  if (run.passed === false) return <Chip tone="fail">{run.kind === "workflow" ? "Goal missed" : "Not passed"}</Chip>;
  return <Chip tone="mute">Completed</Chip>;
}

export function ScoreCell({ run }: { run: RunRow }) {
  if (run.kind === "workflow" || run.kind === "deployment") return <Missing />;
  if (run.score === null) return isLive(run.status) ? <Missing /> : <NotMeasured />;
  return <Interval score={run.score} bar />;
}

function measured(counts: CaseCounts): number {
  return counts.passed + counts.failed + counts.ungraded;
}

function done(counts: CaseCounts): number {
  return measured(counts) + counts.error + counts.skipped;
}

export function countsText(run: RunRow): string {
  const { counts } = run;
  if (counts === null) return format.MISSING;
  const parts = [
    `${format.count(counts.passed)} passed`,
    counts.failed > 0 && `${format.count(counts.failed)} failed`,
    counts.ungraded > 0 && `${format.count(counts.ungraded)} without a verdict`,
    counts.error + counts.skipped > 0 && `${format.count(counts.error + counts.skipped)} not measured`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** Passed of all, as a bar of shares and as a number. While a run goes on: how far it is. */
export function CasesCell({ run }: { run: RunRow }) {
  const { counts, total } = run;
  if (counts === null) return <Missing />;
  const all = Math.max(total ?? 0, done(counts));
  if (isLive(run.status)) {
    return (
      <div className="runs-cases" title={countsText(run)}>
        {total !== null && <Progress done={done(counts)} total={all} label={`Progress of ${run.name || run.runId}`} />}
        <span className="num">
          {format.count(done(counts))}
          <span className="faint">{total === null ? " so far" : `/${format.count(all)}`}</span>
        </span>
      </div>
    );
  }
  const shares: [string, number][] = [
    ["pass", counts.passed],
    ["fail", counts.failed],
    ["mute", counts.ungraded],
    ["none", counts.error + counts.skipped],
  ];
  return (
    <div className="runs-cases" title={countsText(run)}>
      <div className="runs-shares" aria-hidden="true">
        {shares.map(([name, value]) => (value > 0 ? <span key={name} className={name} style={{ flexGrow: value }} /> : null))}
      </div>
      <span className="num">
        {measured(counts) === 0 ? format.MISSING : format.count(counts.passed)}
        <span className="faint">/{format.count(all)}</span>
      </span>
      <span className="sr">{countsText(run)}</span>
    </div>
  );
}

function Regressions({ run }: { run: RunRow }) {
  if (run.regressions === undefined || run.regressions === null) return <Missing />;
  if (run.regressions === 0) return <span className="faint">0</span>;
  return <span className="runs-worse" title="Tasks that passed in the baseline and do not pass here">{`▼ ${run.regressions}`}</span>;
}

/** The whole cost, and what of it the judges have. */
function CostCell({ run: { costText, costParts } }: { run: RunRow }) {
  if (!costText) return <Missing />;
  return (
    <div className="runs-two" title={costOf(costParts) || costText}>
      <span className="truncate">{costText}</span>
      {costParts?.judges && <span className="faint truncate">{costParts.system ? `judges ${costParts.judges}` : "judges alone"}</span>}
    </div>
  );
}

function TwoLines({ first, second }: { first: string; second: string }) {
  return (
    <div className="runs-two" title={`${first} ${second}`.trim()}>
      <span className="truncate">
        <VisibleText text={first} />
      </span>
      <span className="faint truncate">
        <VisibleText text={second} />
      </span>
    </div>
  );
}

/** Outputs that no agent of assay made have their models alone. */
function AgentAndModel({ run }: { run: RunRow }) {
  if (run.agentId) return <TwoLines first={run.agentId} second={[run.agentVersion, models(run)].filter(Boolean).join(" · ")} />;
  return models(run) ? <TwoLines first={models(run)} second="" /> : <Missing />;
}

/** `commit 1f3a9c2b7d and changed files`, as the command writes it. */
export function commitText(run: RunRow): string {
  return run.commit ? `commit ${run.commit.id.slice(0, 10)}${run.commit.clean === false ? " and changed files" : ""}` : "";
}

function models(run: RunRow): string {
  return (run.models ?? []).join(", ");
}

export function runColumns(onTag: (tag: string) => void, apart: Map<string, string[]>): Column<RunRow>[] {
  return [
    { id: "name", header: "Run", width: "minmax(172px, 1.7fr)", cell: (run) => <Name run={run} facts={apart.get(run.runId) ?? []} /> },
    { id: "status", header: "Outcome", width: "138px", cell: (run) => <Outcome run={run} /> },
    { id: "score", header: "Score", title: "With its 95 % interval", width: "200px", align: "end", sort: "score", cell: (run) => <ScoreCell run={run} /> },
    { id: "cases", header: "Passed", title: "Passed cases or tasks, of all", width: "132px", align: "end", cell: (run) => <CasesCell run={run} /> },
    {
      id: "agent",
      header: "Agent and model",
      width: "minmax(124px, 1.2fr)",
      from: 1_230,
      cell: (run) => <AgentAndModel run={run} />,
    },
    {
      id: "regressions",
      header: "Regressed",
      title: "Tasks that passed in the baseline and do not pass here",
      width: "66px",
      align: "end",
      from: 1_090,
      cell: (run) => <Regressions run={run} />,
    },
    { id: "cost", header: "Cost", title: "What the outputs and their judges cost", width: "108px", align: "end", sort: "cost", from: 920, cell: (run) => <CostCell run={run} /> },
    { id: "duration", header: "Duration", width: "80px", align: "end", sort: "duration", from: 1_010, cell: (run) => <span className={run.durationMs === null ? "faint" : ""}>{format.duration(run.durationMs)}</span> },
    {
      id: "tags",
      header: "Commit and tags",
      width: "minmax(104px, 0.7fr)",
      from: 1_320,
      cell: (run) => (
        <span className="row runs-tags" title={[commitText(run), ...(run.tags ?? [])].filter(Boolean).join(", ")}>
          {run.commit && <span className="mono faint">{run.commit.id.slice(0, 7)}</span>}
          {(run.tags ?? []).slice(0, 1).map((tag) => (
            <button key={tag} type="button" className="runs-tag" tabIndex={-1} title={`Only runs with the tag ${tag}`} onClick={() => onTag(tag)}>
              <Tag><VisibleText text={tag} /></Tag>
            </button>
          ))}
          {(run.tags ?? []).length > 1 && <span className="faint num">{`+${(run.tags ?? []).length - 1}`}</span>}
        </span>
      ),
    },
    { id: "created", header: "Started", width: "76px", align: "end", sort: "created", cell: (run) => <time dateTime={run.createdAt} title={format.moment(run.createdAt)}>{format.ago(run.createdAt)}</time> },
  ];
}

export const EXPORT_COLUMNS: ExportColumn<RunRow>[] = [
  { name: "run", value: (run) => run.runId },
  { name: "kind", value: (run) => run.kind },
  { name: "status", value: (run) => run.status },
  { name: "name", value: (run) => run.name },
  { name: "suite version", value: (run) => run.suiteVersion },
  { name: "agent", value: (run) => run.agentId },
  { name: "agent version", value: (run) => run.agentVersion },
  { name: "models", value: (run) => models(run) || null },
  { name: "score", value: (run) => run.score?.value },
  { name: "low", value: (run) => run.score?.low },
  { name: "high", value: (run) => run.score?.high },
  { name: "verdict", value: (run) => run.passed },
  { name: "passed", value: (run) => run.counts?.passed },
  { name: "failed", value: (run) => run.counts?.failed },
  { name: "not measured", value: (run) => run.counts && run.counts.error + run.counts.skipped },
  { name: "total", value: (run) => run.total },
  { name: "regressions", value: (run) => run.regressions },
  { name: "cost usd", value: (run) => run.costUsd },
  { name: "cost of judges", value: (run) => run.costParts?.judges },
  { name: "duration ms", value: (run) => run.durationMs },
  { name: "tags", value: (run) => (run.tags ?? []).join(" ") || null },
  { name: "commit", value: (run) => run.commit?.id },
  { name: "commit clean", value: (run) => run.commit?.clean },
  { name: "created", value: (run) => run.createdAt },
];

/** A run on a phone: three lines. `amount`: how many runs it stands for. */
export function CompactRun({ run, amount, facts = [] }: { run: RunRow; amount?: number; facts?: string[] }) {
  const scored = run.kind === "evaluation" || run.kind === "agent-eval";
  return (
    <div className="runs-compact">
      <div className="row">
        <a className="grow truncate" href={runAddress(run)} tabIndex={-1}>
          <VisibleText text={titleOf(run)} />
        </a>
        <Outcome run={run} />
      </div>
      {scored ? (
        <div className="row">
          <ScoreCell run={run} />
          <span className="grow" />
          <CasesCell run={run} />
        </div>
      ) : (
        <div className="quiet truncate">{run.kind === "deployment" ? `to ${run.toState ?? "another state"}` : run.verdict ? `last verdict: ${run.verdict}` : "no verdict yet"}</div>
      )}
      <div className="faint truncate">
        {[amount === undefined ? KIND_NAMES[run.kind] : format.plural(amount, "run"), run.kind === "deployment" || facts.length > 0 ? "" : run.agentId, ...facts, run.costText, format.duration(run.durationMs), facts.length > 0 ? "" : format.ago(run.createdAt)].filter((part) => part && part !== format.MISSING).join(" · ")}
      </div>
    </div>
  );
}
