import "./charts.css";
import { numberScale } from "./scales";
import { linePath } from "./shapes";

const WIDTH = 84;
const HEIGHT = 24;

/** A row of numbers as a small line, the oldest first. A run without the number is a gap. */
export function Sparkline({ values, label }: { values: (number | null)[]; label: string }) {
  const known = values.filter((one): one is number => one !== null);
  if (known.length < 2) return null;
  const y = numberScale(known, [HEIGHT - 4, 4]);
  const step = (WIDTH - 8) / Math.max(1, values.length - 1);
  const points = values.map((value, at) => ({ x: 4 + at * step, y: value === null ? null : y(value) }));
  const last = points.findLast((point) => point.y !== null);
  return (
    <svg className="sparkline" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <path d={linePath(points)} />
      {last && <circle cx={last.x} cy={last.y ?? 0} r="2.5" />}
    </svg>
  );
}
