import { reportSource } from "~/api/client";
import type { SliceDifference } from "~/api/comparison";
import { changeParams } from "~/state/address";
import { VisibleText } from "~/ui";
import { fellIn } from "./words";

export type NamedSlice = SliceDifference & { text: string };

const NAMED = 3;

/** Where it got worse, in one line of the verdict: the table of slices is further down. */
export function SliceLine({ slices, lowerIsBetter }: { slices: NamedSlice[]; lowerIsBetter: boolean }) {
  if (slices.length === 0) return null;
  const { regressed, fell } = fellIn(slices, lowerIsBetter);
  const named = (regressed.length > 0 ? regressed : fell).slice(0, regressed.length > 0 ? NAMED : 1);
  const more = regressed.length - named.length;
  return (
    <p className="compare-slice-line">
      {regressed.length > 0 ? "Worse in " : fell.length > 0 ? "The largest drop may be chance: " : "No slice fell."}
      {named.map((one, at) => (
        <span key={`${one.by}:${one.slice}`}>
          {at > 0 && "; "}
          <VisibleText text={one.by} />{" "}
          <Slice one={one} /> <span className="num">{one.text}</span>
        </span>
      ))}
      {more > 0 && ` and ${more} more`}
      {named.length > 0 && "."}
    </p>
  );
}

function Slice({ one }: { one: NamedSlice }) {
  if (reportSource() !== null)
    return (
      <strong>
        <VisibleText text={one.slice} />
      </strong>
    );
  return (
    <button
      type="button"
      className="number-link"
      title="Show the cases of this slice that got worse"
      onClick={() => {
        changeParams({ slice: `${one.by}:${one.slice}`, change: "worse", case: undefined });
        document.querySelector(".slice-table")?.scrollIntoView({ block: "start" });
      }}
    >
      <VisibleText text={one.slice} />
    </button>
  );
}
