import "./trajectories.css";
import { useMemo } from "react";
import type { Step } from "~/api/cases";
import { VisibleText } from "~/ui";
import { plural } from "~/ui/format";
import { type AlignedStep, type Alignment, alignedSteps, MAX_STEPS, type StepSide } from "./alignment";

/** Both trajectories, step by step, and where they part. */
export function Trajectories({ before, after }: { before: readonly Step[]; after: readonly Step[] }) {
  const alignment = useMemo(() => alignedSteps(before, after), [before, after]);
  const { rows, parting, bounded } = alignment;
  return (
    <section>
      <h3>Trajectory</h3>
      <p className="quiet">
        {partingText(alignment)}
        {bounded && ` The first ${MAX_STEPS} steps are compared.`}
      </p>
      <table className="compare-steps">
        <thead>
          <tr>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at} className={row.parted ? "parted" : ""} aria-label={at === parting?.after ? "They part here" : undefined}>
              <StepCell row={row} side={row.before} />
              <StepCell row={row} side={row.after} />
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** `They part after 2 steps: another result of the tool.` */
function partingText({ rows, parting }: Alignment): string {
  if (parting === null) return `Both did the same in ${plural(rows.length, "step")}.`;
  return `They part ${parting.after === 0 ? "at the first step" : `after ${plural(parting.after, "step")}`}: ${parting.word}.`;
}

/** What one agent did. The result of a tool is shown where the agents part, and where the tool failed. */
function StepCell({ row, side }: { row: AlignedStep; side: StepSide | null }) {
  if (side === null) {
    return (
      <td>
        <span className="faint">–</span>
      </td>
    );
  }
  const { text, result, failed } = side;
  return (
    <td>
      <VisibleText text={text} />
      {result && (row.parted || failed) && (
        <div className={failed ? "step-result step-result-failed" : "step-result"}>
          <span>{result.word}</span> <VisibleText text={result.text} />
        </div>
      )}
    </td>
  );
}
