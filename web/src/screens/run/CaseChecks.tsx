import type { CaseDetail, CheckDetail, TrialDetail } from "~/api/cases";
import { Chip } from "~/ui/display";

import { ContentView } from "~/content/ContentView";
import { CheckCorrection } from "./Correction";
import { ItemLink } from "./Item";
import { UsageText } from "./Timeline";
import { VisibleText } from "~/ui/VisibleText";
import type { Tone } from "./words";

type Criterion = NonNullable<TrialDetail["criteria"]>[number];

/** Every check of a trial: its verdict and reason, its arguments, its full result; a rubric by criterion, with the judge's reasons. */
export function CaseChecks({ trial, detail }: { trial: TrialDetail; detail: CaseDetail }) {
  return (
    <ul className="checks">
      {trial.checks.map((check, at) => (
        <CheckView key={at} check={check} name={`check-${at}`} criteria={check.checkType === "llm_judge" ? trial.criteria : undefined} detail={detail} />
      ))}
      {trial.beside?.map((check, at) => (
        <CheckView key={`beside-${at}`} check={check} name={`beside-${at}`} beside />
      ))}
      {trial.judge?.map((usage, at) => (
        <li key={`judge-${at}`} className="quiet">
          Judge: <UsageText usage={usage} />
        </li>
      ))}
    </ul>
  );
}

function CheckView({ check, name, criteria, detail, beside = false }: { check: CheckDetail; name: string; criteria?: Criterion[]; detail?: CaseDetail; beside?: boolean }) {
  const [tone, word] = criteria && criteria.length > 0 && check.status === "completed" && check.passed === null ? rubricOutcome(criteria) : outcome(check);
  const result = objectOf(check.result);
  const resolved = objectOf(result["resolved_arguments"]);
  return (
    <li className="check" data-item={name}>
      <div className="check-line">
        <Chip tone={tone}>{word}</Chip>
        <strong>
          <VisibleText text={check.title} />
        </strong>
        {beside && <span className="quiet">does not count</span>}
        {detail && <CheckCorrection check={check} detail={detail} />}
        <ItemLink name={name} />
      </div>
      {criteria && criteria.length > 0 ? (
        <Criteria criteria={criteria} />
      ) : (
        <p className={tone === "fail" ? "check-reason reason-failed" : tone === "warn" ? "check-reason reason-error" : "check-reason"}>
          <VisibleText text={check.reason} />
        </p>
      )}
      <details className="check-details">
        <summary>Arguments and full result</summary>
        {Object.keys(resolved).length > 0 ? (
          <dl className="arguments">
            {Object.entries(resolved).map(([argument, value]) => (
              <ArgumentView key={argument} name={argument} value={objectOf(value)} />
            ))}
          </dl>
        ) : (
          <p className="quiet">The arguments are not stored.</p>
        )}
        <h4>Result</h4>
        <ContentView value={withoutArguments(result)} label={`Full result of ${check.label}`} />
      </details>
    </li>
  );
}

function ArgumentView({ name, value }: { name: string; value: Record<string, unknown> }) {
  const path = value["jsonpath"];
  return (
    <>
      <dt>
        <code>
          <VisibleText text={name} />
        </code>
        {typeof path === "string" && (
          <code className="faint">
            <VisibleText text={path} />
          </code>
        )}
      </dt>
      <dd>
        <ContentView value={value["value"]} label={`Argument ${name}`} exact={name === "prompt"} />
      </dd>
    </>
  );
}

function Criteria({ criteria }: { criteria: Criterion[] }) {
  return (
    <ul className="criteria">
      {criteria.map((one, at) => (
        <li key={at}>
          <Chip tone={one.met ? "pass" : "fail"}>{one.met ? "Met" : "Not met"}</Chip>
          <div>
            <p>
              <VisibleText text={one.criterion} /> <span className="faint num">weight {one.weight}</span>
            </p>
            <p className="quiet">
              <VisibleText text={one.reason} />
            </p>
          </div>
        </li>
      ))}
    </ul>
  );
}

function outcome(check: CheckDetail): [Tone, string] {
  if (check.status === "skip") return ["mute", "Not run"];
  if (check.status === "error") return ["warn", "Error"];
  return check.passed === null ? ["mute", "No verdict"] : check.passed ? ["pass", "Passed"] : ["fail", "Failed"];
}

function rubricOutcome(criteria: Criterion[]): [Tone, string] {
  const met = criteria.filter((one) => one.met).length;
  return [met === criteria.length ? "pass" : "fail", `${met} of ${criteria.length} criteria met`];
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function withoutArguments(result: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(result).filter(([name]) => name !== "resolved_arguments"));
}
