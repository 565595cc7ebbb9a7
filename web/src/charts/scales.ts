/** The scales of every chart, and the ticks of their axes. */
import { type ScaleLinear, scaleLinear, type ScaleTime, scaleTime } from "d3-scale";

export type NumberScale = ScaleLinear<number, number>;
export type TimeScale = ScaleTime<number, number>;

const TICKS = 4;

/** Without values: a scale from 0 to 1. */
function ends(values: number[]): [number, number] {
  return values.length === 0 ? [0, 1] : values.reduce<[number, number]>(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
}

/** A scale with round ends that holds all values. Shares that spread stand on the whole scale from 0 to 1. */
export function numberScale(values: number[], range: [number, number]): NumberScale {
  const [low, high] = ends(values);
  if (low >= 0 && high <= 1 && high - low > 0.2) return scaleLinear([0, 1], range);
  const [from, to] = low === high ? [low, low + (Math.abs(low) || 1)] : [low, high];
  return scaleLinear([from, to], range).nice(TICKS);
}

/** A scale for times in milliseconds. A single time stands in the middle. */
export function timeScale(times: number[], range: [number, number]): TimeScale {
  const [low, high] = ends(times);
  return scaleTime(low === high ? [low - 1, high + 1] : [low, high], range);
}

/** Two to eight round values of a scale, its ends among them if they are round. */
export function ticksOf(scale: NumberScale): number[] {
  const ticks = scale.ticks(TICKS);
  return ticks.length > 1 ? ticks : scale.domain();
}

export function tickText(value: number): string {
  const text = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
  return text.replace("-", "−");
}
