import "./panels.css";
import type { RunSlice } from "~/api/cases";
import { count } from "~/ui/format";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";

/** The pass rates of the slices of a run, a table for each grouping. */
export function RunSlices({ slices }: { slices: RunSlice[] }) {
  return (
    <div className="run-slices">
      {byGrouping(slices).map(([by, own]) => (
        <Rates key={by} by={by} slices={own} />
      ))}
    </div>
  );
}

function Rates({ by, slices }: { by: string; slices: RunSlice[] }) {
  return (
    <section className="card small-table slice-table" aria-label={`By ${plainText(by)}`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">
              By <VisibleText text={by} />
            </th>
            <th scope="col" className="num">
              Cases
            </th>
            <th scope="col" className="num">
              Cases passed (95%)
            </th>
            <th scope="col" className="num">
              Checks passed (95%)
            </th>
          </tr>
        </thead>
        <tbody>
          {slices.map((slice) => (
            <tr key={slice.name}>
              <th scope="row">
                <VisibleText text={slice.name} />
              </th>
              <td className="num">{count(slice.cases)}</td>
              <td className="num">{slice.casePassRate}</td>
              <td className="num">{slice.passRate}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** The slices of each grouping, in the order in which they come. */
export function byGrouping<Slice extends { by: string }>(slices: Slice[]): [string, Slice[]][] {
  const found = new Map<string, Slice[]>();
  for (const slice of slices) found.set(slice.by, [...(found.get(slice.by) ?? []), slice]);
  return [...found];
}
