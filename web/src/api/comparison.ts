/** Comparisons: the types and requests of `comparison` and `comparison/cases`. The numbers and words are those of `assay compare`. */
import { request } from "./client";

export type CompareVerdict = "improved" | "regressed" | "equivalent" | "not enough data";

export interface DifferenceInterval {
  before: number | null;
  after: number | null;
  difference: number | null;
  low: number | null;
  high: number | null;
  level: number;
  method: string;
  cases: number; // of both runs together, if they are not paired
  verdict: CompareVerdict;
  measured_verdict?: CompareVerdict;
  cases_before?: number; // if they are not paired
  cases_after?: number;
  share?: boolean; // the numbers are shares of cases
  same?: boolean; // every case has the same value in both runs
}

export interface CaseList {
  count: number;
  ids: string[];
}

export interface SliceDifference {
  by: string;
  slice: string;
  result: DifferenceInterval;
}

export interface MetricDifference {
  metric: string;
  kind: "passed" | "score" | "output" | "check";
  lower_is_better: boolean;
  result: DifferenceInterval;
}

/** A metric in words, in its own unit. */
export interface MetricTexts {
  metric: string;
  before: string;
  after: string;
  difference: string;
  interval: string;
  verdict: string;
}

export interface PairComparison {
  baseline: string;
  run: string;
  result: DifferenceInterval;
  better: number;
  worse: number;
  unchanged: number;
  unmeasured: CaseList;
  only_in_baseline: CaseList;
  only_in_run: CaseList;
  other_inputs: CaseList;
  slices?: SliceDifference[];
  metrics?: MetricDifference[]; // if they are asked for
  differs?: string[]; // what tells the runs apart
  unpaired?: boolean; // the runs are over different cases: none of them changed
}

export interface ScatterPoint {
  before: number;
  after: number;
  cases: number;
  id?: string; // if it is one case
}

export interface DifferenceBar {
  low: number;
  high: number;
  cases: number;
}

export interface PairView {
  headline: string;
  counts: string;
  about: string[];
  power: string | null;
  slices: string[];
  charts: { points: ScatterPoint[]; grid: boolean; bars: DifferenceBar[] };
  metric_names?: string[]; // that both runs have: the rows of the table of all metrics
  metrics?: MetricTexts[];
}

export interface ComparisonView {
  comparison: { metric: string; lower_is_better: boolean; margin: number | null; comparisons: PairComparison[] };
  pairs: PairView[];
  groupings?: string[]; // by which the cases have slices
  checks?: string[];
}

export type Change = "worse" | "better" | "unchanged" | "unmeasured" | "only_in_baseline" | "only_in_run";
export type InBoth = "passed_in_both" | "failed_in_both"; // parts of the unchanged cases
export type ChangeFilter = "changed" | Change | "other_inputs" | InBoth;

export interface ComparedCase {
  id: string;
  change: Change;
  before?: number;
  after?: number;
  reason_before?: string;
  reason_after?: string;
  position_before?: number;
  position_after?: number;
}

export interface ComparedCases {
  total: number;
  first: number;
  cases: ComparedCase[];
}

export interface ComparisonQuery {
  runs: string[];
  metric?: string;
  by?: string;
  margin?: string;
  metrics?: "true";
}

export function getComparison(query: ComparisonQuery, signal?: AbortSignal): Promise<ComparisonView> {
  return request<ComparisonView>("/v1/host/assay/comparison", { query: { ...query, runs: query.runs.join(",") }, signal });
}

export interface CasesOf extends ComparisonQuery {
  of: string;
  change: ChangeFilter;
  slice?: { by: string; name: string };
}

export function getComparedCases(query: CasesOf, first: number, limit: number, signal?: AbortSignal): Promise<ComparedCases> {
  const { runs, metric, by, of, change, slice } = query;
  return request<ComparedCases>("/v1/host/assay/comparison/cases", {
    query: { runs: runs.join(","), metric, by, of, change, slice_by: slice?.by, slice: slice?.name, first, limit },
    signal,
  });
}

export interface GridCell {
  state: "measured" | "unmeasured" | "absent";
  value?: number;
  position?: number;
}

export interface GridRow {
  id: string;
  different: boolean;
  cells: GridCell[]; // one for each run
}

export interface ComparedGrid {
  metric: string;
  total: number;
  different: number;
  first: number;
  rows: GridRow[];
}

export function getGrid(query: { runs: string[]; metric?: string; different: boolean }, first: number, limit: number, signal?: AbortSignal): Promise<ComparedGrid> {
  return request<ComparedGrid>("/v1/host/assay/comparison/grid", {
    query: { runs: query.runs.join(","), metric: query.metric, different: query.different ? "true" : "false", first, limit },
    signal,
  });
}

/** A trial that parts ways: what differs first, and what each run did there. */
export interface PartingView {
  id: string;
  what: string;
  same_steps: number;
  outcome_a: string;
  outcome_b: string;
  a: string;
  b: string;
  trial?: number; // from 1
}

export interface PartingsView {
  noun: string;
  same: number;
  total: number;
  only_a: number;
  only_b: number;
  first: number;
  partings: PartingView[];
}

export function getPartings(runs: [string, string], first: number, limit: number, signal?: AbortSignal): Promise<PartingsView> {
  return request<PartingsView>("/v1/host/assay/comparison/diff", { query: { runs: runs.join(","), first, limit }, signal });
}
