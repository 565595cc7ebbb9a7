import { parse } from "yaml";
import { describe, expect, test } from "vitest";
import { literal, toCurl, toPython, toYaml } from "./copies";
import { buildRequest, EXAMPLE, locate } from "./draft";

describe("a draft", () => {
  test("is a request", () => {
    const { request, problems } = buildRequest(EXAMPLE);
    expect(problems).toEqual([]);
    expect(request?.test_cases[0]).toEqual({ id: "case-1", input: "Can I still send order 17 back?", expected: "30 days" });
    expect(request?.outputs).toEqual([{ value: EXAMPLE.output }]);
  });

  test.each([
    ["case", { case: "input: [" }, 1],
    ["case", { case: "just a text" }, 1],
    ["checks", { checks: "type: contains" }, 1],
    ["checks", { checks: "- type: a\n- {b" }, 2],
    ["output", { json: true, output: "a: 1\nb: [2" }, 2],
  ])("with a problem in %s says its line", (part, change, line) => {
    const { request, problems } = buildRequest({ ...EXAMPLE, ...change });
    expect(request).toBeNull();
    expect(problems[0]).toMatchObject({ part });
    expect(problems[0]?.line).toBeGreaterThanOrEqual(line);
  });

  test.each([
    ["checks[1].arguments.pattern", 8],
    ["checks[0].type", 1],
    ["checks[1].arguments.nothing", 7],
    ["test_cases[0].expected", 2],
  ])("finds the line of %s", (place, line) => {
    expect(locate(place, "is wrong", buildRequest(EXAMPLE)).line).toBe(line);
  });

  test("that expands without end is refused", () => {
    const bomb = ["a: &a [x, x]", ...Array.from({ length: 12 }, (_, at) => `k${at}: &k${at} [${Array(9).fill(at ? `*k${at - 1}` : "*a").join(", ")}]`)].join("\n");
    expect(buildRequest({ ...EXAMPLE, case: bomb }).problems[0]?.message).toContain("alias");
  });
});

describe("a copy", () => {
  const hostile = "it's \"x\"\nJSON\n$HOME `id` \\d \u2028 😀";
  const request = { test_cases: [{ id: "a", input: hostile }], outputs: [{ value: null }], checks: [{ flag: true, list: [1, 2.5, "x".repeat(90)] }] };

  test("as YAML is the same request", () => {
    expect(parse(toYaml(request))).toEqual(request);
  });

  test("as curl has no line that ends its document early", () => {
    const lines = toCurl(request, "http://h/v1/evaluate").split("\n");
    expect(lines.filter((line) => line === "JSON")).toHaveLength(1);
    expect(JSON.parse(lines.slice(4, -2).join("\n"))).toEqual(request);
  });

  test("as Python has literals of Python", () => {
    expect(literal({ a: [true, false, null, 1.5] }, 0)).toBe('{"a": [True, False, None, 1.5]}');
    expect(toPython(request)).toContain('"value": None');
  });
});
