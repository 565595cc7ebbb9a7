/** What the table of cases shows: filter, order and search, as they are in the address. */

import type { CasesQuery, CaseSort, CaseStatus } from "~/api/cases";

export type Show = "all" | "failed" | "unmeasured" | "passed" | "ungraded" | "findings";

export interface View {
  show: Show;
  check: number | null; // only cases where this check failed
  sort: CaseSort;
  descending: boolean;
  text: string; // searched in ids, inputs, outputs and reasons
}

const SHOWS: readonly Show[] = ["all", "failed", "unmeasured", "passed", "ungraded", "findings"];
const SORTS: readonly CaseSort[] = ["status", "position", "score", "cost", "latency"];
const STATUSES: Record<Show, CaseStatus[]> = {
  all: [],
  failed: ["failed"],
  unmeasured: ["error", "skipped"],
  passed: ["passed"],
  ungraded: ["ungraded"],
  findings: [],
};

/** The view of an address. A value that means nothing is the default. */
export function viewOf(params: URLSearchParams): View {
  const show = SHOWS.find((one) => one === params.get("show")) ?? "all";
  const sort = (params.get("sort") ?? "").replace(/^-/, "");
  const check = /^\d{1,4}$/.test(params.get("check") ?? "") ? Number(params.get("check")) : null;
  return {
    show,
    check,
    sort: SORTS.find((one) => one === sort) ?? "status",
    descending: (params.get("sort") ?? "").startsWith("-"),
    text: params.get("q") ?? "",
  };
}

/** The request for the rows of a view, without its place. */
export function queryOf(view: View): CasesQuery {
  const status = STATUSES[view.show];
  const filter: NonNullable<CasesQuery["filter"]> = {
    ...(status.length > 0 ? { status } : {}),
    ...(view.check === null ? {} : { check: { index: view.check } }),
    ...(view.show === "findings" ? { findings: true as const } : {}),
  };
  return {
    ...(Object.keys(filter).length > 0 ? { filter } : {}),
    sort: { by: view.sort, order: view.descending ? "desc" : "asc" },
    include: ["preview"],
  };
}
