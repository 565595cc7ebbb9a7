/** One run and its cases: the types and the requests of `overview`, `cases:query`, `cases:search` and `cases/{position}`. */
import { request } from "./client";
import type { CaseCounts, Kind, RunRow, Status } from "./runs";

export interface Bar {
  name: string;
  required: number;
  requiredText: string;
  observed: number | null;
  observedText: string | null;
  met: boolean;
  decided: boolean; // it made the verdict "failed"
}

export interface CheckColumn {
  index: number;
  label: string;
}

export interface CheckStats extends CheckColumn, CaseCounts {
  rateText: string;
}

/** The cases with one value, with their rates as texts. */
export interface RunSlice {
  by: string;
  name: string;
  cases: number;
  casePassRate: string;
  passRate: string;
}

/** Of a run that stops when it has decided. The last look saw `cases` of `total`. */
export interface LastLook {
  decision: string;
  favorable: boolean;
  text: string;
  estimate: number | null;
  low: number;
  high: number;
  unmeasured: number;
  minPassRate: number | null;
  rounds: number;
  cases: number;
  total: number;
}

export interface Overview {
  run: RunRow;
  bars: Bar[];
  columns: CheckColumn[];
  latency: { medianMs: number; p95Ms: number; cases: number; medianText: string; p95Text: string } | null;
  cost: { totalUsd: number | null; knownUsd: number; unknown: boolean; text: string } | null;
  attack?: { text: string; range: string; succeeded: number; tasks: number; failed: number }; // attack success
  findings?: { kind: string; severity: string; count: number; tasks: number; rateText: string }[];
  notLookedFor?: { kind: string; reason: string }[]; // kinds that only a judge sees
  unmeasured: { error: number; skipped: number; neverReached: number };
  progress: { done: number; total: number | null; perSecond: number | null; secondsLeft: number | null } | null;
  effective?: { score: number | null; text: string | null; passed: boolean | null; passedCount: number; failedCount: number; corrected: string[] };
  checks: CheckStats[];
  passK?: { k: number; rate: number; low: number | null; high: number | null; text: string; range: string }[];
  until?: LastLook;
  slices?: RunSlice[]; // of a report
  about: { judge?: string; suiteDigest?: string; agentPack?: string; experiment?: unknown; command?: string; part?: string };
  links: { events: string; result?: string; report?: string; verification?: string; cancel?: string; annotations?: string; review?: string };
}

export type CaseStatus = "passed" | "failed" | "ungraded" | "error" | "skipped";
export type CaseSort = "position" | "score" | "cost" | "latency" | "status";

/** Numbers above one limit and below another. */
export interface Limits {
  above?: number;
  below?: number;
}

/** The cases with one value; by `reason`, a group of failures. */
export interface SliceName {
  by: string;
  name: string;
}

export interface CaseSlice {
  name: string;
  cases: number;
  rate?: string;
  difference?: string;
  verdict?: "better" | "worse";
}

export interface SlicesAnswer {
  by: string;
  slices: CaseSlice[];
  more: number;
  members: string[];
  values?: Record<string, string[]>; // with the reasons: the first values of each member, and the models
  counted: boolean;
}

export interface CheckOutcome {
  index: number;
  outcome: CaseStatus;
}

export interface CasesQuery {
  filter?: {
    status?: CaseStatus[];
    check?: CheckOutcome[]; // each in any trial of the case
    positions?: number[];
    caseId?: string[];
    findings?: true;
    corrected?: true;
    score?: Limits;
    costUsd?: Limits;
    latencyMs?: Limits;
  };
  sort?: { by: CaseSort; order?: "asc" | "desc" };
  include?: "preview"[];
  limit?: number;
  cursor?: string;
  offset?: number;
  place?: number; // the answer says at which index the case at this position is
}

/** The outcomes of one check over the trials of a case. */
export type CheckCell = CaseCounts;

export interface CaseRow {
  position: number;
  caseId: string | null;
  status: CaseStatus;
  score: number | null;
  costUsd: number | null;
  latencyMs: number | null;
  trials: { total: number; passed: number; failed: number; unmeasured: number };
  cells: (CheckCell | null)[];
  findings?: number;
  effective?: { status: CaseStatus; score: number | null; checks?: Record<string, boolean> }; // with the corrections of people
  preview?: { input: string; output: string; expected: string | null; reason: string | null };
}

export interface CasesAnswer {
  cases: CaseRow[];
  next?: string;
  counts: CaseCounts & { all: number };
  effective?: CaseCounts & { all: number; corrected: number }; // with the corrections of people
  matching: number;
  columns: CheckColumn[];
  place?: number;
}

export interface CheckDetail {
  label: string;
  column: number | null;
  checkType: string;
  status: "completed" | "error" | "skip";
  passed: boolean | null;
  reason: string;
  title: string; // the label, with the score of a judge
  result: unknown;
}

export interface Usage {
  provider?: string;
  model?: string;
  input_tokens?: number;
  output_tokens?: number;
  cost_usd?: number | null;
  cached?: boolean;
}

export interface Step {
  type: string;
  at_ms?: number;
  [member: string]: unknown;
}

export interface TrialDetail {
  trial: number;
  status: "completed" | "error" | "skip";
  passed: boolean | null;
  outcome?: string;
  score: number | null;
  costUsd: number | null;
  latencyMs: number | null;
  output?: unknown;
  error?: string;
  checks: CheckDetail[];
  beside?: CheckDetail[]; // do not count
  criteria?: { criterion: string; weight: number; met: boolean; reason: string }[];
  trajectory?: Step[];
  live?: boolean;
  judge?: Usage[];
  findings?: { kind: string; severity: string; detector?: string; detail?: unknown }[];
  groups?: string[]; // of failures, by check and reason
}

export interface Annotation {
  annotationId: string;
  target: { runId: string; eventId?: string; nodeId?: string };
  signal: { kind: "rating" | "correction" | "label" | "flag"; rating?: number; label?: string; correction?: string };
  actor: { principalRef: string };
  createdAt: string;
  note?: string;
}

export interface CaseDetail {
  run: { runId: string; kind: Kind; status: Status };
  row: CaseRow;
  caseId: string;
  eventId?: string;
  input?: unknown;
  expected?: unknown;
  tags?: unknown;
  metadata?: Record<string, unknown>;
  memory?: { id: string; content: string }[]; // what the task put into the memory of the agent
  trials: TrialDetail[];
  recorded?: { score: number | null; passed: boolean | null };
  effective?: { score: number; passed: boolean; annotationId: string; checks?: Record<string, boolean> };
  annotations: Annotation[];
  next: number | null;
  previous: number | null;
}

export interface SearchMatch {
  position: number;
  trial: number;
  caseId: string;
  in: string;
  snippet: string;
  at: number;
  length: number;
}

export interface SearchAnswer {
  matches: SearchMatch[];
  looked: { cases: number; bytes: number; from: number; to: number; total: number; complete: boolean };
  next?: string;
}

const path = (run: string) => `/v1/host/assay/runs/${encodeURIComponent(run)}`;

/** The numbers of a run. Lists that are empty are absent in the answer. */
export async function getOverview(run: string, signal?: AbortSignal): Promise<Overview> {
  const { bars = [], columns = [], checks = [], ...rest } = await request<Partial<Overview> & Overview>(`${path(run)}/overview`, { signal });
  return { ...rest, bars, columns, checks };
}

export function queryCases(run: string, query: CasesQuery, signal?: AbortSignal): Promise<CasesAnswer> {
  return request<CasesAnswer>(`${path(run)}/cases:query`, { method: "POST", body: query, signal });
}

export function getCase(run: string, position: number, signal?: AbortSignal): Promise<CaseDetail> {
  return request<CaseDetail>(`${path(run)}/cases/${position}`, { signal });
}

export function searchCases(
  run: string,
  query: { text?: string; where?: SliceName[]; filter?: CasesQuery["filter"]; limit?: number; cursor?: string },
  signal?: AbortSignal,
): Promise<SearchAnswer> {
  return request<SearchAnswer>(`${path(run)}/cases:search`, { method: "POST", body: query, signal });
}

export function getSlices(run: string, by: string, signal?: AbortSignal): Promise<SlicesAnswer> {
  return request<SlicesAnswer>(`${path(run)}/slices`, { query: { by }, signal });
}

/** Cancel a run. The results so far stay. */
export function cancelRun(run: string, kind: Kind): Promise<unknown> {
  const id = encodeURIComponent(run);
  return request(kind === "evaluation" ? `/v1/evaluations/${id}:cancel` : `/v1/runs/${id}/cancel`, { method: "POST", body: {} });
}

/** A correction of a task, a case or one check of it. `withdrawn`: what was recorded counts again. */
export interface CorrectionBody {
  score?: number;
  passed?: boolean;
  check?: string;
  withdrawn?: true;
}

/** Correct the score of a task or a case. The recorded score stays; the last correction is the effective one. */
export function correctScore({ run, caseId, eventId }: CaseDetail, correction: CorrectionBody, note: string): Promise<Annotation> {
  const signal = { kind: "correction", correction: JSON.stringify(correction) };
  const [family, target] = run.kind === "evaluation" ? ["evaluations", { nodeId: caseId }] : ["runs", { eventId }];
  return request<Annotation>(`/v1/${family}/${encodeURIComponent(run.runId)}/annotations`, {
    method: "POST",
    body: { target, signal, ...(note ? { note } : {}) },
  });
}

/** The measured results of a run by one number: `score`, `latency_ms` or `cost_usd`. */
export interface Distribution {
  name: string;
  results: number;
  median: number;
  bars: { low: number; high: number; results: number }[];
}

export function getDistributions(run: string, signal?: AbortSignal): Promise<{ distributions: Distribution[] }> {
  return request(`/v1/host/assay/runs/${encodeURIComponent(run)}/distributions`, { signal });
}
