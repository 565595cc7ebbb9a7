import "./compare.css";
import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo, type ReactNode } from "react";
import type { ScreenProps } from "~/app/routes";
import { getOverview, type Overview } from "~/api/cases";
import { reportSource } from "~/api/client";
import { getComparison, type ComparisonView, type PairComparison, type PairView } from "~/api/comparison";
import type { RunRow } from "~/api/runs";
import { changeParams, formatAddress, useListParam, useParam } from "~/state/address";
import { Button, Chip, costOf, Empty, ErrorState, Field, format, Interval, Loading, Notice, Segments, Select, Tag, VisibleText } from "~/ui";
import { Proposal } from "./Proposal";
import { CaseTable } from "./CaseTable";
import { ChartView } from "~/charts/ChartView";
import { tickText } from "~/charts/scales";
import { factsApart } from "~/screens/runs/apart";
import { byGrouping } from "~/screens/run/RunSlices";
import { distribution, scatter } from "./marks";
import { SliceLine } from "./SliceLine";
import { SliceTable } from "./SliceTable";
import { DiffView } from "./DiffView";
import { GridView } from "./GridView";
import { MetricTable } from "./MetricTable";
import { passCounts, PassStrip } from "./PassStrip";
import { groupingOptions, metricOptions, NO_SLICES, VERDICT_TONE, VERDICT_WHY, verdictWord } from "./words";

const VIEWS = [
  ["", "Verdict"],
  ["diff", "Diff"],
  ["grid", "Cases and runs"],
] as const;

export default function CompareScreen(_: ScreenProps) {
  const [runs, setRuns] = useListParam("runs");
  const [metric, setMetric] = useParam("metric");
  const [by, setBy] = useParam("by");
  const [margin, setMargin] = useParam("margin");
  const [of] = useParam("of");
  const [shown, setShown] = useParam("view");
  const asked = { runs, metric, by: by === NO_SLICES ? "" : by, margin };
  const options = (by: string, enabled: boolean) => ({
    queryKey: ["comparison", runs, metric, by, margin],
    queryFn: ({ signal }: { signal: AbortSignal }) => getComparison({ ...asked, by }, signal),
    enabled: enabled && runs.length >= 2,
    staleTime: Infinity, // runs that have ended do not change
    retry: false,
  });
  const byTag = by === "" && !/:(median|p95)$/.test(metric) && reportSource() === null; // slices without a choice
  const tags = useQuery(options("tag", byTag));
  const plain = useQuery(options(asked.by, !byTag || tags.isError)); // too many tags are no reason for no comparison
  const view = byTag && !tags.isError ? tags : plain;
  const hasTags = view === tags && tags.data?.comparison.comparisons.some((pair) => (pair.slices ?? []).length > 1) === true;
  const query = view === tags ? { ...asked, by: "tag" } : asked;
  const rows = useRunRows(runs);
  if (runs.length === 1) return <Proposal run={runs[0] ?? ""} />;
  if (runs.length < 2) return <NoRuns />;
  const at = Math.max(0, view.data?.comparison.comparisons.findIndex((pair) => pair.run === of) ?? 0);
  const metrics = metricOptions(view.data, metric);
  const groupings = groupingOptions(view.data?.groupings ?? [], by, hasTags);
  return (
    <div className="screen compare">
      <header className="screen-head">
        <h1>Compare</h1>
        {reportSource() === null && <Segments label="What is shown" value={shown} options={VIEWS} onChange={setShown} />}
        <span className="grow" />
        {reportSource() === null && <div className="toolbar">
          {shown !== "diff" && <Select label="Metric" value={metric} options={metrics} onChange={setMetric} />}
          {shown === "" && (
            <>
              <Select label="Slices" value={by} options={groupings} onChange={setBy} />
              <label className="compare-margin">
                <span className="quiet">Margin</span>
                <Field
                  type="text"
                  inputMode="decimal"
                  placeholder="none"
                  aria-label="Margin: a difference below this does not matter"
                  defaultValue={margin}
                  key={margin}
                  onBlur={(event) => setMargin(event.target.value.trim())}
                  onKeyDown={(event) => event.key === "Enter" && setMargin(event.currentTarget.value.trim())}
                />
              </label>
            </>
          )}
        </div>}
      </header>
      <RunStrip runs={runs} rows={rows} onSwap={() => setRuns([runs[1] ?? "", runs[0] ?? "", ...runs.slice(2)])} />
      {shown === "grid" && reportSource() === null ? (
        <GridView runs={runs} metric={metric} rows={rows} />
      ) : shown === "diff" && reportSource() === null ? (
        <DiffView runs={[runs[0] ?? "", of && runs.includes(of) ? of : (runs[1] ?? "")]} />
      ) : view.isPending ? (
        <div className="card compare-wait">
          <p className="quiet">Reading the results of {format.plural(runs.length, "run")}. Large runs take some seconds.</p>
          <Loading label="Comparing" lines={5} />
        </div>
      ) : view.isError ? (
        <ErrorState error={view.error} retry={() => void view.refetch()} />
      ) : (
        <Comparison view={view.data} at={at} rows={rows} query={query} sliced={view !== tags || hasTags} />
      )}
    </div>
  );
}

type RunAbout = Pick<Overview, "run" | "latency">;

function useApart(rows: Record<string, RunAbout>): Map<string, string[]> {
  return useMemo(() => factsApart(Object.values(rows).map((one) => one.run)), [rows]);
}

function useRunRows(runs: string[]): Record<string, RunAbout> {
  const overviews = useQueries({
    queries: runs.map((run) => ({
      queryKey: ["run", run, "overview"],
      queryFn: ({ signal }: { signal: AbortSignal }) => getOverview(run, signal),
      retry: false,
    })),
  });
  return Object.fromEntries(overviews.flatMap((one) => (one.data ? [[one.data.run.runId, one.data]] : [])));
}

/** The end of an id: runs of one day begin alike. */
function endOf(run: string): string {
  return run.length > 12 ? `…${run.slice(-6)}` : run;
}

function NoRuns() {
  return (
    <Empty
      title="Pick the runs to compare"
      icon="compare"
      actions={
        <a className="button primary" href={formatAddress("/runs")}>
          Choose runs
        </a>
      }
    >
      <p>
        In the list of runs, pick two or more with <kbd>x</kbd>. The first is the baseline. Runs over the same cases are paired case by case, so that a small
        difference can be shown with few cases.
      </p>
    </Empty>
  );
}

/** The runs that are compared: the baseline, then the others. Each card has its height before its run is read. */
function RunStrip({ runs, rows, onSwap }: { runs: string[]; rows: Record<string, RunAbout>; onSwap: () => void }) {
  const apart = useApart(rows);
  return (
    <ol className="compare-runs" aria-label="Runs">
      {runs.map((run, index) => {
        const row = rows[run]?.run;
        const latency = rows[run]?.latency;
        const facts = apart.get(run) ?? [];
        return (
          <li key={run} className="card compare-run">
            <div className="row">
              <span className="faint">{index === 0 ? "Baseline" : runs.length > 2 ? `Run ${index}` : "Run"}</span>
              <span className="grow" />
              {row?.score ? <Interval score={row.score} /> : <span className="interval" />}
              {index === 0 && runs.length === 2 && reportSource() === null && <Button kind="plain" size="small" icon="compare" aria-label="Swap the baseline and the run" onClick={onSwap} />}
            </div>
            <a className="truncate compare-name" href={formatAddress(`/runs/${encodeURIComponent(run)}`)} title={run}>
              {row?.name || run}
            </a>
            <div className="row compare-tags" title={row && format.moment(row.createdAt)}>
              {row && (
                <span className="truncate quiet">
                  <VisibleText text={facts.length > 0 ? facts.join(" · ") : [row.agentId, row.agentVersion, format.clock(row.createdAt)].filter(Boolean).join(" · ")} />
                </span>
              )}
              {row && <Provenance row={row} known={facts} />}
            </div>
            <div className="faint truncate">
              {row && [row.total === null ? "" : format.plural(row.total, "case"), costOf(row.costParts) || row.costText, latency && `p95 ${latency.p95Text}`, facts.some((fact) => fact.startsWith("…")) ? "" : endOf(run)].filter(Boolean).join(" · ")}
            </div>
          </li>
        );
      })}
    </ol>
  );
}

/** The commit, the models and the tags of the run, beside what is known already: that in which it differs. */
function Provenance({ row, known }: { row: RunRow; known: string[] }) {
  const commit = row.commit && `${row.commit.id.slice(0, 7)}${row.commit.clean === false ? " + changes" : ""}`;
  const tags = [...(row.models ?? []).slice(0, 2), ...(row.tags ?? []).filter((tag) => !tag.startsWith("name="))];
  return (
    <>
      {commit && !known.includes(commit) && (
        <span className="mono faint" title={row.commit?.id}>
          {commit}
        </span>
      )}
      {tags
        .filter((tag) => !known.includes(tag))
        .slice(0, 4)
        .map((tag) => (
          <Tag key={tag}>
            <VisibleText text={tag} />
          </Tag>
        ))}
    </>
  );
}

interface ComparisonProps {
  view: ComparisonView;
  at: number;
  rows: Record<string, RunAbout>;
  query: { runs: string[]; metric: string; by: string; margin: string };
  sliced: boolean; // one slice with all cases tells nothing
}

function Comparison({ view, at, rows, query, sliced }: ComparisonProps) {
  const { comparisons, metric, lower_is_better: lowerIsBetter } = view.comparison;
  const pair = comparisons[at];
  const words = view.pairs[at];
  const names = useMemo(() => ({ before: "before", after: "after", metric, lowerIsBetter }), [metric, lowerIsBetter]);
  if (!pair || !words) return <ErrorState error={new Error("The server sent no comparison.")} />;
  const { points, grid, bars } = words.charts;
  const passed = points.length > 0 && metric === "passed" ? passCounts(points) : null;
  const slices = (sliced ? (pair.slices ?? []) : []).map((slice, index) => ({ ...slice, text: words.slices[index] ?? "" }));
  const file = `comparison-${format.shortId(pair.run).replace("…", "")}`;
  const open = (id: string) => changeParams({ case: id });
  return (
    <>
      {comparisons.length > 1 && <PairTable view={view} at={at} rows={rows} />}
      <Verdict pair={pair} words={words} where={<SliceLine slices={slices} lowerIsBetter={lowerIsBetter} />} />
      <MetricTable query={query} at={at} chosen={metric} names={words.metric_names ?? []} own={pair.metrics && words.metrics ? { metrics: pair.metrics, texts: words.metrics } : undefined} />
      {passed !== null && <PassStrip counts={passed} selects={reportSource() === null} />}
      {points.length > 0 && passed === null && (
        <div className="compare-charts">
          <ChartView
            title="Before and after"
            name={`${file}-scatter`}
            summary={`Scatter of ${format.plural(pair.result.cases, "case")}: ${pair.better} above the diagonal improved, ${pair.worse} regressed, ${pair.unchanged} on it are the same.`}
            draw={(width, height) => scatter(points, names, width, height)}
            table={{ header: grid ? ["before (about)", "after (about)", "cases"] : ["before", "after", "cases"], rows: points.map((point) => [tickText(point.before), tickText(point.after), point.cases]) }}
            onOpen={open}
          />
          <ChartView
            title="Differences"
            name={`${file}-differences`}
            summary={`Distribution of the differences: ${pair.worse} regressed, ${pair.unchanged} the same, ${pair.better} improved.`}
            draw={(width, height) => distribution(bars, names, width, height)}
            table={{ header: ["from", "to", "cases"], rows: bars.filter((bar) => bar.cases > 0).map((bar) => [tickText(bar.low), tickText(bar.high), bar.cases]) }}
          />
        </div>
      )}
      {byGrouping(slices).map(([by, slices]) => (
        <SliceTable key={by} by={by} slices={slices} />
      ))}
      <CaseTable key={pair.run} pair={pair} query={{ ...query, of: pair.run }} file={file} />
    </>
  );
}

/** Each run beside the baseline, where there are several. A row chooses the pair below. */
function PairTable({ view, at, rows }: { view: ComparisonView; at: number; rows: Record<string, RunAbout> }) {
  const apart = useApart(rows);
  return (
    <div className="card small-table compare-pairs">
      <table>
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col" className="num">
              Before → after
            </th>
            <th scope="col" className="num compare-count">
              Improved
            </th>
            <th scope="col" className="num compare-count">
              Regressed
            </th>
            <th scope="col">Verdict</th>
          </tr>
        </thead>
        <tbody>
          {view.comparison.comparisons.map((pair, index) => (
            <tr key={pair.run} className={index === at ? "chosen" : ""}>
              <th scope="row">
                <button type="button" className="compare-choose" aria-pressed={index === at} onClick={() => changeParams({ of: pair.run, case: undefined })}>
                  {rows[pair.run]?.run.name ? (
                    <>
                      <VisibleText text={rows[pair.run]?.run.name ?? ""} /> <span className="faint">{(apart.get(pair.run) ?? []).join(" · ") || endOf(pair.run)}</span>
                    </>
                  ) : (
                    pair.run
                  )}
                </button>
              </th>
              <td className="num">{withoutVerdict(view.pairs[index]?.headline ?? "", pair)}</td>
              <td className="num compare-count">{pair.unpaired ? format.MISSING : format.count(pair.better)}</td>
              <td className="num compare-count">{pair.unpaired ? format.MISSING : format.count(pair.worse)}</td>
              <td>
                <Chip tone={VERDICT_TONE[verdictWord(pair.result)]}>{verdictWord(pair.result)}</Chip>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="compare-note">The intervals are adjusted for the number of runs.</p>
    </div>
  );
}

function withoutVerdict(headline: string, pair: PairComparison): string {
  const word = verdictWord(pair.result);
  return headline.endsWith(word) ? headline.slice(0, -word.length).trimEnd() : headline;
}

/** The verdict in the words of `assay compare`, with a drawing of its interval. */
function Verdict({ pair, words, where }: { pair: PairComparison; words: PairView; where: ReactNode }) {
  const { result } = pair;
  return (
    <section className="card compare-verdict" aria-label="Verdict">
      <div className="compare-line">
        <Chip tone={VERDICT_TONE[verdictWord(result)]}>{verdictWord(result)}</Chip>
        <p className="compare-headline num">{withoutVerdict(words.headline, pair)}</p>
      </div>
      {result.difference !== null && result.low !== null && result.high !== null && (
        <IntervalDrawing difference={result.difference} low={result.low} high={result.high} level={result.level} share={result.share === true} />
      )}
      <p>{VERDICT_WHY[verdictWord(result)]}</p>
      {where}
      <p className="quiet">{words.counts}</p>
      {(pair.differs ?? []).length > 0 && (
        <p className="quiet">
          The runs differ: <VisibleText text={pair.differs?.join("; ") ?? ""} />
        </p>
      )}
      {words.power && <p className="faint">{words.power}</p>}
      {result.measured_verdict && (
        <Notice tone="warn">
          With only the measured cases, the verdict would be “{result.measured_verdict}”. The cases that were not measured could change it.
        </Notice>
      )}
      {words.about.length > 0 && (
        <ul className="compare-about">
          {words.about.map((line) => (
            <li key={line}>
              <VisibleText text={line} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** The interval of the difference on a scale around 0. */
function IntervalDrawing({ difference, low, high, level, share }: { difference: number; low: number; high: number; level: number; share: boolean }) {
  const reach = 1.15 * Math.max(Math.abs(low), Math.abs(high), 1e-9);
  const at = (value: number) => `${50 + (value / reach) * 50}%`;
  const tone = low > 0 || high < 0 ? "decided" : "open";
  const text = share ? format.points : format.caseValue;
  return (
    <div
      className={`compare-interval ${tone}`}
      role="img"
      aria-label={`Difference ${text(difference)}, ${Math.round(level * 1000) / 10}% interval from ${text(low)} to ${text(high)}`}
    >
      <svg width="100%" height="26" aria-hidden="true">
        <line className="scale" x1="0" x2="100%" y1="13" y2="13" />
        <line className="zero" x1="50%" x2="50%" y1="2" y2="24" />
        <line className="reach" x1={at(low)} x2={at(high)} y1="13" y2="13" />
        <circle className="point" cx={at(difference)} cy="13" r="5" />
      </svg>
      <div className="row faint num">
        <span>{share ? format.points(-reach) : tickText(-reach)}</span>
        <span className="grow" />
        <span>no difference</span>
        <span className="grow" />
        <span>{share ? format.points(reach) : `+${tickText(reach)}`}</span>
      </div>
    </div>
  );
}
