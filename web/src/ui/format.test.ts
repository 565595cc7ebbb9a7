import { expect, test } from "vitest";

import { duration, money } from "./format";

test.each([
  [null, "–"],
  [0, "$0"],
  [0.0000065, "$0.0000065"],
  [0.00142, "$0.0014"],
  [0.5, "$0.50"],
  [12.345, "$12.35"],
  [2469135.78, "$2,469,136"],
])("%d dollars read %s", (value, text) => expect(money(value)).toBe(text));

test.each([
  [undefined, "–"],
  [0, "0 ms"],
  [0.25, "0.25 ms"],
  [8_000, "8.0 s"],
  [185_000, "3 min 05 s"],
])("%d milliseconds read %s", (value, text) => expect(duration(value)).toBe(text));
