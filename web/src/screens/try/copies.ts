/** A request as a file, a command and a program that a person can run. Tests run each of them. */
import { stringify } from "yaml";
import type { EvaluationRequest } from "~/api/evaluate";

export function toYaml(request: EvaluationRequest): string {
  return `# assay evaluate request.yaml\n${stringify(request, { lineWidth: 0 })}`;
}

/** The key is never in the text: the shell reads it from a variable. */
export function toCurl(request: EvaluationRequest, url: string): string {
  const body = JSON.stringify(request, null, 2); // a newline in a text is \n there, so no line of it ends the document
  return [
    `curl -sS '${url.replaceAll("'", "%27")}' \\`,
    `  -H "X-API-Key: $ASSAY_API_KEY" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  --data-binary @- <<'JSON'`,
    body,
    "JSON",
    "",
  ].join("\n");
}

export function toPython(request: EvaluationRequest): string {
  return [
    "import assay",
    "",
    "result = assay.evaluate_sync(",
    `    test_cases=${literal(request.test_cases, 1)},`,
    `    outputs=${literal(request.outputs, 1)},`,
    `    checks=${literal(request.checks, 1)},`,
    ")",
    "for check in result.results[0].check_results:",
    "    print(check.check_type, check.status, check.results)",
    "",
  ].join("\n");
}

/** A JSON value as a Python literal. The escapes of a JSON string mean the same in Python. */
export function literal(value: unknown, depth: number): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "None";
  if (typeof value === "string") return JSON.stringify(value);
  const inner = "    ".repeat(depth + 1);
  const outer = "    ".repeat(depth);
  const list = Array.isArray(value);
  const items = list ? value.map((one) => literal(one, depth + 1)) : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${literal(one, depth + 1)}`);
  const [open, close] = list ? ["[", "]"] : ["{", "}"];
  const flat = `${open}${items.join(", ")}${close}`;
  if (flat.length <= 88 && !flat.includes("\n")) return flat;
  return `${open}\n${items.map((item) => `${inner}${item},\n`).join("")}${outer}${close}`;
}
