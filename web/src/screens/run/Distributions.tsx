import "./distributions.css";
import { useQuery } from "@tanstack/react-query";
import { type Distribution, getDistributions } from "~/api/cases";
import { caseValue, duration, money, plural } from "~/ui/format";

const NAMES: Record<string, string> = { score: "Score", latency_ms: "Latency", cost_usd: "Cost" };
const WIDTH = 132;
const HEIGHT = 34;

/**
 * How scores, latencies and costs of the results are spread. A number that each result has equally is left out. Their
 * place is kept until they are read, so that nothing below moves.
 */
export function Distributions({ run, version, measured }: { run: string; version: string; measured: boolean }) {
  const found = useQuery({
    queryKey: ["run", run, "distributions", version],
    queryFn: ({ signal }) => getDistributions(run, signal),
    enabled: measured,
    retry: false,
  });
  const shown = (found.data?.distributions ?? []).filter((one) => one.bars.filter((bar) => bar.results > 0).length > 1);
  if (!measured || found.isError) return null;
  return (
    <div className="distributions">
      {shown.map((one) => (
        <Bars key={one.name} distribution={one} />
      ))}
    </div>
  );
}

function Bars({ distribution: { name, bars, median, results } }: { distribution: Distribution }) {
  const most = Math.max(...bars.map((bar) => bar.results));
  const width = WIDTH / bars.length;
  const first = bars[0]?.low ?? 0;
  const last = bars.at(-1)?.high ?? 0;
  const label = `${NAMES[name] ?? name} of ${plural(results, "result")}: from ${textOf(name, first)} to ${textOf(name, last)}, median ${textOf(name, median)}`;
  return (
    <figure className="distribution">
      <figcaption>
        {NAMES[name] ?? name} <span className="faint num">{`median ${textOf(name, median)}`}</span>
      </figcaption>
      <svg width="100%" height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {bars.map((bar, at) => {
          const height = bar.results === 0 ? 0 : Math.max(1.5, (bar.results / most) * (HEIGHT - 2));
          return (
            <rect key={at} x={at * width + 0.5} y={HEIGHT - height} width={Math.max(1, width - 1)} height={height}>
              <title>{`${textOf(name, bar.low)} to ${textOf(name, bar.high)}: ${plural(bar.results, "result")}`}</title>
            </rect>
          );
        })}
        <line x1="0" x2={WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      </svg>
      <div className="row faint num" aria-hidden="true">
        <span>{textOf(name, first)}</span>
        <span className="grow" />
        <span>{textOf(name, last)}</span>
      </div>
    </figure>
  );
}

/** A number in its unit. */
export function textOf(name: string, value: number): string {
  if (name === "latency_ms") return duration(value);
  if (name === "cost_usd") return money(value);
  return caseValue(value);
}
