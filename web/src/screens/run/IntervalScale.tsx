interface Interval {
  value: number;
  low: number | null;
  high: number | null;
  from?: number;
  to?: number;
  bar?: number | undefined;
}

/** A number and its interval on a scale, with a bar. */
export function IntervalScale({ value, low, high, from = 0, to = 1, bar }: Interval) {
  const at = (number: number) => `${Math.min(1, Math.max(0, (number - from) / (to - from))) * 100}%`;
  return (
    <svg className="score-scale" width="100%" height="22" aria-hidden="true">
      <line className="track" x1="0" x2="100%" y1="11" y2="11" />
      {low !== null && high !== null && <line className="reach" x1={at(low)} x2={at(high)} y1="11" y2="11" />}
      {bar !== undefined && <line className="bar" x1={at(bar)} x2={at(bar)} y1="1" y2="21" />}
      <circle className="point" cx={at(value)} cy="11" r="5" />
    </svg>
  );
}
