import "~/screens/run/case.css";
import "./review.css";

import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import type { ScreenProps } from "~/app/routes";
import { getCase, type CaseDetail } from "~/api/cases";
import { drawSample, getReview, type Review, type ReviewCase } from "~/api/review";
import { ContentMode, ContentView } from "~/content/ContentView";
import { formatAddress, useParam } from "~/state/address";
import { useKeys } from "~/state/keyboard";
import { Button, Chip, describe, Empty, ErrorState, Field, format, Loading, Notice, Progress, Select, VisibleText } from "~/ui";
import { plainText } from "~/ui/visible";

import { Numbers } from "./Numbers";
import { useAnswers } from "./answers";
import { answerWord, nextOpen, placeOf } from "./words";

const AHEAD = 3; // cases that are loaded before they are shown

/** People check a judge: one drawn case a screen, their verdict by a key, and what all of them say about the judge. */
export default function ReviewScreen({ params }: ScreenProps) {
  const run = params["id"] ?? "";
  const [check, setCheck] = useParam("check");
  const review = useQuery({
    queryKey: ["run", run, "review", check],
    queryFn: ({ signal }) => getReview(run, check, signal),
    placeholderData: keepPreviousData,
    retry: false,
  });
  useEffect(() => {
    document.title = "Review · assay";
  }, []);
  if (review.isPending)
    return (
      <div className="screen">
        <Loading label="Loading the review" lines={6} />
      </div>
    );
  if (review.isError) return <ErrorState error={review.error} retry={() => void review.refetch()} />;
  const { judge, judges, why } = review.data;
  return (
    <div className="screen review">
      <header className="screen-head">
        <div>
          <a href={formatAddress(`/runs/${encodeURIComponent(run)}`)}>The run</a>
          <h1>
            Review{judge && <>: <VisibleText text={judge} /></>}
          </h1>
        </div>
        <span className="grow" />
        {judges.length > 1 && <Select label="Judge" value={judge} options={judges.map((name) => [name, plainText(name.slice(0, 60))] as const)} onChange={(name) => setCheck(name)} />}
        <ContentMode />
      </header>
      {why ? (
        <Empty title="There is nothing to review" icon="help">
          <p>
            <VisibleText text={why} />
          </p>
        </Empty>
      ) : review.data.sample === null ? (
        <Draw run={run} review={review.data} />
      ) : (
        <Reviewing key={judge} run={run} review={review.data} />
      )}
    </div>
  );
}

function Draw({ run, review, more = false }: { run: string; review: Review; more?: boolean }) {
  const queries = useQueryClient();
  const drawn = review.sample?.drawn ?? 0;
  const [count, setCount] = useState(String(Math.min(review.judged, more ? drawn + 10 : 30)));
  const [seed, setSeed] = useState(String(review.sample?.seed ?? 0));
  const draw = useMutation({
    mutationFn: () => drawSample(run, { count: Number(count), seed: Number(seed), check: review.judge }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["run", run, "review"] }),
  });
  const valid = /^\d{1,4}$/.test(count) && Number(count) > drawn && Number(count) <= review.judged && /^\d{1,15}$/.test(seed);
  return (
    <form
      className="card review-draw"
      onSubmit={(event) => {
        event.preventDefault();
        if (valid) draw.mutate();
      }}
    >
      {!more && (
        <p>
          {`The judge answered for ${format.plural(review.judged, review.noun)}. Draw some of them at random: your answers then correct its pass rate. Until you have answered, the page does not show what the judge said.`}
        </p>
      )}
      <div className="row wrap">
        <label className="row">
          {more ? "Draw in all" : "Draw"}
          <Field className="score-field" inputMode="numeric" value={count} onChange={(event) => setCount(event.target.value)} />
        </label>
        {!more && (
          <label className="row">
            Seed
            <Field className="score-field" inputMode="numeric" value={seed} onChange={(event) => setSeed(event.target.value)} />
          </label>
        )}
        <Button type="submit" kind={more ? "normal" : "primary"} disabled={!valid || draw.isPending}>
          {more ? "Draw more" : "Draw"}
        </Button>
      </div>
      {!valid && <p className="quiet">{`Expected a number from ${drawn + 1} to ${review.judged}, and a whole seed.`}</p>}
      {draw.isError && <Notice tone="fail">{describe(draw.error).text}</Notice>}
    </form>
  );
}

function Reviewing({ run, review }: { run: string; review: Review }) {
  const queries = useQueryClient();
  const line = useAnswers(run, review.judge);
  const cases = line.over(review.cases);
  const [place, setPlace] = useParam("at");
  const at = placeOf(place, cases);
  const go = (next: number) => setPlace(String(Math.max(0, Math.min(cases.length - 1, next)) + 1));
  const answer = (one: ReviewCase, passed: boolean, note: string) => {
    line.give({ one, passed, note });
    const next = nextOpen(line.over(review.cases), at);
    if (next !== null) go(next);
  };
  useEffect(() => {
    for (const { position } of cases.slice(at + 1, at + 1 + AHEAD)) {
      if (position !== null) void queries.prefetchQuery({ queryKey: ["run", run, "case", position], queryFn: ({ signal }) => getCase(run, position, signal), staleTime: Infinity });
    }
  }, [queries, run, at, cases.length]);
  const answered = cases.filter((one) => one.mine !== undefined).length;
  const one = cases[at];
  return (
    <div className="review-columns">
      <div className="review-main">
        <div className="row wrap">
          <span className="num">{`${review.noun === "task" ? "Task" : "Case"} ${at + 1} of ${cases.length}`}</span>
          <Progress done={answered} total={cases.length} label={`${answered} of ${cases.length} answered`} />
          <span className="grow" />
          <Button kind="plain" icon="up" aria-label="Previous case (k)" disabled={at === 0} onClick={() => go(at - 1)} />
          <Button kind="plain" icon="down" aria-label="Next case (j)" disabled={at === cases.length - 1} onClick={() => go(at + 1)} />
        </div>
        {answered === cases.length && <Notice>You have answered for every drawn {review.noun}.</Notice>}
        <div role="alert">
          {line.failures().map((given) => (
            <Notice key={given.one.caseId} tone="fail">
              {`Your answer for ${plainText(given.one.caseId.slice(0, 80))} is not stored: ${given.problem ?? ""} `}
              <Button size="small" onClick={() => line.give({ one: given.one, passed: given.passed, note: given.note })}>
                Send it again
              </Button>
            </Notice>
          ))}
        </div>
        {one && <OneCase key={one.caseId} run={run} review={review} one={one} at={at} go={go} answer={answer} />}
        {answered === cases.length && cases.length < review.judged && <Draw run={run} review={review} more />}
      </div>
      <Numbers review={review} go={go} />
    </div>
  );
}

interface OneProps {
  run: string;
  review: Review;
  one: ReviewCase;
  at: number;
  go: (at: number) => void;
  answer: (one: ReviewCase, passed: boolean, note: string) => void;
}

function OneCase({ run, review, one, at, go, answer }: OneProps) {
  const [note, setNote] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const detail = useQuery({
    queryKey: ["run", run, "case", one.position],
    queryFn: ({ signal }) => getCase(run, one.position ?? 0, signal),
    enabled: one.position !== null,
  });
  useEffect(() => {
    body.current?.scrollTo(0, 0);
  }, [one.caseId]);
  const send = (passed: boolean) => {
    if (one.position !== null) answer(one, passed, note.trim());
    setNote("");
  };
  const skip = () => go((at + 1) % review.cases.length);
  useKeys("Review", [
    { keys: "1", label: "Pass", run: (event) => event.repeat || send(true) },
    { keys: "2", label: "Fail", run: (event) => event.repeat || send(false) },
    { keys: "s", label: "Skip", run: skip },
    { keys: "n", label: "Write a note", run: () => field.current?.focus() },
    { keys: "j", label: "Next case", run: () => go(at + 1) },
    { keys: "k", label: "Previous case", run: () => go(at - 1) },
    { keys: "Escape", label: "Leave the note", run: () => field.current?.blur(), inText: true },
  ]);
  if (one.position === null) return <Notice tone="warn">This case is not in the run any more.</Notice>;
  return (
    <section className="card review-case" aria-label={`Case ${plainText(one.caseId.slice(0, 80))}`}>
      <div className="review-content" ref={body} tabIndex={0} role="group" aria-label="Content of the case">
        <h2 className="truncate">
          <VisibleText text={one.caseId.slice(0, 200)} />
        </h2>
        {detail.isError ? <ErrorState error={detail.error} retry={() => void detail.refetch()} /> : detail.data === undefined ? <Loading label="Loading the case" lines={6} /> : <Content detail={detail.data} />}
        {one.mine !== undefined && one.judge !== undefined && <Answers review={review} one={one} detail={detail.data} />}
      </div>
      <div className="review-answer">
        <div className="row wrap">
          <Button kind="primary" icon="check" aria-pressed={one.mine === true} aria-keyshortcuts="1" onClick={() => send(true)}>
            Pass <kbd>1</kbd>
          </Button>
          <Button kind="danger" icon="close" aria-pressed={one.mine === false} aria-keyshortcuts="2" onClick={() => send(false)}>
            Fail <kbd>2</kbd>
          </Button>
          <Button aria-keyshortcuts="s" onClick={skip}>
            Skip <kbd>s</kbd>
          </Button>
          <textarea ref={field} className="field" rows={1} aria-label="Note" placeholder="Note (n)" value={note} maxLength={2_000} onChange={(event) => setNote(event.target.value)} />
        </div>
      </div>
    </section>
  );
}

/** What a person needs to decide: not what the judge or another check said. */
function Content({ detail }: { detail: CaseDetail }) {
  return (
    <>
      <h3>Input</h3>
      <ContentView value={detail.input} label="Input" />
      {detail.trials.map((trial) => (
        <div key={trial.trial} className="stack">
          <h3>{detail.trials.length > 1 ? `Output of trial ${trial.trial + 1}` : "Output"}</h3>
          <ContentView value={trial.output ?? trial.error} label="Output" />
        </div>
      ))}
      {detail.expected !== undefined && (
        <>
          <h3>Expected</h3>
          <ContentView value={detail.expected} label="Expected" />
        </>
      )}
    </>
  );
}

/** After my answer: what the judge said and why, and what others say. */
function Answers({ review, one, detail }: { review: Review; one: ReviewCase; detail: CaseDetail | undefined }) {
  const reasons = detail?.trials.flatMap((trial) => trial.checks.filter((check) => (review.judge ? check.label === review.judge : check.checkType === "llm_judge")).map((check) => check.reason)) ?? [];
  const notes = new Map(detail?.annotations.filter((note) => note.note).map((note) => [note.actor.principalRef, note.note ?? ""]));
  return (
    <div className="review-others" role="group" aria-label="Answers">
      <p className="row wrap">
        <Chip tone={one.judge === true ? "pass" : "fail"}>{answerWord(one.judge)}</Chip> The judge{one.judge === one.mine ? ", as you" : ", unlike you"}
      </p>
      {reasons.map((reason, at) => (
        <p key={at} className="quiet">
          <VisibleText text={reason} />
        </p>
      ))}
      {Object.entries(one.people ?? {}).map(([person, said]) => (
        <p key={person} className="row wrap">
          <Chip tone={said === true ? "pass" : "fail"}>{answerWord(said)}</Chip>
          {person === review.you ? "You" : <VisibleText text={person} />}
          {notes.get(person) && (
            <span className="quiet">
              <VisibleText text={notes.get(person) ?? ""} />
            </span>
          )}
        </p>
      ))}
    </div>
  );
}
