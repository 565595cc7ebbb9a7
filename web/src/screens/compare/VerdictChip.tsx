import type { DifferenceInterval } from "~/api/comparison";
import { Chip } from "~/ui";
import { VERDICT_TONE, verdictWord } from "./words";

/** The verdict of a row; and that of its measured cases, if those that were not measured took it away. */
export function VerdictChip({ result }: { result: DifferenceInterval }) {
  const word = verdictWord(result);
  return (
    <>
      <Chip tone={VERDICT_TONE[word]}>{word}</Chip>
      {result.measured_verdict && <span className="faint"> measured cases: {result.measured_verdict}</span>}
    </>
  );
}
