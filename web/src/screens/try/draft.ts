/** The texts of the screen "Try it", what they mean as a request, and which line a problem is about. Pure. */
import { LineCounter, parseDocument, type Document } from "yaml";
import type { EvaluationRequest } from "~/api/evaluate";

export type Part = "case" | "output" | "checks";

export interface Draft {
  case: string;
  output: string;
  checks: string;
  json: boolean; // the output is a JSON or YAML value, not a text
}

export const EXAMPLE: Draft = {
  case: "input: Can I still send order 17 back?\nexpected: 30 days\n",
  output: "Order 17 was delivered nine days ago. Returns are free within 30 days.",
  checks: `- type: contains
  arguments:
    text: $.output.value
    phrases: [30 days]
- type: regex
  arguments:
    text: $.output.value
    pattern: order \\d+
    flags:
      case_insensitive: true
`,
  json: false,
};

export interface LineProblem {
  part: Part;
  line: number; // from 1; 0: of the whole text
  message: string;
}

interface Parsed {
  value: unknown;
  problems: LineProblem[];
  lineOf: (path: (string | number)[]) => number;
}

/** The value of a YAML or JSON text. A problem has its line. */
export function parsePart(part: Part, text: string): Parsed {
  const lines = new LineCounter();
  let document: Document;
  try {
    document = parseDocument(text, { lineCounter: lines, prettyErrors: false, schema: "core" });
  } catch (error) {
    return { value: undefined, problems: [{ part, line: 0, message: messageOf(error) }], lineOf: () => 0 };
  }
  const problems = document.errors.map((error) => ({ part, line: lines.linePos(error.pos[0]).line, message: error.message }));
  let value: unknown;
  if (problems.length === 0) {
    try {
      value = document.toJS({ maxAliasCount: 50 });
    } catch (error) {
      problems.push({ part, line: 0, message: messageOf(error) });
    }
  }
  return { value, problems, lineOf: (path) => lineOfPath(document, lines, path) };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The line of the node at a path, or of the nearest one above it that exists. */
function lineOfPath(document: Document, lines: LineCounter, path: (string | number)[]): number {
  for (let length = path.length; length >= 0; length--) {
    const node = document.getIn(path.slice(0, length), true) as { range?: [number, number, number] } | undefined;
    if (node?.range) return lines.linePos(node.range[0]).line;
  }
  return 1;
}

export interface Built {
  request: EvaluationRequest | null;
  problems: LineProblem[];
  parsed: Record<Part, Parsed>;
}

/** The request of a draft, or the problems that prevent one. */
export function buildRequest(draft: Draft): Built {
  const parsed = {
    case: parsePart("case", draft.case),
    output: draft.json ? parsePart("output", draft.output) : { value: draft.output, problems: [], lineOf: () => 0 },
    checks: parsePart("checks", draft.checks),
  };
  const problems = [...parsed.case.problems, ...parsed.output.problems, ...parsed.checks.problems];
  const given = parsed.case.value;
  const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
  if (problems.length === 0 && !isObject(given)) problems.push({ part: "case", line: 1, message: "expected members such as input and expected" });
  if (problems.length === 0 && !Array.isArray(parsed.checks.value)) problems.push({ part: "checks", line: 1, message: "expected a list: begin each check with “- type:”" });
  if (problems.length > 0 || !isObject(given)) return { request: null, problems, parsed };
  const test = { id: "case-1", ...given };
  const request = { test_cases: [test], outputs: [{ value: parsed.output.value ?? null }], checks: parsed.checks.value as unknown[] };
  return { request, problems, parsed };
}

const PLACE: Record<string, Part> = { test_cases: "case", outputs: "output", checks: "checks" };

/** A problem of the server, at the line of its place: `checks[0].arguments.text`. */
export function locate(place: string, message: string, built: Built): LineProblem {
  const path = [...place.matchAll(/([^.[\]]+)|\[(\d+)\]/g)].map((found) => (found[2] === undefined ? (found[1] ?? "") : Number(found[2])));
  const part = PLACE[String(path[0])];
  if (part === undefined) return { part: "checks", line: 0, message: place ? `${place}: ${message}` : message };
  const inside = part === "checks" ? path.slice(1) : path.slice(2); // a draft has one case and one output
  return { part, line: built.parsed[part].lineOf(part === "output" ? inside.slice(1) : inside), message: inside.length > 0 ? `${inside.slice(part === "checks" ? 1 : 0).join(".") || "check"}: ${message}` : message };
}
