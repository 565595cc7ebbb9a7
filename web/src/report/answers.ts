/** Answers requests of the screens from the data of a report, in the shapes of the REST API. */
import type { CaseRow, CasesAnswer, CasesQuery, CaseStatus, SearchAnswer, SearchMatch } from "~/api/cases";
import { ApiError, type RequestOptions } from "~/api/client";
import type { ComparedCase, ComparedCases } from "~/api/comparison";
import { textOf } from "~/content/shapes";
import type { Report, ReportRun } from "./data";

const ORDER: CaseStatus[] = ["failed", "error", "skipped", "ungraded", "passed"];
const AROUND = 60; // characters before a match

export function answersOf(report: Report): (path: string, options: RequestOptions) => unknown {
  const runs = new Map(report.runs.map((run) => [run.overview.run.runId, run]));
  return (path, { body, query = {} }) => {
    const [, id, rest] = /^\/v1\/host\/assay\/runs\/([^/]+)\/(.+)$/.exec(path) ?? [];
    const run = id === undefined ? undefined : runs.get(decodeURIComponent(id));
    if (run !== undefined && rest !== undefined) {
      if (rest === "overview") return { ...run.overview, slices: run.slices };
      if (rest === "cases:query") return pageOf(run, body as CasesQuery);
      if (rest === "cases:search") {
        const { text = "", filter } = body as { text?: string; filter?: CasesQuery["filter"] };
        return searchIn(run, text, filter);
      }
      if (rest.startsWith("cases/")) return detailOf(report, run, rest.slice("cases/".length));
    }
    if (report.comparison && path === "/v1/host/assay/comparison") return report.comparison.view;
    if (report.comparison && path === "/v1/host/assay/comparison/cases") {
      return comparedCases(report.comparison.cases[String(query["of"])] ?? {}, String(query["change"]), Number(query["first"]), Number(query["limit"]));
    }
    throw new ApiError(404, "not_in_report", "This is not in the report.");
  };
}

function detailOf(report: Report, run: ReportRun, position: string): unknown {
  const detail = run.details[position];
  if (detail !== undefined) return detail;
  const why = report.redacted ? "The content of the cases was left out of this report." : "The content of this case is not in the report, which has a limited size.";
  throw new ApiError(404, "not_in_report", why);
}

export function pageOf(run: ReportRun, query: CasesQuery): CasesAnswer {
  const { filter = {}, sort, limit = 50 } = query;
  const first = query.offset ?? Number(query.cursor ?? 0);
  const rows = rowsIn(run, filter);
  const sign = sort?.order === "desc" ? -1 : 1;
  const value = valueBy(sort?.by ?? "position");
  rows.sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === null || b === null) return a === b ? one.position - other.position : a === null ? 1 : -1;
    return sign * (a - b) || one.position - other.position;
  });
  const next = first + limit;
  const place = query.place === undefined ? -1 : rows.findIndex((row) => row.position === query.place);
  return {
    cases: rows.slice(first, next),
    ...(next < rows.length ? { next: String(next) } : {}),
    counts: run.counts,
    ...(run.effective ? { effective: run.effective } : {}),
    matching: rows.length,
    columns: run.overview.columns ?? [],
    ...(place < 0 ? {} : { place }),
  };
}

function rowsIn(run: ReportRun, filter: NonNullable<CasesQuery["filter"]>): CaseRow[] {
  return run.rows.filter(
    (row) =>
      (filter.status === undefined || filter.status.includes(row.status)) &&
      (filter.positions === undefined || filter.positions.includes(row.position)) &&
      (filter.caseId === undefined || (row.caseId !== null && filter.caseId.includes(row.caseId))) &&
      (filter.findings === undefined || (row.findings ?? 0) > 0) &&
      (filter.corrected === undefined || row.effective !== undefined) &&
      (filter.check ?? []).every((check) => (row.cells[check.index]?.[check.outcome] ?? 0) > 0),
  );
}

function valueBy(by: string): (row: CaseRow) => number | null {
  if (by === "status") return (row) => ORDER.indexOf(row.status);
  if (by === "score") return (row) => row.score;
  if (by === "cost") return (row) => row.costUsd;
  if (by === "latency") return (row) => row.latencyMs;
  return (row) => row.position;
}

/** A search in the ids and in the content that the report has. */
export function searchIn(run: ReportRun, text: string, filter: CasesQuery["filter"] = {}): SearchAnswer {
  const wanted = text.toLowerCase();
  const matches: SearchMatch[] = [];
  for (const row of rowsIn(run, filter)) {
    const found = partsOf(run, row)
      .map(([name, part]) => ({ name, part, at: part.toLowerCase().indexOf(wanted) }))
      .find(({ at }) => at >= 0);
    if (found === undefined) continue;
    const from = Math.max(0, found.at - AROUND);
    const snippet = found.part.slice(from, from + 160);
    matches.push({ position: row.position, trial: 0, caseId: row.caseId ?? "", in: found.name, snippet, at: found.at - from, length: text.length });
  }
  const many = run.rows.length;
  return { matches, looked: { cases: many, bytes: 0, from: 0, to: many, total: run.total, complete: many === run.total } };
}

function partsOf(run: ReportRun, row: CaseRow): [string, string][] {
  const detail = run.details[String(row.position)];
  if (detail === undefined) {
    const { input = "", output = "", reason = null } = row.preview ?? {};
    return [["id", row.caseId ?? ""], ["input", input], ["output", output], ["reason", reason ?? ""]];
  }
  return [
    ["id", detail.caseId],
    ["input", textOf(detail.input ?? "")],
    ...detail.trials.flatMap((trial): [string, string][] => [
      ["output", textOf(trial.output ?? "")],
      ...trial.checks.map((check): [string, string] => ["reason", check.reason]),
    ]),
  ];
}

function comparedCases(lists: Record<string, ComparedCases>, change: string, first: number, limit: number): ComparedCases {
  const own = lists[change];
  const cases: ComparedCase[] = own?.cases ?? (lists["changed"]?.cases ?? []).filter((one) => one.change === change);
  return { total: cases.length, first, cases: cases.slice(first, first + limit) };
}
