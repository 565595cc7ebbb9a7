import { useQuery } from "@tanstack/react-query";
import { getOverview } from "~/api/cases";
import { queryRuns, type RunRow } from "~/api/runs";
import { factsApart } from "~/screens/runs/apart";
import { formatAddress } from "~/state/address";
import { Empty, ErrorState, format, Interval, Loading, VisibleText } from "~/ui";

const MAX_OFFERED = 20;

/** One run is chosen: the runs of the same suite or experiment that it can be compared with, the previous one first. */
export function Proposal({ run }: { run: string }) {
  const overview = useQuery({ queryKey: ["run", run, "overview"], queryFn: ({ signal }) => getOverview(run, signal), retry: false });
  const own = overview.data?.run;
  const others = useQuery({
    queryKey: ["runs", "beside", own?.kind, own?.name],
    queryFn: ({ signal }) => queryRuns({ filter: { kind: own ? [own.kind] : [], name: own?.name, status: ["completed"] }, limit: 50 }, signal),
    enabled: own !== undefined && own.name !== "",
  });
  if (overview.isError || others.isError) return <ErrorState error={overview.error ?? others.error} />;
  if (own === undefined || (own.name !== "" && others.isPending)) return <Loading label="Looking for runs to compare with" />;
  const offered = offeredRuns(own, others.data?.runs ?? []);
  const apart = factsApart([own, ...offered]);
  const [first, ...rest] = offered;
  const pick = (
    <a className={first ? "button" : "button primary"} href={formatAddress("/runs", { pick: run })}>
      Choose another run
    </a>
  );
  if (first === undefined) {
    return (
      <Empty title="There is no other run of this suite" icon="compare" actions={pick}>
        <p>
          Pick the run to compare <VisibleText text={own.name || own.runId} /> with in the list of runs.
        </p>
      </Empty>
    );
  }
  return (
    <div className="screen compare">
      <header className="screen-head">
        <h1>
          Compare <VisibleText text={own.name} />
        </h1>
        <span className="grow" />
        {pick}
      </header>
      <section className="card proposal" aria-label="Runs to compare with">
        <p>
          {first.createdAt < own.createdAt ? "The previous run of the same suite:" : "There is no earlier run. A later run of the same suite:"}
        </p>
        <ul>
          {[first, ...rest].map((other, at) => (
            <li key={other.runId}>
              <a className={at === 0 ? "button primary" : ""} href={formatAddress("/compare", { runs: ordered(own, other) })}>
                {at === 0 ? "Compare with " : ""}
                <span className="mono">{format.shortId(other.runId)}</span>
              </a>
              <span className="quiet" title={format.moment(other.createdAt)}>
                <VisibleText text={[...(apart.get(other.runId) ?? []), format.ago(other.createdAt)].join(" · ")} />
              </span>
              <span className="grow" />
              {other.score && <Interval score={other.score} />}
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}

/** Earlier runs, the newest first; then later ones, the oldest first. */
export function offeredRuns(own: RunRow, runs: RunRow[]): RunRow[] {
  const others = runs.filter((one) => one.runId !== own.runId && !one.erasedAt);
  const earlier = others.filter((one) => one.createdAt < own.createdAt).sort((a, b) => b.createdAt.localeCompare(a.createdAt));
  const later = others.filter((one) => one.createdAt >= own.createdAt).sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  return [...earlier, ...later].slice(0, MAX_OFFERED);
}

/** The earlier run is the baseline. */
function ordered(own: RunRow, other: RunRow): string {
  return (other.createdAt < own.createdAt ? [other, own] : [own, other]).map((one) => one.runId).join(",");
}
