/** The query of the list, from the address of the page. */
import { useMemo } from "react";
import { type Kind, KINDS, type RunFilter, type RunSort, type RunsQuery, type Status } from "~/api/runs";
import { changeParams, useListParam, useParam } from "~/state/address";
import type { Sort } from "~/ui";

export const STATUS_CHOICES: readonly (readonly [value: string, text: string, statuses: Status[]])[] = [
  ["live", "In progress", ["pending", "running", "cancelling", "paused"]],
  ["waiting", "Waits for a person", ["waiting-approval", "waiting-input", "waiting-external"]],
  ["completed", "Completed", ["completed"]],
  ["failed", "Failed", ["failed"]],
  ["cancelled", "Cancelled", ["cancelled"]],
];

const SORTS: readonly RunSort[] = ["created", "score", "cost", "duration"];

export function useRunsState() {
  const [text, setText] = useParam("q");
  const [kind, setKind] = useParam("kind");
  const [status, setStatus] = useParam("status");
  const [verdict, setVerdict] = useParam("verdict");
  const [name, setName] = useParam("name");
  const [agent, setAgent] = useParam("agent");
  const [tag, setTag] = useParam("tag");
  const [sortText, setSortText] = useParam("sort", "-created");
  const [group] = useParam("group");
  const [picked, setPicked] = useListParam("pick");
  const sort = useMemo<Sort>(() => {
    const by = sortText.replace(/^-/, "");
    return { by: SORTS.some((one) => one === by) ? by : "created", descending: sortText.startsWith("-") };
  }, [sortText]);
  const filter = useMemo<RunFilter>(() => {
    const made: RunFilter = {};
    const chosen = KINDS.find((one) => one === kind);
    if (chosen) made.kind = [chosen];
    const statuses = STATUS_CHOICES.find(([value]) => value === status)?.[2];
    if (statuses) made.status = statuses;
    if (verdict === "passed" || verdict === "failed") made.passed = verdict === "passed";
    if (name) made.name = name;
    if (agent) made.agentId = agent;
    if (tag) made.tag = tag;
    if (text.trim()) made.text = text.trim().slice(0, 200);
    return made;
  }, [kind, status, verdict, name, agent, tag, text]);
  const grouped = group === "name" && !isScanned(filter);
  const query = useMemo<RunsQuery>(
    () => ({
      filter,
      ...(grouped ? { groupBy: "name" as const } : { sort: { by: sort.by as RunSort, order: sort.descending ? "desc" : "asc" } }),
      limit: 50,
    }),
    [filter, sort, grouped],
  );
  return {
    text, setText, kind: kind as Kind | "", setKind, status, setStatus, verdict, setVerdict, name, setName, agent, setAgent, tag, setTag,
    sort, setSort: (next: Sort) => setSortText(`${next.descending ? "-" : ""}${next.by}`),
    grouped, setGrouped,
    picked, setPicked, filter, query,
  };
}

/** Groups have the newest run first and cannot be searched: what they cannot have leaves the address. */
function setGrouped(on: boolean): void {
  const removed = { q: undefined, agent: undefined, tag: undefined, sort: undefined };
  changeParams(on ? { ...removed, group: "name" } : { group: undefined }, { replace: true });
}

/** Whether the server looks at each run. Then it does not count ahead, and makes no groups. */
export function isScanned(filter: RunFilter): boolean {
  return (filter.text ?? filter.agentId ?? filter.tag) !== undefined;
}

export type RunsState = ReturnType<typeof useRunsState>;

/** Whether only the place in the list decides: new runs go to the top, and no other filter can hide them. */
export function isFiltered(filter: RunFilter): boolean {
  return Object.keys(filter).length > 0;
}
