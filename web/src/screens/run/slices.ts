/** The slices of a run as the screen asks for them, and what they offer as filters. */

import { getSlices, type Overview, type SlicesAnswer } from "~/api/cases";
import { plainText } from "~/ui/visible";
import { MODEL } from "./view";

export const CHECK = "check";
const MAX_SUGGESTIONS = 50; // that are offered at a time

/** The slices by a member; by `reason`, the groups of failures with the members and their values. */
export function slicesQuery(run: string, by: string) {
  return {
    queryKey: ["run", run, "slices", by],
    queryFn: ({ signal }: { signal: AbortSignal }) => getSlices(run, by, signal),
    staleTime: Infinity,
    retry: false,
  };
}

/** By what the cases can be sliced: a chosen name of an address is among them. */
export function groupings(reasons: SlicesAnswer | undefined, chosen: string): string[] {
  const names = [...(reasons?.members ?? ["tag"]), ...(reasons?.values?.[MODEL] ? [MODEL] : []), CHECK];
  return names.includes(chosen) ? names : [...names, chosen];
}

/** The filters that a run has something for: `tag=warranty`, `tier=pro`, `check:helpful=fail`, `score<`. */
export function filterTexts({ run, columns, cost, latency, effective }: Overview, values: Record<string, string[]> = {}): string[] {
  const members = Object.entries(values).flatMap(([by, names]) => (by === MODEL ? (values["model"] ? [] : [["model", names] as const]) : /[:=]/.test(by) ? [] : [[by, names] as const]));
  const texts = [
    ...columns.flatMap(({ label }) => [`check:${label}=fail`, `check:${label}=pass`]),
    ...(effective ? ["corrected"] : []),
    ...(run.score === null ? [] : ["score<", "score>"]),
    ...(latency === null ? [] : ["latency>", "latency<"]),
    ...(cost === null ? [] : ["cost>", "cost<"]),
    ...members.flatMap(([by, names]) => names.filter((name) => name.trim() === name).map((name) => `${by}=${name}`)),
  ];
  return texts.filter((text) => plainText(text) === text && !text.includes("\n")); // a field shows no marks
}

/** The filters that contain what is typed. */
export function suggestionsOf(texts: string[], typed: string): string[] {
  const wanted = typed.trim().toLowerCase();
  return texts.filter((text) => text.toLowerCase().includes(wanted)).slice(0, MAX_SUGGESTIONS);
}
