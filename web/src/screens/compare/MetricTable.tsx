import { useQuery } from "@tanstack/react-query";
import { getComparison, type MetricDifference, type MetricTexts } from "~/api/comparison";
import { reportSource } from "~/api/client";
import { changeParams } from "~/state/address";
import { ErrorState, Loading, VisibleText } from "~/ui";
import { VerdictChip } from "./VerdictChip";
import { casesText, METRIC_NAMES } from "./words";

interface Props {
  query: { runs: string[]; metric: string; by: string; margin: string };
  at: number; // of the pair
  chosen: string;
  /** Those of a report, which asks for nothing. */
  own?: { metrics: MetricDifference[]; texts: MetricTexts[] };
}

/** Every metric at once, with intervals that are adjusted for their number. A row chooses the metric of the verdict above. */
export function MetricTable({ query, at, chosen, own }: Props) {
  const { runs, metric, by, margin } = query;
  const view = useQuery({
    queryKey: ["comparison", runs, metric, by, margin, "metrics"],
    queryFn: ({ signal }) => getComparison({ ...query, metrics: "true" }, signal),
    enabled: own === undefined && reportSource() === null,
    staleTime: Infinity,
    retry: false,
  });
  const metrics = own?.metrics ?? view.data?.comparison.comparisons[at]?.metrics ?? [];
  const texts = own?.texts ?? view.data?.pairs[at]?.metrics ?? [];
  if (view.isLoading) {
    return (
      <div className="card compare-metrics-wait">
        <Loading label="Comparing every metric" lines={4} />
      </div>
    );
  }
  if (view.isError) return <ErrorState error={view.error} retry={() => void view.refetch()} />;
  if (metrics.length === 0) return null;
  return (
    <section className="card small-table compare-metrics" aria-label="Every metric" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Metric</th>
            <th scope="col" className="num compare-count">
              Cases
            </th>
            <th scope="col" className="num compare-wide">
              Before → after
            </th>
            <th scope="col" className="num">
              Change
            </th>
            <th scope="col" className="num compare-count">
              Interval (adjusted)
            </th>
            <th scope="col">Verdict</th>
          </tr>
        </thead>
        <tbody>
          {metrics.map((one, index) => {
            const words = texts[index];
            const isChosen = one.metric === chosen;
            return (
              <tr key={`${one.kind} ${one.metric}`} className={isChosen ? "chosen" : ""}>
                <th scope="row">
                  {reportSource() === null ? (
                    <button type="button" className="compare-choose" aria-pressed={isChosen} title="Show the verdict of this metric" onClick={() => changeParams({ metric: one.metric, case: undefined, slice: undefined, change: undefined })}>
                      <VisibleText text={METRIC_NAMES[one.metric] ?? one.metric} />
                    </button>
                  ) : (
                    <VisibleText text={METRIC_NAMES[one.metric] ?? one.metric} />
                  )}
                </th>
                <td className="num compare-count">{casesText(one.result)}</td>
                <td className="num compare-wide">{`${words?.before ?? "–"} → ${words?.after ?? "–"}`}</td>
                <td className="num">{words?.difference ?? "–"}</td>
                <td className="num compare-count">{words?.interval ?? "–"}</td>
                <td>
                  <VerdictChip result={one.result} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p className="compare-note">The intervals are adjusted for the number of metrics by Holm’s method. The verdict above is of one metric and is not adjusted.</p>
    </section>
  );
}
