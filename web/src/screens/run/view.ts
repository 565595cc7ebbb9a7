/** What the table of cases shows: filter, order and search, as they are in the address. */

import type { CasesQuery, CaseSort, CaseStatus, CheckColumn, CheckOutcome, SliceName } from "~/api/cases";

/** The dimension of groups of failures, beside tags and members. */
export const REASON = "reason";

/** The place of the model, or the models, of an output. */
export const MODEL = "$.output.metadata.model";

export type Show = "all" | "failed" | "unmeasured" | "passed" | "ungraded" | "findings";

export interface View {
  show: Show;
  checks: CheckOutcome[]; // only cases where each of these checks has its outcome
  corrected: boolean; // only cases that people corrected
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
  return {
    show,
    checks: checksOf(params.get("check") ?? ""),
    corrected: params.get("corrected") === "true" || params.get("show") === "corrected", // the latter of older links
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

export const MAX_FILTERS = 10; // checks, and values, of a request

const OUTCOMES: Record<string, CheckOutcome["outcome"]> = { fail: "failed", pass: "passed", error: "error", skip: "skipped" };

/** Checks in an address: `2` failed, `3:pass`. */
function checksOf(text: string): CheckOutcome[] {
  return text.split(",").slice(0, MAX_FILTERS).flatMap((part) => {
    const [, index, word = "fail"] = /^(\d{1,4})(?::([a-z]+))?$/.exec(part) ?? [];
    const outcome = OUTCOMES[word];
    return index === undefined || outcome === undefined ? [] : [{ index: Number(index), outcome }];
  });
}

export function checksText(checks: CheckOutcome[]): string | undefined {
  return checks.map(({ index, outcome }) => (outcome === "failed" ? String(index) : `${index}:${wordOf(outcome)}`)).join(",") || undefined;
}

function wordOf(outcome: CheckOutcome["outcome"]): string {
  return Object.keys(OUTCOMES).find((word) => OUTCOMES[word] === outcome) ?? outcome;
}

/** The chip of a check: `check:helpful=fail`. */
export function checkText({ index, outcome }: CheckOutcome, columns: CheckColumn[]): string {
  return `check:${columns.find((one) => one.index === index)?.label ?? index}=${wordOf(outcome)}`;
}

/** A filter for one outcome of a check, in place of another outcome of it. */
export function withCheck(checks: CheckOutcome[], check: CheckOutcome): CheckOutcome[] {
  return [...checks.filter((one) => one.index !== check.index), check];
}

/** The same without the check if it was one that fails, else with it. */
export function toggledCheck(checks: CheckOutcome[], index: number): CheckOutcome[] {
  const others = checks.filter((one) => one.index !== index || one.outcome !== "failed");
  return others.length < checks.length ? others : withCheck(checks, { index, outcome: "failed" });
}

/** With one more value. A case has several tags and fails for several reasons, but has one value of another member. */
export function withSlice(where: SliceName[], slice: SliceName): SliceName[] {
  const several = slice.by === "tag" || slice.by === REASON;
  return [...where.filter((one) => one.by !== slice.by || (several && one.name !== slice.name)), slice];
}

/** The parameters that hold the filters of a view; a change to these shows every case. */
export const NO_FILTER = { show: undefined, check: undefined, corrected: undefined, q: undefined, where: undefined, limits: undefined };

/** Whether a view leaves cases out, apart from a search. */
export function isFiltered(view: View): boolean {
  return view.show !== "all" || view.checks.length > 0 || view.corrected || view.limits.length > 0;
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

export type Filter = { where: SliceName } | { limit: NumberFilter } | { check: CheckOutcome } | { corrected: true } | { wrong: string };

/** What a person types: `tag=warranty`, `score<0.5`, `latency>2s`, `check:helpful=fail`, `corrected`. */
export function filterOf(text: string, columns: CheckColumn[], values: Record<string, string[]> = {}): Filter {
  if (text.trim() === "corrected") return { corrected: true };
  const limit = limitOf(text);
  if (limit !== null) return { limit };
  const [, label, word = ""] = /^check:(.+?)\s*=\s*(fail|pass|error|skip)(?:ed|ped)?$/.exec(text.trim()) ?? [];
  if (label !== undefined) {
    const column = columns.find((one) => one.label === label);
    const outcome = OUTCOMES[word] ?? "failed";
    return column ? { check: { index: column.index, outcome } } : { wrong: `There is no check ${label}.` };
  }
  const cut = text.indexOf("=");
  const by = text.slice(0, cut).trim();
  if (cut < 1 || /[:=]/.test(by)) return { wrong: "A filter is such as tag=warranty, tier=pro, score<0.5, latency>2s, check:helpful=fail or corrected." };
  const dimension = by === "tags" ? "tag" : by === "model" && values[MODEL] && !values["model"] ? MODEL : by;
  return { where: { by: dimension, name: text.slice(cut + 1).trim() } };
}

/** The request for the rows of a view, without its place. */
export function queryOf(view: View): CasesQuery {
  const status = STATUSES[view.show];
  const filter: NonNullable<CasesQuery["filter"]> = {
    ...(status.length > 0 ? { status } : {}),
    ...(view.checks.length === 0 ? {} : { check: view.checks }),
    ...(view.show === "findings" ? { findings: true as const } : {}),
    ...(view.corrected ? { corrected: true as const } : {}),
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
