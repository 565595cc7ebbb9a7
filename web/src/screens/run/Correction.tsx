import "./correction.css";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { reportSource } from "~/api/client";
import { correctScore, type Annotation, type CaseDetail, type CheckDetail, type CorrectionBody } from "~/api/cases";
import { Button, Field } from "~/ui/controls";
import { Chip, describe, Notice } from "~/ui/display";
import { ago, moment, score as formatScore } from "~/ui/format";

import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";

/** A person's correction of the score of a task or a case. The recorded score stays; the effective one stands beside it. */
export function Correction({ detail }: { detail: CaseDetail }) {
  const { eventId, recorded, effective, annotations, run, row } = detail;
  const noun = run.kind === "evaluation" ? "case" : "task";
  const fixed = run.kind === "evaluation" ? row.status === "error" || row.status === "skipped" : eventId === undefined;
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [note, setNote] = useState("");
  const change = useMutation({
    mutationFn: (correction: CorrectionBody) => correctScore(detail, correction, note.trim()),
    onSuccess: () => {
      setText("");
      setNote("");
      return queries.invalidateQueries({ queryKey: ["run", run.runId] });
    },
  });
  const score = text.trim() === "" ? null : Number(text);
  const invalid = score !== null && !(score >= 0 && score <= 1);
  return (
    <div className="correction">
      <div className="sides">
        <Side title="Recorded" score={recorded?.score ?? null} passed={recorded?.passed ?? null} />
        <Side title="Effective" score={effective?.score ?? recorded?.score ?? null} passed={effective?.passed ?? recorded?.passed ?? null} note={effective ? "corrected" : "as recorded"} />
      </div>
      {reportSource() !== null ? null : fixed ? (
        <p className="quiet">{`A ${noun} without a recorded score cannot be corrected.`}</p>
      ) : (
        <form
          className="correction-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (score !== null && !invalid) change.mutate({ score });
          }}
        >
          <div className="row wrap">
            <Button icon="thumbUp" disabled={change.isPending} onClick={() => change.mutate({ score: 1, passed: true })} title={`This ${noun} should pass: score 1`}>
              Should pass
            </Button>
            <Button icon="thumbDown" disabled={change.isPending} onClick={() => change.mutate({ score: 0, passed: false })} title={`This ${noun} should fail: score 0`}>
              Should fail
            </Button>
            <label className="row">
              Score
              <Field className="score-field" inputMode="decimal" placeholder="0–1" value={text} aria-invalid={invalid} onChange={(event) => setText(event.target.value)} />
            </label>
            <Button type="submit" kind="primary" disabled={score === null || invalid || change.isPending}>
              Set the score
            </Button>
            {effective && (
              <Button kind="plain" disabled={change.isPending} onClick={() => change.mutate({ withdrawn: true })}>
                Restore what was recorded
              </Button>
            )}
          </div>
          <textarea className="field" rows={2} aria-label="Note" placeholder="Why? A note for the next reader." value={note} onChange={(event) => setNote(event.target.value)} />
          {invalid && <p className="reason-failed">A score is a number from 0 to 1.</p>}
          {change.isError && <Notice tone="fail">{describe(change.error).text}</Notice>}
        </form>
      )}
      {annotations.length > 0 && <Annotations annotations={annotations} />}
    </div>
  );
}

/** Correct the verdict of one check of a case of an evaluation; recorded and effective stand side by side. */
export function CheckCorrection({ check, detail }: { check: CheckDetail; detail: CaseDetail }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (correction: CorrectionBody) => correctScore(detail, { check: check.label, ...correction }, ""),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["run", detail.run.runId] }),
  });
  const corrected = detail.effective?.checks?.[check.label];
  if (detail.run.kind !== "evaluation" || check.status !== "completed" || check.column === null) return null;
  const here = reportSource() === null;
  return (
    <span className="row wrap check-correction">
      {corrected !== undefined && (
        <>
          <Chip tone={corrected ? "pass" : "fail"}>{corrected ? "Passed" : "Failed"}</Chip>
          <span className="tag">corrected</span>
        </>
      )}
      {here && corrected === undefined && check.passed !== true && (
        <Button size="small" kind="plain" icon="thumbUp" disabled={change.isPending} aria-label={`${plainText(check.label)} should pass`} title="This check should pass" onClick={() => change.mutate({ passed: true })} />
      )}
      {here && corrected === undefined && check.passed !== false && (
        <Button size="small" kind="plain" icon="thumbDown" disabled={change.isPending} aria-label={`${plainText(check.label)} should fail`} title="This check should fail" onClick={() => change.mutate({ passed: false })} />
      )}
      {here && corrected !== undefined && (
        <Button size="small" kind="plain" disabled={change.isPending} onClick={() => change.mutate({ withdrawn: true })}>
          Restore
        </Button>
      )}
      {change.isError && <Notice tone="fail">{describe(change.error).text}</Notice>}
    </span>
  );
}

function Side({ title, score, passed, note }: { title: string; score: number | null; passed: boolean | null; note?: string }) {
  return (
    <div className="side">
      <span className="stat-label">{title}</span>
      <span className="side-value">
        <span className="num">{score === null ? "not measured" : formatScore(score)}</span>
        {passed !== null && <Chip tone={passed ? "pass" : "fail"}>{passed ? "Passed" : "Failed"}</Chip>}
      </span>
      {note && <span className="faint">{note}</span>}
    </div>
  );
}

function Annotations({ annotations }: { annotations: Annotation[] }) {
  return (
    <ol className="annotations" aria-label="Annotations">
      {[...annotations].reverse().map((one) => (
        <li key={one.annotationId}>
          <span>
            <VisibleText text={signalText(one)} />
          </span>
          <span className="faint" title={moment(one.createdAt)}>
            <VisibleText text={one.actor.principalRef} />, {ago(one.createdAt)}
          </span>
          {one.note && (
            <p className="quiet">
              <VisibleText text={one.note} />
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}

function signalText({ signal }: Annotation): string {
  if (signal.kind === "rating") return `Rated ${signal.rating} of 5`;
  if (signal.kind === "label") return `Label ${signal.label ?? ""}`;
  if (signal.kind === "flag") return "Flagged";
  try {
    const { score, passed, check, withdrawn } = JSON.parse(signal.correction ?? "{}") as CorrectionBody;
    if (withdrawn) return check === undefined ? "Withdrawn: as recorded" : `Withdrawn: ${check} as recorded`;
    const parts = [...(score === undefined ? [] : [`score ${formatScore(score)}`]), ...(passed === undefined ? [] : [passed ? "should pass" : "should fail"])];
    return `Corrected${check === undefined ? "" : ` ${check}`}: ${parts.join(", ")}`;
  } catch {
    return "Corrected";
  }
}
