/** Decisions of people: the runs that wait, the turns of a verifier loop, promotions, and the answer to a question. */
import { request } from "./client";
import { queryRuns, type Status } from "./runs";

export interface Waiting {
  nodeId: string;
  kind?: string;
  about?: string;
  interruptId?: string;
  deadline?: string | null;
}

export interface WaitingRun {
  runId: string;
  workflowId: string;
  status: Status;
  createdAt: string;
  agentId?: string;
  agentVersion?: string;
  transition?: string;
  toState?: string;
  verdict?: string;
  waiting?: Waiting;
}

export interface RunSnapshot {
  runId: string;
  workflowId: string;
  status: Status;
  startedAt?: string;
  completedAt?: string;
  owner?: { tenant: string; principal?: string };
  agent?: { agentId: string; version: string };
  error?: { code: string; message: string };
}

export const DEPLOYMENT = "assay.deployment"; // the workflow of every promotion
const WAITS = ["waiting-approval", "waiting-input"] as const;

/** The runs that wait for a person, the newest first. */
export async function getWaitingRuns(signal?: AbortSignal): Promise<WaitingRun[]> {
  const pages = await Promise.all(
    WAITS.map((status) => request<{ runs: WaitingRun[] }>("/v1/host/assay/runs", { query: { status, page_size: 100 }, signal })),
  );
  return pages.flatMap((page) => page.runs).sort((one, other) => (one.createdAt < other.createdAt ? 1 : -1));
}

/** How many runs wait for a person. */
export async function countWaitingRuns(signal?: AbortSignal): Promise<number> {
  const { counts } = await queryRuns({ filter: { status: [...WAITS] }, counts: true, limit: 1 }, signal);
  return WAITS.reduce((sum, status) => sum + (counts?.byStatus[status] ?? 0), 0);
}

const path = (run: string) => `/v1/runs/${encodeURIComponent(run)}`;

export function getSnapshot(run: string, signal?: AbortSignal): Promise<RunSnapshot> {
  return request<RunSnapshot>(path(run), { signal });
}

export interface CriterionVerdict {
  key: string;
  met: boolean | null; // null: the critic did not say
}

export interface TurnVerdict {
  agentId: string;
  verdict: string;
  about: "result" | "tool";
  criteria: CriterionVerdict[];
  at: string;
  confidence: number | null;
  notes: string;
  error: string | null;
  selfVerified: boolean;
}

export interface TurnQuestion {
  nodeId: string;
  kind: string;
  about: string;
  actions: string[];
  at: string;
  subject: unknown;
  deadline: string | null;
  action: string | null;
  answeredBy: string | null;
  answeredAt: string | null;
}

export interface LoopTurn {
  iteration: number;
  at: string;
  actorId: string | null;
  childRunId: string | null;
  hasCandidate: boolean;
  candidate: unknown;
  confidence: number | null;
  verdicts: TurnVerdict[];
  questions: TurnQuestion[];
  failures: { iteration: number; agentId: string; role: string; why: string }[];
  state: "working" | "waiting" | "committed" | "withheld" | "failed";
  limitReached: boolean;
}

export interface TurnLog {
  report: {
    runId: string;
    workflowId: string;
    status: Status;
    goalSatisfied: boolean;
    committed: boolean;
    turns: number;
    waiting: Waiting | null;
    error: { code: string; message: string } | null;
  };
  total: number;
  first: number;
  turns: LoopTurn[];
  maxTurns: number | null;
  task: unknown;
  result: unknown;
  end: { reason: string; gaveUp: boolean; criteria: CriterionVerdict[]; at: string } | null;
}

export function getTurns(run: string, signal?: AbortSignal): Promise<TurnLog> {
  return request<TurnLog>(`/v1/host/assay/runs/${encodeURIComponent(run)}/turns`, { query: { limit: 100 }, signal });
}

export interface RunEvent {
  eventId: string;
  type: string;
  payload: Record<string, unknown>;
  timestamp: string;
  sequence: number;
}

export async function getEvents(run: string, signal?: AbortSignal): Promise<RunEvent[]> {
  const page = await request<{ events: RunEvent[] }>(`${path(run)}/events`, { signal });
  return page.events;
}

export interface DeploymentRecord {
  agentId: string;
  version: string;
  state: string;
  channels?: string[];
  canaryPercent?: number;
  evalRunId?: string;
  rollbackPointer?: string;
}

export function getDeployments(agent: string, signal?: AbortSignal): Promise<DeploymentRecord[]> {
  return request<DeploymentRecord[]>(`/v1/agents/${encodeURIComponent(agent)}/deployments`, { signal });
}

/** Answer a run that waits. The server says whether the run continues. */
export function respond(run: string, node: string, resumeValue: Record<string, unknown>): Promise<{ status: Status }> {
  return request(`${path(run)}/interrupts/${encodeURIComponent(node)}`, { method: "POST", body: { resumeValue } });
}
