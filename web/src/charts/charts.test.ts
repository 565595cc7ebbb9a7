import { expect, test } from "vitest";
import { numberScale, ticksOf, timeScale } from "./scales";
import { bandPath, linePath } from "./shapes";

test.each([
  [0, 1],
  [0.3, 0.31],
  [5, 5],
  [-3, 12_000],
  [0, 1e-9],
])("an axis of %d to %d holds both, with a few round ticks", (low, high) => {
  const scale = numberScale([low, high], [0, 100]);
  const [from = NaN, to = NaN] = scale.domain();
  expect(from).toBeLessThanOrEqual(low);
  expect(to).toBeGreaterThanOrEqual(high);
  expect(ticksOf(scale).length).toBeGreaterThan(1);
  expect(ticksOf(scale).length).toBeLessThan(9);
});

test("a single moment stands in the middle", () => expect(timeScale([5_000], [0, 100])(5_000)).toBe(50));

test("a line has a gap where nothing was measured", () => {
  expect(linePath([{ x: 0, y: 1 }, { x: 1, y: 2 }, { x: 2, y: null }, { x: 3, y: 4 }, { x: 4, y: 5 }])).toBe("M0,1L1,2M3,4L4,5");
  expect(bandPath([{ x: 0, low: 1, high: 3 }, { x: 1, low: null, high: null }, { x: 2, low: 2, high: 4 }, { x: 3, low: 2, high: 4 }])).toBe("M0,3L0,1ZM2,4L3,4L3,2L2,2Z");
  expect(linePath([])).toBe("");
});

test("an axis without values is the scale of shares", () => expect(numberScale([], [0, 1]).domain()).toEqual([0, 1]));
