/** A case that an address names and the loaded rows do not have. */
import type { CaseRow } from "~/api/cases";
import type { Change, ComparedCase } from "~/api/comparison";

/** A case of both runs. Without `change`, what became of it is not known here: only the list of the server has the metric. */
export type OpenCase = Omit<ComparedCase, "change"> & { change?: Change };

/** The case from its rows in both runs. Null: neither has it. */
export function caseOf(id: string, before: CaseRow | undefined, after: CaseRow | undefined, metric: string): OpenCase | null {
  if (before === undefined && after === undefined) return null;
  const passes = metric === "" || metric === "passed";
  return {
    id,
    change: before === undefined ? "only_in_run" : after === undefined ? "only_in_baseline" : passes ? changeOf(shareOf(before), shareOf(after)) : undefined,
    ...(before === undefined ? {} : { position_before: before.position, reason_before: reasonOf(before), before: passes ? shareOf(before) : undefined }),
    ...(after === undefined ? {} : { position_after: after.position, reason_after: reasonOf(after), after: passes ? shareOf(after) : undefined }),
  };
}

function changeOf(before: number | undefined, after: number | undefined): Change {
  if (before === undefined || after === undefined) return "unmeasured";
  return after === before ? "unchanged" : after > before ? "better" : "worse";
}

/** The share of the trials that passed, of those with a verdict. */
function shareOf({ trials: { passed, failed } }: CaseRow): number | undefined {
  return passed + failed === 0 ? undefined : passed / (passed + failed);
}

function reasonOf(row: CaseRow): string | undefined {
  return row.status === "passed" ? "passed" : (row.preview?.reason ?? undefined);
}
