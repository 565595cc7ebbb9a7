import type { Overview } from "~/api/cases";
import { reportSource } from "~/api/client";
import { Chip, costOf, NotMeasured } from "~/ui/display";
import { count, plural } from "~/ui/format";

import { barText, countsText, isClose, nounOf, unmeasuredCount, verdictOf } from "./words";
import { VisibleText } from "~/ui/VisibleText";
import { Distributions } from "./Distributions";
import { IntervalScale } from "./IntervalScale";

/** The first thing to see: the score with its interval, the verdict and the bar that decided, cost, latency, findings, what is missing. */
export function Headline({ overview, onFilter }: { overview: Overview; onFilter: (show: string) => void }) {
  return (
    <section className="headline" aria-label="Result">
      <ScoreCard overview={overview} />
      <VerdictCard overview={overview} />
      <div className="headline-third">
        <dl className="headline-numbers">
          {overview.attack && <AttackNumber attack={overview.attack} />}
          <CostNumber overview={overview} />
          <LatencyNumber overview={overview} />
          {overview.findings && <FindingsNumber findings={overview.findings} notLookedFor={overview.notLookedFor ?? []} onFilter={onFilter} />}
          <UnmeasuredNumber overview={overview} onFilter={onFilter} />
          <RepeatNumber overview={overview} />
        </dl>
        {reportSource() === null && overview.run.counts !== null && <Distributions run={overview.run.runId} version={overview.progress === null ? overview.run.version : ""} measured={overview.run.counts.passed + overview.run.counts.failed > 0} />}
      </div>
      {overview.findings && overview.findings.length > 0 && <KindTable findings={overview.findings} notLookedFor={overview.notLookedFor ?? []} measured={overview.attack?.failed === 0} />}
    </section>
  );
}

function ScoreCard({ overview }: { overview: Overview }) {
  const { score, counts } = overview.run;
  const bar = overview.bars.find((one) => one.name === "passScore");
  return (
    <div className="headline-card score-card">
      <h2 className="headline-label">
        {score?.name ?? "score"}
        {overview.progress && " so far"}
      </h2>
      {score === null ? (
        <NoScore overview={overview} />
      ) : (
        <>
          <p className="headline-value num">
            {score.text}
            {score.low !== null && <small>{` ${score.range}`}</small>}
          </p>
          {score.scale !== "number" && <IntervalScale value={score.value} low={score.low} high={score.high} bar={bar?.required} />}
          <p className="quiet headline-note">
            {score.low === null ? `No interval: ${score.method}. ` : `95% interval (${score.method}) over ${plural(score.cases, nounOf(overview))}. `}
            {counts && `${countsText(counts)}.`}
          </p>
          <EffectiveNote overview={overview} />
        </>
      )}
    </div>
  );
}

/** Nothing was measured; or a long evaluation is in progress, whose score is computed when it ends. */
function NoScore({ overview: { progress, run } }: { overview: Overview }) {
  const { counts } = run;
  if (progress === null || progress.done === 0 || (counts !== null && counts.passed + counts.failed + counts.ungraded === 0)) {
    return (
      <p className="headline-value">
        <NotMeasured />
      </p>
    );
  }
  return (
    <>
      <p className="headline-value">at the end</p>
      <p className="quiet headline-note">{`The score of so many results is computed when the run ends.${counts === null ? "" : ` ${countsText(counts)}.`}`}</p>
    </>
  );
}

function VerdictCard({ overview }: { overview: Overview }) {
  const verdict = verdictOf(overview);
  const others = overview.bars.filter((bar) => !bar.decided);
  return (
    <div className={`headline-card verdict-card ${verdict.tone}`}>
      <h2 className="headline-label">verdict</h2>
      <p className="headline-value">
        <Chip tone={verdict.tone}>{verdict.word}</Chip>
      </p>
      <ul className="verdict-reasons">
        {verdict.reasons.map((reason) => (
          <li key={reason}>
            <VisibleText text={reason} />
          </li>
        ))}
        {overview.run.passed === null && overview.run.status === "completed" &&
          worstChecks(overview.checks).map((check) => (
            <li key={check.index} className="quiet">
              <VisibleText text={check.label} /> {`fails ${count(check.failed)} of ${plural(check.failed + check.passed, "time")}.`}
            </li>
          ))}
        {isClose(overview) && <li className="quiet">The bar is inside the interval: another run could decide the other way.</li>}
      </ul>
      {overview.run.passed === false && others.length > 0 && (
        <p className="quiet headline-note">Met: {others.filter((bar) => bar.met).map(barText).join(", ") || "no other bar"}.</p>
      )}
    </div>
  );
}

/** The checks that fail most, at most two. */
function worstChecks(checks: Overview["checks"]): Overview["checks"] {
  return checks.filter((check) => check.failed > 0).sort((a, b) => b.failed - a.failed).slice(0, 2);
}

function HeadlineNumber({ label, children, note }: { label: string; children: React.ReactNode; note?: React.ReactNode }) {
  return (
    <div className="stat">
      <dt>{label}</dt>
      <dd>
        {children}
        {note && <span className="stat-note">{note}</span>}
      </dd>
    </div>
  );
}

function CostNumber({ overview: { cost, run } }: { overview: Overview }) {
  const parts = costOf(run.costParts);
  if (cost === null && parts === "") {
    return (
      <HeadlineNumber label="Cost">
        <span title="Nothing that has a cost was asked.">none</span>
      </HeadlineNumber>
    );
  }
  const note = [cost?.unknown && "some costs are not known", parts !== "" && cost !== null && `this run spent ${cost.text}`].filter(Boolean).join(", ");
  return (
    <HeadlineNumber label="Cost" note={note}>
      {parts || cost?.text}
    </HeadlineNumber>
  );
}

function LatencyNumber({ overview: { latency } }: { overview: Overview }) {
  return (
    <HeadlineNumber label="Latency, p95" note={latency === null ? "" : `median ${latency.medianText}`}>
      {latency === null ? <NotMeasured why="No latency was recorded." /> : latency.p95Text}
    </HeadlineNumber>
  );
}

const SEVERITY = ["critical", "high", "medium", "low"];

interface Findings {
  findings: NonNullable<Overview["findings"]>;
  notLookedFor: NonNullable<Overview["notLookedFor"]>;
  onFilter: (show: string) => void;
}

function FindingsNumber({ findings, notLookedFor, onFilter }: Findings) {
  const total = findings.reduce((sum, one) => sum + one.count, 0);
  const missing = findings.length > 0 ? [] : notLookedFor.map((one) => `${one.kind}: not looked for (${one.reason})`);
  return (
    <HeadlineNumber label="Findings" note={missing.join(", ")}>
      {total === 0 ? (
        "none"
      ) : (
        <button type="button" className="number-link" onClick={() => onFilter("findings")}>
          {count(total)}
        </button>
      )}
    </HeadlineNumber>
  );
}

function AttackNumber({ attack }: { attack: NonNullable<Overview["attack"]> }) {
  const failed = attack.failed > 0 ? [`the agent failed in ${plural(attack.failed, "task")}`] : [];
  const found = attack.tasks > 0 ? [`${count(attack.succeeded)} of ${plural(attack.tasks, "task")} with a finding`] : [];
  return (
    <HeadlineNumber label="Attack success" note={[...found, ...failed].join("; ")}>
      {attack.text} <span className="stat-range">{attack.range}</span>
    </HeadlineNumber>
  );
}

/** Each kind of finding with its severity: of how many tasks, in how many it was found. */
function KindTable({ findings, notLookedFor, measured }: Pick<Findings, "findings" | "notLookedFor"> & { measured: boolean }) {
  const ordered = [...findings].filter((one) => one.count > 0).sort((a, b) => SEVERITY.indexOf(a.severity) - SEVERITY.indexOf(b.severity) || b.count - a.count);
  const none = findings.filter((one) => one.count === 0 && one.tasks > 0).map((one) => `${one.kind} (${one.severity})`);
  const never = findings.filter((one) => one.tasks === 0).map((one) => one.kind);
  return (
    <section className="small-table kind-table" aria-label="Kinds of findings" tabIndex={0}>
      {ordered.length > 0 && <table>
        <thead>
          <tr>
            <th scope="col">Kind</th>
            <th scope="col">Severity</th>
            <th scope="col" className="num">
              Found
            </th>
            <th scope="col" className="num">
              Tasks
            </th>
            <th scope="col" className="num">
              Rate (95%)
            </th>
          </tr>
        </thead>
        <tbody>
          {ordered.map((one) => (
            <tr key={`${one.kind} ${one.severity}`}>
              <th scope="row">
                <VisibleText text={one.kind} />
              </th>
              <td>
                <Chip tone={one.severity === "low" || one.severity === "medium" ? "warn" : "fail"}>{one.severity}</Chip>
              </td>
              <td className="num">{count(one.count)}</td>
              <td className="num">{count(one.tasks)}</td>
              <td className="num">{one.rateText}</td>
            </tr>
          ))}
        </tbody>
      </table>}
      <p className="quiet">
        {[
          ...(none.length > 0 ? [`Not found: ${none.join(", ")}.`] : []),
          ...(never.length > 0 ? [`${measured ? "Applies to no task" : "Not measured in any task"}: ${never.join(", ")}.`] : []),
          ...notLookedFor.map((one) => `${one.kind}: not looked for (${one.reason}).`),
        ].map((text) => (
          <VisibleText key={text} text={`${text} `} />
        ))}
      </p>
    </section>
  );
}

function UnmeasuredNumber({ overview, onFilter }: { overview: Overview; onFilter: (show: string) => void }) {
  const { error, skipped, neverReached } = overview.unmeasured;
  const total = unmeasuredCount(overview);
  const live = overview.progress !== null;
  const parts = [
    ...(error > 0 ? [`${count(error)} with an error`] : []),
    ...(skipped > 0 ? [`${count(skipped)} not run`] : []),
    ...(neverReached > 0 ? [`${count(neverReached)} ${live ? "still to come" : "never reached"}`] : []),
  ];
  return (
    <HeadlineNumber label="Not measured" note={parts.join(", ")}>
      {error + skipped === 0 ? (
        count(total)
      ) : (
        <button type="button" className="number-link" onClick={() => onFilter("unmeasured")}>
          {count(total)}
        </button>
      )}
    </HeadlineNumber>
  );
}

/** What the corrections of people make of the recorded score. */
function EffectiveNote({ overview: { effective, run } }: { overview: Overview }) {
  if (effective === undefined) return null;
  const verdict = effective.passed === null ? "" : effective.passed ? ", passes" : ", fails";
  const corrected = plural(effective.corrected.length, run.kind === "evaluation" ? "corrected case" : "corrected task");
  return (
    <p className="effective-note">
      {effective.text === null ? (
        `With ${corrected}: ${count(effective.passedCount)} passed, ${count(effective.failedCount)} failed. The recorded score stays.`
      ) : (
        <>
          Effective <strong className="num">{effective.text}</strong>
          {`${verdict}, ${count(effective.passedCount)} passed, ${count(effective.failedCount)} failed, with ${corrected}. The recorded score stays.`}
        </>
      )}
    </p>
  );
}

function RepeatNumber({ overview: { passK, run } }: { overview: Overview }) {
  const last = passK?.at(-1);
  if (last === undefined) return null;
  return (
    <HeadlineNumber label={`pass^${last.k}`} note={`all ${last.k} trials of a ${nounOf({ run })} pass, ${last.range}`}>
      {last.text}
    </HeadlineNumber>
  );
}
