import { useMemo } from "react";

import { type CaseDetail, type SliceName, type TrialDetail } from "~/api/cases";
import { reportSource } from "~/api/client";
import { useParam } from "~/state/address";
import { Button, CopyButton, Segments } from "~/ui/controls";
import { Chip, NotMeasured, Stat, Tag } from "~/ui/display";
import { duration, money, score as formatScore } from "~/ui/format";

import { CaseChecks } from "./CaseChecks";
import { ContentMode, ContentView } from "~/content/ContentView";
import { textOf } from "~/content/shapes";
import { Correction } from "./Correction";
import { DifferenceView } from "./DifferenceView";
import { Item } from "./Item";
import { Timeline } from "./Timeline";
import { REASON } from "./view";
import { StatusOf } from "./Matrix";
import { firstFailing, trialMark, trialNumber } from "./words";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";

const MAX_OUTPUT = 200_000; // characters in which the place of a finding is shown

type OnWhere = (slice: SliceName) => void; // only cases like this one

export function CaseView({ detail, onWhere }: { detail: CaseDetail; onWhere: OnWhere }) {
  const [chosen, setChosen] = useParam("trial");
  const trial = detail.trials.find((one) => trialNumber(one) === chosen) ?? firstFailing(detail.trials);
  const tags = useMemo(() => tagsOf(detail.tags), [detail.tags]);
  return (
    <div className="case">
      <div className="case-head">
        <StatusOf row={effectiveRow(detail)} />
        {detail.trials.length > 1 && <span className="quiet num">{`${detail.row.trials.passed} of ${detail.row.trials.total} trials passed`}</span>}
        {tags.map((tag) => (
          <Tag key={tag}>
            <VisibleText text={tag} />
          </Tag>
        ))}
        <span className="grow" />
        <ContentMode />
      </div>
      <dl className="case-numbers">
        <Stat label={detail.effective ? "Recorded score" : "Score"}>{detail.row.score === null ? <NotMeasured /> : formatScore(detail.row.score)}</Stat>
        {detail.effective && <Stat label="Effective score">{formatScore(detail.effective.score)}</Stat>}
        <Stat label="Cost">{money(detail.row.costUsd)}</Stat>
        <Stat label="Latency">{duration(detail.row.latencyMs)}</Stat>
      </dl>
      {detail.metadata && <Metadata metadata={detail.metadata} onWhere={onWhere} />}
      {detail.trials.length > 1 && (
        <Segments
          label="Trial"
          value={trial ? trialNumber(trial) : ""}
          options={detail.trials.map((one) => [trialNumber(one), `Trial ${trialNumber(one)}${trialMark(one)}`] as const)}
          onChange={(value) => setChosen(value)}
        />
      )}
      {trial ? <TrialView detail={detail} trial={trial} onWhere={onWhere} /> : <p className="quiet">This case has no result.</p>}
      {(reportSource() === null || detail.annotations.length > 0) && (
        <Item name="correction" title={reportSource() === null ? "Correct the score" : "Corrections"}>
          <Correction detail={detail} />
        </Item>
      )}
    </div>
  );
}

/** The row of the open case with what the corrections of people make of it. */
function effectiveRow({ row, effective }: CaseDetail): CaseDetail["row"] {
  return effective === undefined ? row : { ...row, effective: { status: effective.passed ? "passed" : "failed", score: effective.score } };
}

function TrialView({ detail, trial, onWhere }: { detail: CaseDetail; trial: TrialDetail; onWhere: OnWhere }) {
  const reasons = useMemo(() => reasonsOf(trial), [trial]);
  const rubric = isRubric(detail.expected);
  const contained = typeof detail.expected === "string" && typeof trial.output === "string" && trial.output.includes(detail.expected);
  const differs = reasons.length > 0 && !contained && isComparable(detail.expected, trial.output);
  return (
    <>
      <Item name="output" title="Output" actions={<CopyButton text={() => textOf(trial.output)} label="Copy the output" />}>
        {reasons.length > 0 && (
          <ul className={`reasons ${trial.status === "completed" ? "" : "reasons-error"}`} aria-label="Why it did not pass">
            {reasons.map((reason, at) => (
              <li key={at}>
                <VisibleText text={reason} />
              </li>
            ))}
          </ul>
        )}
        {reportSource() === null && <MoreLikeThis groups={trial.groups ?? []} onWhere={onWhere} />}
        {trial.output === null && trial.status !== "skip" && (trial.error !== undefined || reasons.length > 0) ? <p className="quiet">No output.</p> : <ContentView value={trial.output} label="Output" />}
        <TrialNumbers trial={trial} alone={detail.trials.length === 1} />
      </Item>
      {detail.expected !== undefined && !rubric && (
        <Item name="expected" title={differs ? "Expected, and the difference" : "Expected"} actions={<CopyButton text={() => textOf(detail.expected)} label="Copy the expected value" />}>
          {differs ? (
            <DifferenceView expected={detail.expected} actual={trial.output} />
          ) : (
            <>
              <ContentView value={detail.expected} label="Expected" />
              {contained && reasons.length > 0 && <p className="quiet">The output {detail.expected === trial.output ? "equals" : "contains"} it.</p>}
            </>
          )}
        </Item>
      )}
      <Item name="input" title="Input" actions={<CopyButton text={() => textOf(detail.input)} label="Copy the input" />}>
        <ContentView value={detail.input} label="Input" />
      </Item>
      {detail.memory && (
        <Item name="memory" title="Memory before the task">
          <ul className="memory">
            {detail.memory.map((entry) => (
              <li key={entry.id}>
                <code className="faint">
                  <VisibleText text={entry.id} />
                </code>
                <ContentView value={entry.content} label={`Memory ${entry.id}`} />
              </li>
            ))}
          </ul>
        </Item>
      )}
      <Item name="checks" title="Checks">
        <CaseChecks trial={trial} detail={detail} />
      </Item>
      {trial.findings && <Findings findings={trial.findings} output={trial.output} />}
      {trial.trajectory && trial.trajectory.length > 0 && (
        <Item name="trajectory" title="Trajectory">
          <Timeline steps={trial.trajectory} live={trial.live ?? false} />
        </Item>
      )}
    </>
  );
}

/** For each group of failures that the trial is in, a button that shows its cases. */
function MoreLikeThis({ groups, onWhere }: { groups: string[]; onWhere: OnWhere }) {
  return groups.length === 0 ? null : (
    <div className="row wrap">
      {groups.slice(0, MAX_MEMBERS).map((name) => (
        <Button key={name} size="small" className="more-like" title={plainText(name)} onClick={() => onWhere({ by: REASON, name })}>
          {groups.length === 1 ? "More like this" : <span className="truncate">More like: <VisibleText text={name} /></span>}
        </Button>
      ))}
    </div>
  );
}

/** The numbers of one trial, below its output. Those of the only trial are those of the case. */
function TrialNumbers({ trial, alone }: { trial: TrialDetail; alone: boolean }) {
  const outcome = trial.outcome && trial.outcome !== "completed" ? `the agent ${trial.outcome}` : "";
  const parts = alone ? [outcome].filter(Boolean) : [
    outcome,
    trial.score === null ? "" : `score ${formatScore(trial.score)}`,
    trial.latencyMs === null ? "" : duration(trial.latencyMs),
    trial.costUsd === null ? "" : money(trial.costUsd),
  ].filter(Boolean);
  return parts.length === 0 ? null : <p className="faint num">{parts.join(" · ")}</p>;
}

function Findings({ findings, output }: { findings: NonNullable<TrialDetail["findings"]>; output: unknown }) {
  return (
    <Item name="findings" title={`Findings (${findings.length})`}>
      {findings.length === 0 && <p className="quiet">The detectors found nothing.</p>}
      <ul className="findings">
        {findings.map((one, at) => (
          <li key={at}>
            <Chip tone={one.severity === "low" || one.severity === "medium" ? "warn" : "fail"}>{one.severity}</Chip>
            <strong>
              <VisibleText text={one.kind} />
            </strong>
            {one.detector && (
              <code className="faint">
                <VisibleText text={one.detector} />
              </code>
            )}
            <FindingPlace detail={one.detail} kind={one.kind} output={output} />
          </li>
        ))}
      </ul>
    </Item>
  );
}

const AROUND = 60; // characters beside a finding

/** The words of the output that a detector found; else what it says about the place. */
function FindingPlace({ detail, kind, output }: { detail: unknown; kind: string; output: unknown }) {
  if (detail === undefined) return null;
  const { where, start, end, rule } = detail as { where?: unknown; start?: unknown; end?: unknown; rule?: unknown };
  const found = where === "$.output.value" && typeof output === "string" && typeof start === "number" && typeof end === "number" && output.length < MAX_OUTPUT;
  if (!found) return <ContentView value={detail} label={`Finding ${kind}`} />;
  const letters = Array.from(output); // a place counts characters, not UTF-16 units
  const text = (from: number, to: number) => letters.slice(Math.max(0, from), to).join("");
  return (
    <>
      {typeof rule === "string" && <Tag>{`rule ${rule}`}</Tag>}
      <div className="content">
        <p className="content-text" dir="auto">
          {start > AROUND && "…"}
          <VisibleText text={text(start - AROUND, start)} />
          <mark>
            <VisibleText text={text(start, end)} />
          </mark>
          <VisibleText text={text(end, end + AROUND)} />
          {end + AROUND < letters.length && "…"}
        </p>
      </div>
    </>
  );
}

/** The metadata of a case. A click on a value shows the cases with the same one. */
function Metadata({ metadata, onWhere }: { metadata: Record<string, unknown>; onWhere: OnWhere }) {
  const entries = Object.entries(metadata).slice(0, MAX_MEMBERS);
  return (
    <div className="case-metadata" aria-label="Metadata" role="group">
      {entries.map(([name, value]) => {
        const text = textOf(value).slice(0, 80);
        const plain = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
        const inner = (
          <>
            <span className="faint">
              <VisibleText text={name} />
            </span>{" "}
            <VisibleText text={text} />
          </>
        );
        return plain && reportSource() === null ? (
          <button key={name} type="button" className="tag" title="Only cases with this value" onClick={() => onWhere({ by: name, name: text })}>
            {inner}
          </button>
        ) : (
          <Tag key={name}>{inner}</Tag>
        );
      })}
    </div>
  );
}

const MAX_MEMBERS = 20;

/** Why a trial did not pass: the agent's error, the checks that did not pass, the criteria that are not met. */
export function reasonsOf(trial: TrialDetail): string[] {
  const unmet = trial.criteria?.filter((one) => !one.met).map((one) => `not met: ${one.criterion} (${one.reason})`) ?? [];
  const checks = trial.checks
    .filter((check) => (check.status !== "completed" || check.passed === false) && !(trial.error && isAboutOutcome(check)))
    .map((check) => `${check.title}: ${check.reason}`);
  const own = [...checks, ...unmet];
  const error = trial.error && !own.some((reason) => reason.includes(trial.error ?? "")) ? [trial.error] : [];
  const found = trial.findings?.filter((one) => one.severity === "high" || one.severity === "critical").map(findingText) ?? [];
  return [...error, ...own, ...new Set(found)];
}

/** `prompt-injection (high): rule canary`, as the table of cases says it. */
function findingText({ kind, severity, detail }: NonNullable<TrialDetail["findings"]>[number]): string {
  const rule = (detail as { rule?: unknown } | null | undefined)?.rule;
  return `${kind} (${severity})${typeof rule === "string" && rule ? `: rule ${rule}` : ""}`;
}

/** The check that the agent completed its work. The error of the agent says more. */
function isAboutOutcome({ result }: TrialDetail["checks"][number]): boolean {
  const resolved = (result as { resolved_arguments?: { actual?: { jsonpath?: unknown } } } | null)?.resolved_arguments;
  return resolved?.actual?.jsonpath === "$.output.metadata.outcome";
}

function isRubric(expected: unknown): boolean {
  return Array.isArray(expected) && expected.length > 0 && typeof expected[0] === "object" && expected[0] !== null && "criterion" in expected[0];
}

/** Two texts, two lists, or two objects with a member in common: then their difference says more than both. */
function isComparable(expected: unknown, actual: unknown): boolean {
  if (expected === undefined || actual === undefined || expected === null || actual === null) return false;
  if (typeof expected !== "object" || typeof actual !== "object") return typeof expected === "string" && typeof actual === "string";
  return Array.isArray(expected) === Array.isArray(actual) && (Array.isArray(expected) || Object.keys(expected).some((name) => name in actual));
}

function tagsOf(tags: unknown): string[] {
  return (Array.isArray(tags) ? tags : [tags]).filter((tag): tag is string => typeof tag === "string").slice(0, 12);
}
