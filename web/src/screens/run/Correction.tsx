import "./correction.css";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { reportSource } from "~/api/client";
import { correctScore, type Annotation, type CaseDetail } from "~/api/cases";
import { Button, Field } from "~/ui/controls";
import { Chip, describe, Notice } from "~/ui/display";
import { ago, moment, score as formatScore } from "~/ui/format";

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
    mutationFn: (correction: { score?: number; passed?: boolean }) => correctScore(detail, correction, note.trim()),
    onSuccess: () => {
      setText("");
      setNote("");
      return queries.invalidateQueries({ queryKey: ["run", run.runId] });
    },
  });
  const score = text.trim() === "" ? null : Number(text);
  const invalid = score !== null && !(score >= 0 && score <= 1);
  const undo = effective !== undefined && recorded?.score != null ? { score: recorded.score, passed: recorded.passed ?? false } : null;
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
            {undo && (
              <Button kind="plain" disabled={change.isPending} onClick={() => change.mutate(undo)}>
                Restore the recorded score
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
          <span>{signalText(one)}</span>
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
    const { score, passed } = JSON.parse(signal.correction ?? "{}") as { score?: number; passed?: boolean };
    const parts = [...(score === undefined ? [] : [`score ${formatScore(score)}`]), ...(passed === undefined ? [] : [passed ? "should pass" : "should fail"])];
    return `Corrected: ${parts.join(", ")}`;
  } catch {
    return "Corrected";
  }
}
