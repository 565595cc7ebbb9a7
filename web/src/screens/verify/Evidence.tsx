import { useQuery } from "@tanstack/react-query";
import { getOverview, type Overview } from "~/api/cases";
import { getComparison } from "~/api/comparison";
import type { DeploymentRecord } from "~/api/decisions";
import { VerdictChip } from "~/screens/compare/VerdictChip";
import { formatAddress } from "~/state/address";
import { Chip, ErrorState, format, Loading, NotMeasured, VisibleText } from "~/ui";

/** What a person needs to know before an approval: the score with its interval, the verdict against the active version, the findings. */
export function Evidence({ run, active }: { run: string; active: DeploymentRecord | undefined }) {
  const overview = useQuery({ queryKey: ["run", run, "overview"], queryFn: ({ signal }) => getOverview(run, signal), retry: false });
  if (overview.isPending) return <Loading label="Loading the evidence" lines={2} />;
  if (overview.isError) return <ErrorState error={overview.error} retry={() => void overview.refetch()} />;
  const { score, passed } = overview.data.run;
  return (
    <dl className="verify-evidence" aria-label="Evidence">
      <div>
        <dt>Score</dt>
        <dd className="row wrap">
          {score === null ? <NotMeasured /> : <strong className="num">{score.text}</strong>}
          {score !== null && score.low !== null && <span className="faint num">{score.range}</span>}
          {passed !== null && <Chip tone={passed ? "pass" : "fail"}>{passed ? "Passed" : "Not passed"}</Chip>}
        </dd>
        {overview.data.effective?.text != null && <dd className="quiet">{`with ${format.plural(overview.data.effective.corrected.length, "correction")}: ${overview.data.effective.text}`}</dd>}
      </div>
      <div>
        <dt>Against the active version</dt>
        <Against run={run} active={active} />
      </div>
      <div>
        <dt>Findings</dt>
        <Findings overview={overview.data} />
      </div>
    </dl>
  );
}

function Against({ run, active }: { run: string; active: DeploymentRecord | undefined }) {
  const baseline = active?.evalRunId;
  const comparison = useQuery({
    queryKey: ["comparison", baseline, run],
    queryFn: ({ signal }) => getComparison({ runs: [baseline ?? "", run] }, signal),
    enabled: baseline !== undefined && baseline !== run,
    retry: false,
  });
  if (active === undefined) return <dd className="quiet">no version is active</dd>;
  if (baseline === undefined) return <dd className="quiet">{active.version} was promoted without an eval run</dd>;
  if (baseline === run) return <dd className="quiet">{active.version} has the same evidence</dd>;
  if (comparison.isPending) return <dd className="quiet">comparing with {active.version}…</dd>;
  const pair = comparison.data?.comparison.comparisons[0];
  const view = comparison.data?.pairs[0];
  if (comparison.isError || pair === undefined || view === undefined) {
    return (
      <dd className="quiet">
        not comparable with {active.version}: <VisibleText text={comparison.error?.message ?? "no case is in both runs"} />
      </dd>
    );
  }
  return (
    <>
      <dd className="row wrap">
        <VerdictChip result={pair.result} />
        <a href={formatAddress("/compare", { runs: `${baseline},${run}` })}>compare with {active.version}</a>
      </dd>
      <dd className="quiet num">
        <VisibleText text={view.headline} />
      </dd>
    </>
  );
}

function Findings({ overview: { attack, findings, notLookedFor = [] } }: { overview: Overview }) {
  if (findings === undefined) return <dd className="quiet">not looked for: the run is not adversarial</dd>;
  const found = findings.filter((one) => one.count > 0);
  return (
    <>
      <dd className="row wrap">
        {found.length === 0
          ? "none"
          : found.map((one) => (
              <Chip key={`${one.kind} ${one.severity}`} tone={one.severity === "low" || one.severity === "medium" ? "warn" : "fail"}>
                {`${one.kind} (${one.severity}) ×${format.count(one.count)}`}
              </Chip>
            ))}
      </dd>
      {attack && <dd className="quiet num">{`attack success ${attack.text}${attack.range && ` (${attack.range})`}`}</dd>}
      {notLookedFor.length > 0 && <dd className="quiet">{`not looked for: ${notLookedFor.map((one) => one.kind).join(", ")}`}</dd>}
    </>
  );
}
