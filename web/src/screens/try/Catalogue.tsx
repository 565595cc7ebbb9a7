import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type ArgumentSchema, type CheckDescription, getChecks } from "~/api/evaluate";
import { Button, Drawer, ErrorState, Loading, SearchField } from "~/ui";

/** The checks of this server with their arguments. A check is added to the draft by a button. */
export function Catalogue({ onAdd, onClose }: { onAdd: (snippet: string) => void; onClose: () => void }) {
  const [text, setText] = useState("");
  const checks = useQuery({ queryKey: ["checks"], queryFn: ({ signal }) => getChecks(signal), staleTime: Infinity });
  const words = text.toLowerCase();
  const shown = checks.data?.filter((check) => `${check.type} ${check.description}`.toLowerCase().includes(words)) ?? [];
  return (
    <Drawer title="Checks" onClose={onClose}>
      <div className="stack">
        <SearchField label="Search the checks" value={text} onChange={setText} delay={0} />
        {checks.isPending ? (
          <Loading />
        ) : checks.isError ? (
          <ErrorState error={checks.error} retry={() => void checks.refetch()} />
        ) : (
          <ul className="try-catalogue">
            {shown.map((check) => (
              <li key={`${check.type} ${check.version}`}>
                <div className="row">
                  <h3 className="mono">{check.type}</h3>
                  <span className="grow" />
                  <Button size="small" icon="plus" aria-label={`Add ${check.type}`} onClick={() => onAdd(snippetOf(check))}>
                    Add
                  </Button>
                </div>
                <p className="quiet">{check.description}</p>
                <dl className="try-arguments">
                  {Object.entries(check.arguments.properties ?? {}).map(([name, schema]) => (
                    <div key={name}>
                      <dt className="mono">{name}</dt>
                      <dd>
                        {kindOf(schema)}
                        {check.arguments.required?.includes(name) ? ", required" : schema.default === undefined ? "" : `, default ${JSON.stringify(schema.default)}`}
                        {schema.description && <span className="faint"> · {schema.description}</span>}
                      </dd>
                    </div>
                  ))}
                </dl>
              </li>
            ))}
            {shown.length === 0 && <li className="quiet">No check has this in its name or description.</li>}
          </ul>
        )}
      </div>
    </Drawer>
  );
}

/** The type of an argument in a few words. Each also accepts a path where the server says so. */
export function kindOf(schema: ArgumentSchema): string {
  const kinds = (schema.anyOf ?? [schema]).map((one) =>
    one.pattern?.startsWith("^\\$") ? "path" : one.enum ? one.enum.map((value) => JSON.stringify(value)).join(" | ") : one.type === "array" ? `list${one.items?.type ? ` of ${one.items.type}` : ""}` : (one.type ?? "any value"),
  );
  return [...new Set(kinds)].join(" or ");
}

/** A check as YAML, with its required arguments. */
export function snippetOf(check: CheckDescription): string {
  const lines = [`- type: ${check.type}`, "  arguments:"];
  const required = check.arguments.required ?? [];
  for (const name of required) {
    const schema = check.arguments.properties?.[name] ?? {};
    lines.push(`    ${name}: ${valueFor(name, schema)}`);
  }
  if (required.length === 0) lines[1] = "  arguments: {}";
  return `${lines.join("\n")}\n`;
}

function valueFor(name: string, schema: ArgumentSchema): string {
  if (["text", "actual", "value", "items"].includes(name)) return "$.output.value";
  if (name === "expected") return "$.test_case.expected";
  if (name === "input") return "$.test_case.input";
  const first = (schema.anyOf ?? [schema]).find((one) => !one.pattern?.startsWith("^\\$")) ?? schema;
  if (first.enum) return JSON.stringify(first.enum[0]);
  if (first.type === "array") return '["…"]';
  if (first.type === "object") return "{}";
  if (first.type === "boolean") return "true";
  if (first.type === "number" || first.type === "integer") return "1";
  return name === "path" ? "$.output.value" : '"…"';
}
