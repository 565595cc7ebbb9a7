import type { SliceDifference } from "~/api/comparison";
import { changeParams, useParam } from "~/state/address";
import { Chip, format, VisibleText } from "~/ui";
import { valueText, VERDICT_TONE } from "./words";

/** The slices of a comparison. A slice selects its cases in the list below. */
export function SliceTable({ slices, texts }: { slices: SliceDifference[]; texts: string[] }) {
  const [chosen] = useParam("slice");
  const by = slices[0]?.by ?? "";
  return (
    <section className="card compare-table" aria-label={`By ${by}`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">By {by}</th>
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
          {slices.map((slice, index) => {
            const own = `${slice.by}:${slice.slice}`;
            return (
              <tr key={own} className={own === chosen ? "chosen" : ""}>
                <th scope="row">
                  <button
                    type="button"
                    className="compare-choose"
                    aria-pressed={own === chosen}
                    title="Show only the cases of this slice"
                    onClick={() => changeParams({ slice: own === chosen ? undefined : own, case: undefined })}
                  >
                    <VisibleText text={slice.slice} />
                  </button>
                </th>
                <td className="num">{format.count(slice.result.cases)}</td>
                <td className="num">{valueText(slice.result.before)}</td>
                <td className="num">{valueText(slice.result.after)}</td>
                <td className="num">{texts[index]}</td>
                <td>
                  <Chip tone={VERDICT_TONE[slice.result.verdict]}>{slice.result.verdict}</Chip>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
