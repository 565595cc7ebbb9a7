/** What the table of cases shows: filter, order and search, as they are in the address. */

import type { CasesQuery, CaseSort, CaseStatus, CheckColumn, SliceName } from "~/api/cases";

/** The dimension of groups of failures, beside tags and members. */
export const REASON = "reason";

export type Show = "all" | "failed" | "unmeasured" | "passed" | "ungraded" | "findings" | "corrected";

export interface View {
  show: Show;
  check: number | null; // only cases where this check failed
  sort: CaseSort;
  descending: boolean;
  text: string; // searched in ids, inputs, outputs and reasons
  where: SliceName[]; // only cases with all of these values
  limits: NumberFilter[];
}

/** `score<0.5`, `latency>2000`, `cost>0.01`; a latency is in milliseconds. */
export interface NumberFilter {
  name: "score" | "cost" | "latency";
  sign: "<" | ">";
  value: number;
}

const SHOWS: readonly Show[] = ["all", "failed", "unmeasured", "passed", "ungraded", "findings", "corrected"];
const SORTS: readonly CaseSort[] = ["status", "position", "score", "cost", "latency"];
const STATUSES: Record<Show, CaseStatus[]> = {
  all: [],
  failed: ["failed"],
  unmeasured: ["error", "skipped"],
  passed: ["passed"],
  ungraded: ["ungraded"],
  findings: [],
  corrected: [],
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
    where: whereOf(params.get("where") ?? ""),
    limits: limitsOf(params.get("limits") ?? ""),
  };
}

/** Values in an address: `tier:pro,tag:a%2Cb`. */
export function whereOf(text: string): SliceName[] {
  return text.split(",").flatMap((part) => {
    const [by, name] = part.split(":").map(decoded);
    return by && name !== undefined ? [{ by, name }] : [];
  });
}

export function whereText(where: SliceName[]): string | undefined {
  return where.map(({ by, name }) => `${encodeURIComponent(by)}:${encodeURIComponent(name)}`).join(",") || undefined;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

const LIMIT = /^(score|cost|latency)\s*([<>])\s*(\d*\.?\d+)\s*(ms|s)?$/;

function limitsOf(text: string): NumberFilter[] {
  return text.split(",").flatMap((part) => limitOf(part) ?? []);
}

function limitOf(text: string): NumberFilter | null {
  const [, name, sign, value, unit] = LIMIT.exec(text.trim()) ?? [];
  if (name === undefined) return null;
  return { name: name as NumberFilter["name"], sign: sign as NumberFilter["sign"], value: Number(value) * (unit === "s" ? 1_000 : 1) };
}

export function limitText({ name, sign, value }: NumberFilter): string {
  return `${name}${sign}${value}`;
}

/** Whether the server looks at the content of cases for this view. */
export function isSearch(view: View): boolean {
  return view.text.trim() !== "" || view.where.length > 0;
}

export type Filter = { where: SliceName } | { limit: NumberFilter } | { check: number } | { show: "corrected" } | { wrong: string };

/** What a person types: `tag=warranty`, `score<0.5`, `latency>2s`, `check:helpful=fail`, `corrected`. */
export function filterOf(text: string, columns: CheckColumn[]): Filter {
  if (text.trim() === "corrected") return { show: "corrected" };
  const limit = limitOf(text);
  if (limit !== null) return { limit };
  const [, label] = /^check:(.+?)\s*=\s*fail(?:ed)?$/.exec(text.trim()) ?? [];
  if (label !== undefined) {
    const column = columns.find((one) => one.label === label);
    return column ? { check: column.index } : { wrong: `There is no check ${label}.` };
  }
  const cut = text.indexOf("=");
  const by = text.slice(0, cut).trim();
  if (cut < 1 || /[:=]/.test(by)) return { wrong: "A filter is such as tag=warranty, tier=pro, score<0.5, latency>2s, check:helpful=fail or corrected." };
  return { where: { by: by === "tags" ? "tag" : by, name: text.slice(cut + 1).trim() } };
}

/** The request for the rows of a view, without its place. */
export function queryOf(view: View): CasesQuery {
  const status = STATUSES[view.show];
  const filter: NonNullable<CasesQuery["filter"]> = {
    ...(status.length > 0 ? { status } : {}),
    ...(view.check === null ? {} : { check: { index: view.check } }),
    ...(view.show === "findings" ? { findings: true as const } : {}),
    ...(view.show === "corrected" ? { corrected: true as const } : {}),
  };
  for (const { name, sign, value } of view.limits) {
    const member = name === "score" ? "score" : name === "cost" ? "costUsd" : "latencyMs";
    filter[member] = { ...filter[member], [sign === "<" ? "below" : "above"]: value };
  }
  return {
    ...(Object.keys(filter).length > 0 ? { filter } : {}),
    sort: { by: view.sort, order: view.descending ? "desc" : "asc" },
    include: ["preview"],
  };
}
