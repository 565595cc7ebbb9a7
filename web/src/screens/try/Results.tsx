import type { CheckResult } from "~/api/evaluate";
import { ContentView } from "~/content/ContentView";
import { Chip, Empty, type Tone, VisibleText } from "~/ui";

/** What the checks said about the draft. */
export function Results({ checks }: { checks: CheckResult[] }) {
  const passed = checks.filter((check) => check.results["passed"] === true).length;
  if (checks.length === 0) return <Empty title="No check" icon="plus" />;
  return (
    <>
      <p className="quiet" role="status">
        {passed} of {checks.length} passed
      </p>
      <ol className="try-checks">
        {checks.map((check, index) => (
          <OneResult key={index} check={check} />
        ))}
      </ol>
    </>
  );
}

function OneResult({ check }: { check: CheckResult }) {
  const verdict = check.results["passed"];
  const [tone, word]: [Tone, string] =
    check.status !== "completed" ? ["warn", "not measured"] : verdict === true ? ["pass", "passed"] : verdict === false ? ["fail", "failed"] : ["mute", "no verdict"];
  const rest = Object.entries(check.results).filter(([name]) => name !== "passed");
  return (
    <li className={`try-check ${tone}`}>
      <div className="row">
        <Chip tone={tone}>{word}</Chip>
        <h3 className="mono">{check.metadata?.check_name ?? check.check_type}</h3>
      </div>
      {check.error && (
        <p>
          <VisibleText text={`${check.error.type}: ${check.error.message}`} />
        </p>
      )}
      <dl className="try-arguments">
        {rest.map(([name, value]) => (
          <Value key={name} name={name} value={value} />
        ))}
        {Object.entries(check.resolved_arguments ?? {}).map(([name, argument]) => (
          <Value key={`argument ${name}`} name={name} value={argument.value} path={argument.jsonpath} />
        ))}
      </dl>
    </li>
  );
}

function Value({ name, value, path }: { name: string; value: unknown; path?: string }) {
  return (
    <div>
      <dt className="mono">
        {name}
        {path && <span className="faint"> {path}</span>}
      </dt>
      <dd>
        <ContentView value={value} label={name} />
      </dd>
    </div>
  );
}
