/** The runs of one suite, experiment or project of traces: types and request of `POST /v1/host/assay/runs:history`. */
import { request } from "./client";
import type { Status } from "./runs";

export type HistoryKind = "evaluation" | "agent-eval";

/** One run. Its numbers are those of its stored statistics; null: not measured, or not known. */
export interface HistoryRow {
  runId: string;
  createdAt: string;
  status: Status;
  suiteVersion: string;
  agentId: string;
  agentVersion: string;
  score: number | null;
  low: number | null;
  high: number | null;
  scale: "rate" | "score" | "number";
  text: string;
  range: string;
  passed: boolean | null;
  tasks: number;
  costUsd: number | null;
  costText: string;
  p95LatencyMs: number | null;
  p95Text: string;
  state: string | null; // of the deployment of the agent version
  promotedBy: boolean; // this run was the evidence for it
  erased: boolean;
  part: string;
  corrections: number;
  commit: string;
  tags: string[];
  windowStart: string | null; // of a window of traces
  windowEnd: string | null;
}

export interface RunHistory {
  name: string;
  kind: HistoryKind;
  rows: HistoryRow[]; // newest first
  next?: string;
}

export function getHistory(query: { name: string; kind: HistoryKind; agentId?: string; limit?: number; cursor?: string }, signal?: AbortSignal): Promise<RunHistory> {
  return request<RunHistory>("/v1/host/assay/runs:history", { method: "POST", body: query, signal });
}
