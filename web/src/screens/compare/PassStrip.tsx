import type { ChangeFilter, ScatterPoint } from "~/api/comparison";
import { changeParams } from "~/state/address";
import { count, percent } from "~/ui/format";
import { LIST_NAMES } from "./words";

export interface PassCounts {
  stayed: number;
  lost: number;
  gained: number;
  failing: number;
}

/** The four numbers of cases that pass or fail; null if a case has another value. */
export function passCounts(points: ScatterPoint[]): PassCounts | null {
  const counts = { stayed: 0, lost: 0, gained: 0, failing: 0 };
  for (const { before, after, cases } of points) {
    if (![before, after].every((value) => value === 0 || value === 1)) return null;
    counts[before === 1 ? (after === 1 ? "stayed" : "lost") : after === 1 ? "gained" : "failing"] += cases;
  }
  return counts;
}

const PARTS: [keyof PassCounts, string, string, ChangeFilter][] = [
  ["stayed", "pass", LIST_NAMES.passed_in_both, "passed_in_both"],
  ["gained", "better", "Failed, now pass", "better"],
  ["lost", "worse", "Passed, now fail", "worse"],
  ["failing", "fail", LIST_NAMES.failed_in_both, "failed_in_both"],
];

/** Pass and fail as one strip of four numbers. Each shows its cases. */
export function PassStrip({ counts, selects }: { counts: PassCounts; selects: boolean }) {
  const total = counts.stayed + counts.lost + counts.gained + counts.failing;
  return (
    <section className="card pass-strip" aria-label="Passed and failed">
      <div className="pass-bar" aria-hidden="true">
        {PARTS.map(([name, tone]) => (counts[name] > 0 ? <span key={name} className={tone} style={{ flexGrow: counts[name] }} /> : null))}
      </div>
      <dl>
        {PARTS.map(([name, tone, label, change]) => (
          <div key={name} className={tone}>
            <dt>{label}</dt>
            <dd className="num">
              {selects && counts[name] > 0 ? (
                <button type="button" className="number-link" title="Show these cases" onClick={() => changeParams({ change, case: undefined })}>
                  {count(counts[name])}
                </button>
              ) : (
                count(counts[name])
              )}
              <small className="faint">{total === 0 ? "" : ` ${percent(counts[name] / total)}`}</small>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
