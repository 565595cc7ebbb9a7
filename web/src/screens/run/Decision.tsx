import type { Overview } from "~/api/cases";
import { Chip } from "~/ui/display";
import { count, percent, plural } from "~/ui/format";

import { IntervalScale } from "./IntervalScale";
import { nounOf } from "./words";

/** The last look of a run that stops when it has decided: its limits, and why it stopped. */
export function Decision({ overview }: { overview: Overview }) {
  const { until, progress } = overview;
  if (until === undefined) return null;
  const { estimate, minPassRate, cases, total, unmeasured } = until;
  const noun = nounOf(overview);
  const decided = until.decision !== "not enough data";
  const waiting = !decided && progress !== null;
  const isRate = minPassRate !== null;
  const facts = [
    isRate ? `Against a bar of ${percent(minPassRate)}` : "Difference to the baseline",
    `${decided ? "stopped" : "last look"} after ${plural(until.rounds, "round")}, ${count(cases)} of ${plural(total, noun)}`,
    unmeasured > 0 ? `${plural(unmeasured, noun)} not measured` : "",
  ];
  const reason = decided
    ? cases < total && `It was decided, so ${plural(total - cases, noun)} did not run.`
    : !waiting && (cases < total ? "The run ended before it was decided." : `All ${noun}s ran, and it is not decided.`);
  return (
    <section className="live-bar decision" aria-label="Decision">
      <div className="row wrap">
        <Chip tone={decided ? (until.favorable ? "pass" : "fail") : waiting ? "live" : "warn"}>{waiting ? "not decided yet" : until.decision}</Chip>
        <strong className="num">{until.text || `no ${noun} was measured`}</strong>
      </div>
      {estimate !== null && <IntervalScale value={estimate} low={until.low} high={until.high} from={isRate ? 0 : -1} bar={minPassRate ?? 0} />}
      <p className="quiet">{[`${facts.filter(Boolean).join(" · ")}.`, "These limits hold at every look.", reason].filter(Boolean).join(" ")}</p>
    </section>
  );
}
