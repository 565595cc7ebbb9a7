import { Button } from "~/ui/controls";
import { count, plural } from "~/ui/format";
import type { Rows } from "./rows";

/** How far a search has looked, and whether it shows all that it may find. */
export function SearchNote({ rows: { search }, noun }: { rows: Pick<Rows, "search">; noun: string }) {
  if (search === null) return null;
  const { running, matches, complete, looked, total, cut } = search;
  const parts = [
    ...(running ? ["Searching…"] : []),
    `${plural(matches, noun)} found.`,
    complete ? `Looked at all ${plural(total, "result")}.` : `Looked at ${count(looked)} of ${count(total)} results.`,
    ...(!running && !complete && matches > 0 ? [`The first ${count(matches)} are shown.`] : []),
    ...(cut ? ["There is room for no more: one more filter makes them fewer."] : []),
  ];
  return (
    <p className="row wrap quiet" role="status">
      {parts.join(" ")}
      {search.stop && (
        <Button size="small" onClick={search.stop}>
          Stop
        </Button>
      )}
      {search.more && (
        <Button size="small" onClick={search.more}>
          Search further
        </Button>
      )}
    </p>
  );
}
