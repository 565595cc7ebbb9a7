/** What tells runs of one name apart: what is recorded of them and differs, and when they began. */
import type { RunRow } from "~/api/runs";
import { clock, shortId } from "~/ui/format";

type Fact = (run: RunRow) => string;

const FACTS: Fact[] = [
  (run) => (run.suiteVersion ? `v${run.suiteVersion}` : ""),
  (run) => run.agentId ?? "",
  (run) => run.agentVersion ?? "",
  (run) => (run.models ?? []).join(", "),
  (run) => (run.commit ? run.commit.id.slice(0, 7) + (run.commit.clean === false ? " + changes" : "") : ""),
];

/** For each run, by its id: the facts that not all runs of its name share, then its time. One of a kind has no facts. */
export function factsApart(runs: RunRow[], now = Date.now()): Map<string, string[]> {
  const named = new Map<string, RunRow[]>();
  for (const run of runs) named.set(`${run.kind} ${run.name}`, [...(named.get(`${run.kind} ${run.name}`) ?? []), run]);
  const found = new Map<string, string[]>();
  for (const group of named.values()) {
    const facts = FACTS.filter((fact) => differs(group.map(fact)));
    const tags = new Map(group.map((run) => [run.runId, ownTags(run, group)]));
    const short = group.map((run) => clock(run.createdAt, now));
    const alike = new Set(short).size < short.length; // two of one minute
    for (const run of group) {
      const own = [...facts.map((fact) => fact(run)), ...(tags.get(run.runId) ?? [])].filter(Boolean);
      found.set(run.runId, group.length > 1 ? [...own, clock(run.createdAt, now, alike)] : []);
    }
    const texts = group.map((run) => found.get(run.runId)?.join());
    if (group.length > 1 && differs(group.map((run) => run.runId)) && new Set(texts).size < texts.length) {
      for (const run of group) found.get(run.runId)?.push(shortId(run.runId)); // nothing else does
    }
  }
  return found;
}

/** The tags of a run that not every run beside it has, without those that name it. */
function ownTags(run: RunRow, beside: RunRow[]): string[] {
  return (run.tags ?? []).filter((tag) => !tag.startsWith("name=") && !beside.every((other) => (other.tags ?? []).includes(tag)));
}

function differs(values: string[]): boolean {
  return new Set(values).size > 1;
}
