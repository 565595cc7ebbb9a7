import "./verify.css";
import { useQuery } from "@tanstack/react-query";
import type { ScreenProps } from "~/app/routes";
import { DEPLOYMENT, getWaitingRuns, type WaitingRun } from "~/api/decisions";
import { formatAddress, navigate } from "~/state/address";
import { Chip, type Column, DataTable, Empty, ErrorState, format, Loading, StatusChip } from "~/ui";
import { deadlineText } from "./words";

const COLUMNS: Column<WaitingRun>[] = [
  { id: "what", header: "What waits", width: "minmax(220px, 3fr)", cell: (run) => <a href={address(run)}>{titleOf(run)}</a> },
  { id: "status", header: "Status", width: "160px", cell: (run) => <StatusChip status={run.status} /> },
  { id: "why", header: "Why", width: "minmax(140px, 2fr)", cell: (run) => <span className="quiet truncate">{whyOf(run)}</span>, from: 720 },
  { id: "deadline", header: "Time left", width: "110px", align: "end", cell: (run) => <span className="num">{deadlineText(run.waiting?.deadline)}</span>, from: 560 },
  { id: "asked", header: "Since", width: "100px", align: "end", cell: (run) => <span title={format.moment(run.createdAt)}>{format.ago(run.createdAt)}</span> },
];

/** Everything that waits for a person: escalations of verifier loops, questions, promotions. */
export default function ApprovalsScreen(_: ScreenProps) {
  const runs = useQuery({ queryKey: ["waiting"], queryFn: ({ signal }) => getWaitingRuns(signal), refetchInterval: 5_000 });
  return (
    <div className="screen">
      <header className="screen-head">
        <h1>Approvals</h1>
        {runs.data && runs.data.length > 0 && <span className="quiet">{format.plural(runs.data.length, "run waits", "runs wait")} for a person</span>}
      </header>
      {runs.isPending ? (
        <Loading />
      ) : runs.isError ? (
        <ErrorState error={runs.error} retry={() => void runs.refetch()} />
      ) : runs.data.length === 0 ? (
        <Empty title="Nothing waits for you" icon="check">
          <p>A verifier loop that escalates, an agent with a question and a promotion that needs an approval appear here.</p>
        </Empty>
      ) : (
        <DataTable
          label="Runs that wait for a person"
          columns={COLUMNS}
          rows={runs.data}
          rowKey={(run) => run.runId}
          onOpen={(run) => navigate(address(run))}
          rowLabel={titleOf}
          compact={{
            below: 520,
            height: 76,
            row: (run) => (
              <div className="stack verify-compact">
                <div className="row">
                  <span className="truncate">{titleOf(run)}</span>
                  <span className="grow" />
                  <span className="faint">{format.ago(run.createdAt)}</span>
                </div>
                <div className="row">
                  <Chip tone="warn">{whyOf(run)}</Chip>
                  <span className="grow" />
                  <span className="faint num">{deadlineText(run.waiting?.deadline)}</span>
                </div>
              </div>
            ),
          }}
        />
      )}
    </div>
  );
}

function address(run: WaitingRun): string {
  return formatAddress(`/verify/${encodeURIComponent(run.runId)}`);
}

function titleOf(run: WaitingRun): string {
  if (run.workflowId !== DEPLOYMENT) return run.workflowId;
  return `${run.transition ?? "change"} ${run.agentId ?? ""} ${run.agentVersion ?? ""}${run.toState ? ` to ${run.toState}` : ""}`;
}

function whyOf(run: WaitingRun): string {
  const about: Record<string, string> = {
    retry: "a critic rejects the result",
    result: "low confidence in a result",
    decision: "low confidence in a decision",
    outputs: "outputs of a child run",
    question: "an agent asks",
    gate: run.workflowId === DEPLOYMENT ? "a promotion needs an approval" : "an approval is needed",
  };
  return about[run.waiting?.about ?? ""] ?? "an answer is needed";
}
