import { expect, test } from "vitest";

import { caseValue, confidence, duration, money, percent, points, score } from "./format";
import examples from "./number_examples.json";

// tests/stats/test_number_text.py reads the same table
test.each(examples.money as [number, string][])("%d dollars read %s", (value, text) => expect(money(value)).toBe(text));
test.each(examples.score as [number, string][])("a score of %d reads %s", (value, text) => expect(score(value)).toBe(text));
test.each(examples.case_value as [number, string][])("a value of %d reads %s", (value, text) => expect(caseValue(value)).toBe(text));
test.each(examples.confidence as [number, string][])("a confidence of %d reads %s", (value, text) => expect(confidence(value)).toBe(text));
test.each(examples.percent as [number, string][])("a share of %d reads %s", (value, text) => expect(percent(value)).toBe(text));
test.each(examples.points as [number, string][])("a difference of shares of %d reads %s", (value, text) => expect(points(value)).toBe(text));
test("a number that is missing is a dash", () => expect([money(null), score(undefined), caseValue(null)]).toEqual(["–", "–", "–"]));

test.each([
  [undefined, "–"],
  [0, "0 ms"],
  [0.25, "0.25 ms"],
  [2.5, "2 ms"],
  [999.7, "1.0 s"],
  [8_000, "8.0 s"],
  [185_000, "3 min 05 s"],
])("%d milliseconds read %s", (value, text) => expect(duration(value)).toBe(text));
