import type { Review } from "~/api/review";
import { format, VisibleText } from "~/ui";

import { biasText, disagreements, kappaText, rateText } from "./words";

/** What all answers say so far: agreement, bias, the corrected pass rate, the people, and where they differ. */
export function Numbers({ review, go }: { review: Review; go: (at: number) => void }) {
  const { numbers, people, you, rows, cases, noun } = review;
  if (numbers === null) return null;
  const [bias, aboutBias] = biasText(numbers);
  const [rate, aboutRate] = rateText(numbers);
  const differ = disagreements(cases);
  return (
    <aside className="card review-numbers" aria-label="What the answers say">
      <div role="status" aria-label="Numbers">
      <dl>
        <Row name="Agreement with the judge" value={numbers.agreement === null ? "–" : format.percent(numbers.agreement)} note={`${kappaText(numbers)}${numbers.cases > 0 ? `, over ${format.plural(numbers.cases, noun)}` : ""}`} />
        <Row name="Bias of the judge" value={bias} note={aboutBias} />
        <Row name="Pass rate, corrected" value={rate} note={aboutRate} />
      </dl>
      </div>
      {people.length > 0 && (
        <p className="quiet">
          {format.plural(people.length, "person answers", "people answer")}:{" "}
          {people.map((person, at) => (
            <span key={person}>
              {at > 0 && ", "}
              {person === you ? "you" : <VisibleText text={person} />}
            </span>
          ))}
        </p>
      )}
      {differ.length > 0 && (
        <section aria-label="Disagreements">
          <h2>{`Disagreements (${differ.length})`}</h2>
          <ul>
            {differ.map((one) => (
              <li key={one.caseId}>
                <button type="button" className="number-link truncate" onClick={() => go(one.at)}>
                  <VisibleText text={one.caseId.slice(0, 80)} />
                </button>
                <span className="quiet">{one.text}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      <details>
        <summary>As assay judge check says it</summary>
        <table>
          <tbody>
            {rows.map(([name, text], at) => (
              <tr key={at}>
                <th scope="row">
                  <VisibleText text={name} />
                </th>
                <td>
                  <VisibleText text={text} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
      <p className="faint">
        An answer is an opinion about the judge. It changes no result; a correction of a case does.
      </p>
    </aside>
  );
}

function Row({ name, value, note }: { name: string; value: string; note: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="num review-value">{value}</dd>
      <dd className="quiet">{note}</dd>
    </div>
  );
}
