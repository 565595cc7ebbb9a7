import { reportSource } from "~/api/client";
import type { SliceDifference } from "~/api/comparison";
import { changeParams, useParam } from "~/state/address";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui";
import { VerdictChip } from "./VerdictChip";
import { casesText, endText } from "./words";

/** The slices of a comparison by one grouping. A slice selects its cases in the list below; a report has no such list. */
export function SliceTable({ by, slices }: { by: string; slices: (SliceDifference & { text: string })[] }) {
  const [chosen] = useParam("slice");
  const selects = reportSource() === null;
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
              Before
            </th>
            <th scope="col" className="num">
              After
            </th>
            <th scope="col" className="num">
              Difference (adjusted)
            </th>
            <th scope="col">Verdict</th>
          </tr>
        </thead>
        <tbody>
          {slices.map((slice) => {
            const own = `${slice.by}:${slice.slice}`;
            return (
              <tr key={own} className={own === chosen ? "chosen" : ""}>
                <th scope="row">
                  {selects ? (
                    <button
                      type="button"
                      className="compare-choose"
                      aria-pressed={own === chosen}
                      title="Show only the cases of this slice"
                      onClick={() => changeParams({ slice: own === chosen ? undefined : own, case: undefined })}
                    >
                      <VisibleText text={slice.slice} />
                    </button>
                  ) : (
                    <VisibleText text={slice.slice} />
                  )}
                </th>
                <td className="num">{casesText(slice.result)}</td>
                <td className="num">{endText(slice.result, slice.result.before)}</td>
                <td className="num">{endText(slice.result, slice.result.after)}</td>
                <td className="num">{slice.text}</td>
                <td>
                  <VerdictChip result={slice.result} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
