import "./panels.css";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import type { CaseSlice, SliceName, SlicesAnswer } from "~/api/cases";
import { reportSource } from "~/api/client";
import { useParam } from "~/state/address";
import { Select } from "~/ui/controls";
import { Loading } from "~/ui/display";
import { count } from "~/ui/format";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";
import { JudgeNote } from "../review/JudgeNote";
import { CHECK, groupings, slicesQuery } from "./slices";
import { MODEL, REASON } from "./view";

const MAX_RESULTS = 10_000; // that the server counts by slice
const SOON = 1_000; // results that it counts in a moment

interface Props {
  run: string;
  live: boolean;
  judged: boolean; // judges answered
  results: number;
  failures: boolean; // there are failures, so that there is something to show
  where: SliceName[];
  failing: string[]; // the checks of which only failures are shown
  onWhere: (slice: SliceName) => void;
  onCheck: (label: string) => void; // only cases where this check fails
  children: ReactNode; // what is below
}

/**
 * Where the run is worse, and what fails most. A click shows only these cases. The panels have their height before they are
 * read; of a run without a failure there may be none, so what is below waits for them.
 */
export function Slices({ run, live, judged, results, failures, where, failing, onWhere, onCheck, children }: Props) {
  const [chosen, setBy] = useParam("by", "tag");
  const by = chosen === REASON ? "tag" : chosen; // the groups of reasons have a panel of their own
  const shown = !live && reportSource() === null;
  const enabled = shown && results <= MAX_RESULTS;
  const slices = useQuery({ ...slicesQuery(run, by), enabled });
  const groups = useQuery({ ...slicesQuery(run, REASON), enabled });
  const names = groupings(groups.data, by);
  const above = (panel: ReactNode, below: ReactNode = children) => (
    <>
      {panel}
      {below}
    </>
  );
  if (!shown || groups.isError) return above(null);
  if (!enabled || groups.data?.counted === false) return above(<p className="quiet">This run has too many results to count them by slice here: `assay report --by` does it.</p>);
  if (groups.data === undefined) return failures ? above(<Panels />) : results > SOON ? above(null) : above(<Panels />, null);
  const { members, values, slices: reasons } = groups.data;
  const alone = by === "tag" && members.length === 1 && (values?.[MODEL]?.length ?? 0) < 2 && (slices.data?.slices.length ?? 0) < 2; // one slice is the run
  if (alone && reasons.length === 0) return above(null);
  const pressed = (name: string, slice: CaseSlice) => (name === CHECK ? failing.includes(slice.name) : where.some((one) => one.by === name && one.name === slice.name));
  return above(
    <div className="run-panels">
      {!alone && <section className="card run-panel" aria-label="Slices">
        <div className="row">
          <h2>Slices</h2>
          {by !== CHECK && !slices.isError && <span className="panel-note">difference to all other cases</span>}
          <Select label="Slices by" value={by} options={names.map((name) => [name, `By ${name === MODEL ? "model" : plainText(name.slice(0, 60))}`] as const)} onChange={setBy} />
        </div>
        {slices.isError ? (
          <p className="quiet">{by === "tag" ? "The cases have no tags." : "No case has such a value."}</p>
        ) : (
          <ul>
            {(slices.data?.slices ?? []).map((slice) => (
              <li key={slice.name}>
                <button type="button" aria-pressed={pressed(by, slice)} onClick={() => (by === CHECK ? onCheck(slice.name) : onWhere({ by, name: slice.name }))}>
                  <span className="panel-name truncate">
                    <VisibleText text={slice.name} />
                  </span>
                  <span className="num faint">{count(slice.cases)}</span>
                  <span className="num">{slice.rate}</span>
                  <span className={`num panel-difference ${slice.verdict ?? ""}`} title={about(slices.data)}>
                    {slice.difference ?? ""}
                  </span>
                </button>
              </li>
            ))}
            <More many={slices.data?.more ?? 0} />
          </ul>
        )}
      </section>}
      {reasons.length > 0 && (
        <section className="card run-panel" aria-label="What fails">
          <h2>What fails</h2>
          <ul>
            {reasons.map((group) => (
              <li key={group.name}>
                <button type="button" className="panel-group" aria-pressed={pressed(REASON, group)} onClick={() => onWhere({ by: REASON, name: group.name })} title={group.name}>
                  <span className="num">×{count(group.cases)}</span>
                  <span className="panel-name truncate">
                    <VisibleText text={group.name} />
                  </span>
                </button>
              </li>
            ))}
            <More many={groups.data.more} />
          </ul>
          {judged && <JudgeNote run={run} />}
        </section>
      )}
    </div>,
  );
}

function Panels() {
  return (
    <div className="run-panels">
      {["Loading the slices", "Loading what fails"].map((label) => (
        <div key={label} className="card run-panel">
          <Loading label={label} lines={5} />
        </div>
      ))}
    </div>
  );
}

function about(answer: SlicesAnswer | undefined): string {
  if (answer?.by === CHECK) return "Cases that the check decides, and how many of them pass it";
  return `Difference of the pass rate to that of all other cases, with its 95% interval${(answer?.slices.length ?? 0) > 1 ? ", adjusted for the number of slices (Holm)" : ""}`;
}

function More({ many }: { many: number }) {
  return many > 0 ? <li className="quiet">… and {count(many)} more</li> : null;
}
