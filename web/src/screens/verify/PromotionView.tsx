import { useQuery } from "@tanstack/react-query";
import { getDeployments, getEvents, type RunEvent, type RunSnapshot } from "~/api/decisions";
import { formatAddress } from "~/state/address";
import { Chip, ErrorState, format, Loading, Notice, type Tone, VisibleText } from "~/ui";
import { Evidence } from "./Evidence";
import { Respond } from "./Respond";
import { deadlineText } from "./words";

interface Request {
  title: string;
  version: string;
  transition: string;
  toState: string;
  channel: string;
  reason: string;
  evalRunId: string;
  required: number;
  approvers: string[];
  override: boolean;
  deadline: string | null;
}

/** A promotion that waits, was applied, or was refused: what is asked for, the evidence, and the answers. */
export function PromotionView({ run }: { run: RunSnapshot }) {
  const waits = run.status.startsWith("waiting");
  const events = useQuery({
    queryKey: ["decision", run.runId, "events", run.status],
    queryFn: ({ signal }) => getEvents(run.runId, signal),
    refetchInterval: waits ? 4_000 : false,
  });
  const agent = run.agent?.agentId ?? "";
  const records = useQuery({
    queryKey: ["decision", "deployments", agent, run.status],
    queryFn: ({ signal }) => getDeployments(agent, signal),
    enabled: agent !== "",
    retry: false,
  });
  if (events.isPending) return <Loading />;
  if (events.isError) return <ErrorState error={events.error} retry={() => void events.refetch()} />;
  const request = requestOf(events.data, run);
  const granted = events.data.filter((event) => event.type === "approval.granted");
  const active = records.data?.find((record) => record.state === "active" && record.version !== request.version);
  const own = records.data?.find((record) => record.version === request.version);
  return (
    <div className="verify-loop">
      {waits && (
        <section className="card verify-question" aria-label="Question">
          <div className="row wrap">
            <h2>{request.title}</h2>
            <span className="grow" />
            {request.deadline && <span className="faint">{deadlineText(request.deadline)} left; without an answer it is rejected</span>}
          </div>
          <p className="quiet">
            {request.required > 1 ? `${granted.length} of ${request.required} approvals so far.` : "One approval applies it."}
            {request.approvers.length > 0 && ` Approvers: ${request.approvers.join(", ")}.`} The evidence is checked again when it is applied.
          </p>
          {request.evalRunId && <Evidence run={request.evalRunId} active={active} />}
          <Respond
            key={granted.length}
            run={run.runId}
            node="approval"
            actions={["accept", "reject"]}
            acceptLabel="Approve"
            rejectLabel="Reject"
            accept={`${request.version} becomes ${request.toState || "the next state"}${request.channel ? ` on ${request.channel}` : ""}.`}
            reject="The record stays as it is, and this request ends."
            reasons
            override={request.override}
          />
        </section>
      )}
      <Outcome events={events.data} run={run} />
      <section className="card verify-summary" aria-label="Request">
        <dl className="verify-facts">
          <Fact name="Agent" value={agent} />
          <Fact name="Version" value={request.version} />
          <Fact name="Transition" value={`${request.transition}${request.toState ? ` to ${request.toState}` : ""}`} />
          <Fact name="Current state" value={own?.state ?? "–"} />
          <Fact name="Requested by" value={run.owner?.principal ?? "–"} />
          <Fact name="Reason" value={request.reason || "no reason was given"} />
          <div>
            <dt>Evidence</dt>
            <dd>
              {request.evalRunId ? (
                <>
                  <a href={formatAddress(`/runs/${encodeURIComponent(request.evalRunId)}`)}>{request.evalRunId}</a>
                  {active?.evalRunId && active.evalRunId !== request.evalRunId && (
                    <>
                      {" · "}
                      <a href={formatAddress("/compare", { runs: `${active.evalRunId},${request.evalRunId}` })}>compare with {active.version}, which is active</a>
                    </>
                  )}
                </>
              ) : (
                <span className="faint">the request names no eval run</span>
              )}
            </dd>
          </div>
        </dl>
        {records.data && (
          <div className="small-table">
            <table>
              <caption className="sr">Versions of {agent}</caption>
              <thead>
                <tr>
                  <th scope="col">Version</th>
                  <th scope="col">State</th>
                  <th scope="col">Channels</th>
                </tr>
              </thead>
              <tbody>
                {records.data.map((record) => (
                  <tr key={record.version} className={record.version === request.version ? "chosen" : ""}>
                    <th scope="row">{record.version}</th>
                    <td>
                      <Chip plain tone={record.state === "active" ? "pass" : "mute"}>
                        {record.state}
                      </Chip>
                    </td>
                    <td>{record.channels?.join(", ") || "–"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <section aria-label="History">
        <h2>History</h2>
        <ol className="verify-history">
          {events.data.map((event) => {
            const line = lineOf(event);
            return line ? (
              <li key={event.eventId}>
                <Chip tone={line[0]}>{line[1]}</Chip>
                <span className="grow">
                  <VisibleText text={line[2]} />
                </span>
                <span className="faint" title={format.moment(event.timestamp)}>
                  {format.ago(event.timestamp)}
                </span>
              </li>
            ) : null;
          })}
        </ol>
      </section>
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <VisibleText text={value} />
      </dd>
    </div>
  );
}

function Outcome({ events, run }: { events: RunEvent[]; run: RunSnapshot }) {
  if (run.status === "completed") return <Notice>The transition is done.</Notice>;
  if (run.status !== "failed") return null;
  const failed = events.find((event) => event.type === "run.failed")?.payload["error"] as { code?: string; message?: string; details?: { conditions?: { message?: string }[] } } | undefined;
  return (
    <Notice tone="fail">
      <span>
        Not promoted: <VisibleText text={failed?.message ?? run.error?.message ?? "the request was refused"} />
        {failed?.details?.conditions?.map((condition, index) => (
          <span key={index} className="verify-condition">
            <VisibleText text={condition.message ?? JSON.stringify(condition)} />
          </span>
        ))}
      </span>
    </Notice>
  );
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");

function requestOf(events: RunEvent[], run: RunSnapshot): Request {
  const asked = events.find((event) => event.type === "interrupt.requested");
  const data = (asked?.payload["data"] ?? {}) as Record<string, unknown>;
  const artifact = (data["artifactData"] ?? {}) as Record<string, unknown>;
  const resource = text(events.find((event) => event.type === "authorization.decided")?.payload["resource"]);
  const timeout = asked?.payload["timeoutMs"];
  return {
    title: text(data["title"]) || `A change of ${resource}`,
    version: text(artifact["version"]) || (run.agent?.version ?? ""),
    transition: text(artifact["transition"]) || "promote",
    toState: text(artifact["toState"]),
    channel: text(artifact["channel"]),
    reason: text(artifact["reason"]),
    evalRunId: text(artifact["evalRunId"]),
    required: typeof data["requiredApprovals"] === "number" ? data["requiredApprovals"] : 1,
    approvers: Array.isArray(data["approversList"]) ? data["approversList"].map(text) : [],
    override: data["overrideBypassesQuorum"] === true,
    deadline: asked && typeof timeout === "number" ? new Date(Date.parse(asked.timestamp) + timeout).toISOString() : null,
  };
}

/** An event as a line: its sign, a word, and a sentence. */
function lineOf(event: RunEvent): [Tone, string, string] | null {
  const payload = event.payload;
  const by = text(payload["principal"]);
  const reason = text(payload["reason"]);
  switch (event.type) {
    case "authorization.decided":
      return payload["allowed"] === true ? ["mute", "Requested", `${by} requests: ${text(payload["action"])} on ${text(payload["resource"])}`] : ["fail", "Not allowed", `${by} lacks the scope ${text(payload["action"])}`];
    case "interrupt.requested":
      return ["warn", "Waits", "An approval is needed."];
    case "approval.granted":
      return ["pass", "Approved", `by ${by}`];
    case "approval.rejected":
      return ["fail", "Rejected", `by ${by}${reason ? `: ${reason}` : ""}`];
    case "approval.overridden":
      return ["warn", "Overridden", `by ${by}: ${reason}`];
    case "run.failed":
      return ["fail", "Ended", text((payload["error"] as { message?: unknown } | undefined)?.message)];
    case "run.completed":
      return ["pass", "Done", "The record was written."];
    default:
      return event.type.startsWith("deployment.") ? ["pass", "Changed", `${event.type.replace("deployment.", "")} ${text(payload["version"])} ${text(payload["toState"])}`.trim()] : null;
  }
}
