/** One evaluation at once, and the catalogue of checks. */
import { request } from "./client";

export interface EvaluationRequest {
  test_cases: Record<string, unknown>[];
  outputs: Record<string, unknown>[];
  checks: unknown[];
}

export interface CheckResult {
  check_type: string;
  status: "completed" | "error" | "skip";
  results: Record<string, unknown>;
  resolved_arguments?: Record<string, { value?: unknown; jsonpath?: string }>;
  error?: { type: string; message: string };
  metadata?: { check_name?: string };
}

export interface EvaluationResult {
  evaluation_id: string;
  results: { status: string; check_results: CheckResult[] }[];
}

export interface CheckDescription {
  type: string;
  version: string;
  description: string;
  arguments: { properties?: Record<string, ArgumentSchema>; required?: string[] };
}

export interface ArgumentSchema {
  type?: string;
  enum?: unknown[];
  anyOf?: ArgumentSchema[];
  items?: ArgumentSchema;
  default?: unknown;
  description?: string;
  pattern?: string;
  $ref?: string;
}

/** Evaluate and store nothing. A check that calls a model is refused; `runEvaluation` runs it as a stored run. */
export function tryEvaluation(body: EvaluationRequest, signal?: AbortSignal): Promise<EvaluationResult> {
  return request<EvaluationResult>("/v1/evaluate", { method: "POST", query: { store: false }, body, signal });
}

export function runEvaluation(body: EvaluationRequest): Promise<EvaluationResult> {
  return request<EvaluationResult>("/v1/evaluate", { method: "POST", body });
}

export async function getChecks(signal?: AbortSignal): Promise<CheckDescription[]> {
  return (await request<{ checks: CheckDescription[] }>("/v1/checks", { signal })).checks;
}
