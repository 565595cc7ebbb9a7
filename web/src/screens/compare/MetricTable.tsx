import { useQuery } from "@tanstack/react-query";
import { getComparison, type MetricDifference, type MetricTexts } from "~/api/comparison";
import { reportSource } from "~/api/client";
import { changeParams } from "~/state/address";
import { ErrorState, VisibleText } from "~/ui";
import { VerdictChip } from "./VerdictChip";
import { casesText, METRIC_NAMES } from "./words";

interface Props {
  query: { runs: string[]; metric: string; by: string; margin: string };
  at: number; // of the pair
  chosen: string;
  names: string[]; // of the rows to come
  /** Those of a report, which asks for nothing. */
  own?: { metrics: MetricDifference[]; texts: MetricTexts[] };
}

/** Every metric at once, with intervals that are adjusted for their number. A row chooses the metric of the verdict above. */
export function MetricTable({ query, at, chosen, names, own }: Props) {
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
  if (view.isError) return <ErrorState error={view.error} retry={() => void view.refetch()} />;
  if (view.isLoading) return <Waiting names={names} />;
  if (metrics.length === 0) return null;
  return (
    <section className="card small-table compare-metrics" aria-label="Every metric" tabIndex={0}>
      <table>
        <Head />
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
      <Note />
    </section>
  );
}

/** As high as the table will be, so that nothing below it moves. */
function Waiting({ names }: { names: string[] }) {
  return (
    <div className="card small-table compare-metrics" role="status" aria-label="Comparing every metric">
      <table aria-hidden="true">
        <Head />
        <tbody>
          {names.map((name) => (
            <tr key={name}>
              <th scope="row">
                <VisibleText text={METRIC_NAMES[name] ?? name} />
              </th>
              <td colSpan={5}>
                <span className="chip plain">
                  <span className="skeleton compare-skeleton" />
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Note />
    </div>
  );
}

function Head() {
  return (
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
  );
}

function Note() {
  return (
    <p className="compare-note">
      The intervals are adjusted for the number of metrics by Holm’s method; the verdict above is of one metric and is not. Latency, and cost of a case, are over the cases that both runs measured; those of each whole run are at the top.
    </p>
  );
}
