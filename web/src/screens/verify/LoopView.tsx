import { useState } from "react";
import type { CriterionVerdict, LoopTurn, TurnLog, TurnQuestion, TurnVerdict } from "~/api/decisions";
import { ContentView } from "~/content/ContentView";
import { textOf } from "~/content/shapes";
import { DifferenceView } from "~/screens/run/DifferenceView";
import { formatAddress } from "~/state/address";
import { Button, Chip, format, Notice, Tag, type Tone, VisibleText } from "~/ui";
import { Respond } from "./Respond";
import { answerWord, deadlineText, failureText, meaningOf, TURN_STATE, VERDICT } from "./words";

/** A verifier loop turn by turn, and the question that waits for a person. */
export function LoopView({ log }: { log: TurnLog }) {
  const last = log.turns.at(-1);
  const open = last?.state === "waiting" ? last.questions.findLast((question) => question.action === null) : undefined;
  return (
    <div className="verify-loop">
      {open && last && <OpenQuestion key={open.at} run={log.report.runId} question={open} turn={last} />}
      {log.end?.gaveUp && (
        <Notice tone="fail">
          The loop gave up{log.end.reason && log.end.reason !== "gave-up" ? ` (${log.end.reason})` : ""}. Not met: {log.end.criteria.filter((one) => one.met === false).map((one) => one.key).join(", ")}. Nothing
          of it counts as a success.
        </Notice>
      )}
      {log.report.error && (
        <Notice tone="fail">
          <VisibleText text={failureText(log)} />
        </Notice>
      )}
      <section className="card verify-summary" aria-label="Task and result">
        <div>
          <h2>Task</h2>
          <ContentView value={log.task ?? ""} label="Task" />
        </div>
        <div>
          <h2>Committed result</h2>
          {log.report.committed ? <ContentView value={log.result} label="Committed result" /> : <p className="quiet">Nothing was committed{log.report.waiting ? " yet" : ""}.</p>}
        </div>
      </section>
      <ol className="verify-turns" aria-label="Turns">
        {log.turns.map((turn, index) => (
          <Turn key={turn.iteration} turn={turn} before={log.turns[index - 1]} />
        ))}
      </ol>
      {log.total > log.turns.length && <p className="quiet">The first {log.turns.length} of {log.total} turns are shown.</p>}
      {log.end && !log.end.gaveUp && (
        <div className="row wrap quiet">
          The supervisor ended the loop{log.end.reason ? `: ${log.end.reason}` : ""}. <Criteria criteria={log.end.criteria} />
        </div>
      )}
    </div>
  );
}

function OpenQuestion({ run, question, turn }: { run: string; question: TurnQuestion; turn: LoopTurn }) {
  const meaning = meaningOf(question.about);
  const rejecting = turn.verdicts.filter((verdict) => verdict.verdict !== "pass");
  const subject = subjectOf(question);
  return (
    <section className="card verify-question" aria-label="Question">
      <div className="row wrap">
        <h2>{meaning.title}</h2>
        <span className="grow" />
        {question.deadline && <span className="faint">{deadlineText(question.deadline)} left; without an answer: {meaning.rejectLabel.toLowerCase()}</span>}
      </div>
      {subject !== undefined && <ContentView value={subject} label="What you decide about" />}
      {rejecting.map((verdict, index) => (
        <p key={index}>
          <span className="faint">{verdict.agentId} says</span> <VisibleText text={verdict.notes || verdict.error || verdict.verdict} />
        </p>
      ))}
      <Respond
        run={run}
        node={question.nodeId}
        actions={question.actions}
        accept={meaning.accept}
        reject={meaning.reject}
        acceptLabel={meaning.acceptLabel}
        rejectLabel={meaning.rejectLabel}
        question={question.about === "question"}
        editable={question.actions.includes("edit-accept") ? subject : undefined}
      />
    </section>
  );
}

/** What the person decides about: the schema of OpenWOP has another place for each kind. */
function subjectOf(question: TurnQuestion): unknown {
  const data = question.subject;
  if (typeof data !== "object" || data === null) return undefined;
  const found = data as { artifactData?: Record<string, unknown>; decision?: unknown; questions?: { question?: unknown }[] };
  if (found.questions) return found.questions.map((one) => textOf(one.question ?? "")).join("\n");
  if (found.decision !== undefined) return found.decision;
  const values = Object.values(found.artifactData ?? {});
  return values.length === 1 ? values[0] : found.artifactData;
}

function Turn({ turn, before }: { turn: LoopTurn; before: LoopTurn | undefined }) {
  const [tone, word] = TURN_STATE[turn.state];
  const [changes, setChanges] = useState(false);
  const comparable = before?.hasCandidate === true && turn.hasCandidate;
  return (
    <li className="card verify-turn">
      <header className="row wrap">
        <h2>{turn.iteration === 0 ? "Before the first turn" : `Turn ${turn.iteration}`}</h2>
        <Chip tone={tone}>{word}</Chip>
        {turn.limitReached && <Chip tone="fail">Last turn allowed</Chip>}
        <span className="grow" />
        {turn.actorId && <span className="faint">{turn.actorId}</span>}
        {turn.confidence !== null && <span className="faint num">confidence {format.confidence(turn.confidence)}</span>}
        {turn.childRunId && <a href={formatAddress(`/verify/${encodeURIComponent(turn.childRunId)}`)}>child run</a>}
      </header>
      {turn.hasCandidate && (
        <div className="stack">
          <div className="row">
            <h3>Candidate</h3>
            <span className="grow" />
            {comparable && (
              <Button size="small" kind="plain" aria-pressed={changes} onClick={() => setChanges(!changes)}>
                {changes ? "Show the candidate" : `Changes since turn ${before.iteration}`}
              </Button>
            )}
          </div>
          {changes && comparable ? (
            <DifferenceView expected={before.candidate} actual={turn.candidate} names={[`turn ${before.iteration}`, `turn ${turn.iteration}`]} />
          ) : (
            <ContentView value={turn.candidate} label={`Candidate of turn ${turn.iteration}`} />
          )}
        </div>
      )}
      {turn.failures.map((failure, index) => (
        <Notice key={index} tone="fail">
          {failure.role} {failure.agentId} failed: <VisibleText text={failure.why} />
        </Notice>
      ))}
      {turn.verdicts.map((verdict, index) => (
        <Verdict key={index} verdict={verdict} />
      ))}
      {turn.questions.filter((question) => question.action !== null).map((question) => (
        <p key={question.at} className="verify-answer">
          <Chip tone={answerTone(question)}>{answerWord(question.action, question.about)}</Chip>
          <span className="quiet">
            {meaningOf(question.about).title}
            {question.answeredBy ? `; answered by ${question.answeredBy}` : ""}
            {question.answeredAt ? `, ${format.ago(question.answeredAt)}` : ""}
          </span>
        </p>
      ))}
    </li>
  );
}

function answerTone({ action, about }: TurnQuestion): Tone {
  if (action === "accept" && about === "retry") return "mute"; // another turn is no success
  return action === "accept" || action === "edit-accept" || action === "answer" ? "pass" : "fail";
}

function Verdict({ verdict }: { verdict: TurnVerdict }) {
  const [tone, word] = VERDICT[verdict.verdict] ?? ["mute", verdict.verdict];
  return (
    <div className={`verify-verdict ${tone}`}>
      <div className="row wrap">
        <Chip tone={tone}>{word}</Chip>
        <span>{verdict.agentId}</span>
        {verdict.about === "tool" && <Tag>about a tool result</Tag>}
        {verdict.selfVerified && <Chip tone="warn">reviews its own work</Chip>}
        <span className="grow" />
        {verdict.confidence !== null && <span className="faint num">confidence {format.confidence(verdict.confidence)}</span>}
      </div>
      <Criteria criteria={verdict.criteria} />
      {verdict.notes && (
        <p className="verify-notes">
          <VisibleText text={verdict.notes} />
        </p>
      )}
      {verdict.error && (
        <p className="verify-notes">
          The critic gave no verdict. This counts as a fail: <VisibleText text={verdict.error} />
        </p>
      )}
    </div>
  );
}

function Criteria({ criteria }: { criteria: CriterionVerdict[] }) {
  if (criteria.length === 0) return null;
  return (
    <ul className="verify-criteria" aria-label="Criteria">
      {criteria.map((one) => (
        <li key={one.key}>
          <Chip plain tone={one.met === null ? "mute" : one.met ? "pass" : "fail"}>
            {one.key} <span className="faint">{one.met === null ? "not said" : one.met ? "met" : "not met"}</span>
          </Chip>
        </li>
      ))}
    </ul>
  );
}
