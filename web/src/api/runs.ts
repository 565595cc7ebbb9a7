/** The list of runs: types and requests of `POST /v1/host/assay/runs:query` and `runs:changes`. */
import { request } from "./client";

export type Kind = "evaluation" | "agent-eval" | "workflow" | "deployment";
export const KINDS: readonly Kind[] = ["evaluation", "agent-eval", "workflow", "deployment"];

export type Status =
  | "pending"
  | "running"
  | "cancelling"
  | "paused"
  | "waiting-approval"
  | "waiting-input"
  | "waiting-external"
  | "completed"
  | "failed"
  | "cancelled";

export interface Score {
  name: string;
  value: number;
  low: number | null;
  high: number | null;
  cases: number;
  method: string; // the name of the interval
  scale: "rate" | "score" | "number";
  text: string; // the value, as every report writes it
  range: string; // the interval, as every report writes it
}

/** Counts of cases. `ungraded`: no check says pass or fail. `error` and `skipped` were not measured. */
export interface CaseCounts {
  passed: number;
  failed: number;
  ungraded: number;
  error: number;
  skipped: number;
}

/** What the outputs cost, and what their judges did. */
export interface CostParts {
  system?: string;
  judges?: string;
}

export interface RunRow {
  runId: string;
  kind: Kind;
  status: Status;
  name: string;
  version: string;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
  durationMs: number | null;
  suiteVersion?: string;
  suiteTotal?: number; // tasks of the suite, if the run has only a part of them
  agentId?: string;
  agentVersion?: string;
  models?: string[];
  modes?: string[];
  tags?: string[];
  commit?: { id: string; clean?: boolean }; // of git; not clean: a tracked file differed
  copy?: boolean; // in a report: of results without an id and a time of their own
  trials?: number;
  score: Score | null;
  passed: boolean | null;
  counts: CaseCounts | null;
  total: number | null;
  costUsd: number | null; // of the outputs and of their judges
  costText?: string;
  costParts?: CostParts;
  baselineRunId?: string;
  regressions?: number | null;
  error?: { code?: string; message?: string };
  waiting?: { nodeId: string; kind?: string; deadline?: string };
  verdict?: string;
  transition?: string;
  toState?: string;
  parentRunId?: string;
  sourceRunId?: string;
  forkMode?: string;
  erasedAt?: string;
  erasedBy?: string;
}

export interface RunFilter {
  kind?: Kind[];
  status?: Status[];
  name?: string;
  since?: string;
  until?: string;
  passed?: boolean;
  agentId?: string;
  tag?: string;
  text?: string;
}

export type RunSort = "created" | "score" | "cost" | "duration";

export interface RunsQuery {
  filter?: RunFilter;
  sort?: { by: RunSort; order?: "asc" | "desc" };
  groupBy?: "name";
  counts?: boolean;
  limit?: number;
  cursor?: string;
}

export interface RunGroup {
  name: string;
  kind: Kind;
  count: number;
  newest: RunRow;
  scores: (number | null)[]; // of the newest runs, the oldest of them first
}

export interface RunsAnswer {
  runs?: RunRow[];
  groups?: RunGroup[];
  next?: string;
  looked?: { runs: number; until: string | null; complete: boolean };
  counts?: { total: number; byStatus: Partial<Record<Status, number>>; byKind: Partial<Record<Kind, number>> };
  kinds: Kind[];
  now: string;
}

export interface ChangesAnswer {
  changed: RunRow[];
  created: RunRow[];
  now: string;
}

export function queryRuns(query: RunsQuery, signal?: AbortSignal): Promise<RunsAnswer> {
  return request<RunsAnswer>("/v1/host/assay/runs:query", { method: "POST", body: query, signal });
}

export function runChanges(
  query: { since?: string; watch?: { runId: string; version: string }[]; kind?: Kind[]; waitSeconds?: number },
  signal?: AbortSignal,
): Promise<ChangesAnswer> {
  return request<ChangesAnswer>("/v1/host/assay/runs:changes", { method: "POST", body: query, signal });
}
