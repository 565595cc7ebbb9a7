/** People review a judge: the drawn cases, their answers, and what these say about the judge. */
import type { Annotation, CaseDetail } from "./cases";
import { request } from "./client";

export type Answer = boolean | string; // passed or not, or a text of the judge

export interface ReviewCase {
  position: number | null;
  caseId: string;
  answers?: number; // of all people
  mine?: Answer;
  judge?: Answer; // only if there is an answer of mine
  people?: Record<string, Answer>;
}

export interface ReviewNumbers {
  agreement: number | null;
  kappa: number | null;
  low: number | null;
  high: number | null;
  why: string;
  cases: number;
  judgedRate: number | null;
  bias: number | null;
  biasLow: number | null;
  biasHigh: number | null;
  rate: number | null;
  rateLow: number | null;
  rateHigh: number | null;
  rateLabels: number;
  rateWhy: string;
}

export interface Review {
  you: string;
  noun: string;
  judge: string;
  judges: string[];
  judged: number;
  people: string[];
  sample: { seed: number; drawn: number; judged: number } | null;
  cases: ReviewCase[];
  numbers: ReviewNumbers | null;
  rows: [string, string][]; // of `assay judge check`
  why: string; // the run has no judge
}

const path = (run: string) => `/v1/host/assay/runs/${encodeURIComponent(run)}/review`;

export function getReview(run: string, check: string, signal?: AbortSignal): Promise<Review> {
  return request<Review>(path(run), { query: { check: check || undefined }, signal });
}

/** Draw judged cases at random. A larger draw with the same seed contains the smaller one. */
export function drawSample(run: string, sample: { count: number; seed: number; check: string }): Promise<Review> {
  const { check, ...rest } = sample;
  return request<Review>(path(run), { method: "POST", body: { ...rest, ...(check ? { check } : {}) } });
}

/** An answer is a label, an annotation of the run that `assay judge check` reads. It changes no result. */
export function labelCase({ run, caseId, eventId }: CaseDetail, judge: string, passed: boolean, note: string): Promise<Annotation> {
  const evaluation = run.kind === "evaluation";
  const word = passed ? "pass" : "fail";
  const label = evaluation ? `${judge}: ${word}` : word;
  return request<Annotation>(`/v1/${evaluation ? "evaluations" : "runs"}/${encodeURIComponent(run.runId)}/annotations`, {
    method: "POST",
    body: { target: evaluation ? { nodeId: caseId } : { eventId }, signal: { kind: "label", label }, ...(note ? { note } : {}) },
  });
}
