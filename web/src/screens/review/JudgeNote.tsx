import { useQuery } from "@tanstack/react-query";

import { getReview } from "~/api/review";
import { formatAddress } from "~/state/address";
import { VisibleText } from "~/ui";

import { judgeText } from "./words";

/** Whether the failures of a judge are those of the system: what people say about the judge, and the way to its review. */
export function JudgeNote({ run }: { run: string }) {
  const review = useQuery({ queryKey: ["run", run, "review", ""], queryFn: ({ signal }) => getReview(run, "", signal), staleTime: 60_000, retry: false });
  if (!review.data?.numbers || review.data.judged === 0) return null;
  const { judge, numbers, noun } = review.data;
  return (
    <p className="panel-judge" role="note">
      {judge ? (
        <>
          <strong>
            <VisibleText text={judge} />
          </strong>{" "}
          asks a judge.
        </>
      ) : (
        "A judge answers for the rubrics."
      )}{" "}
      {judgeText(numbers, noun)}{" "}
      <a href={formatAddress(`/runs/${encodeURIComponent(run)}/review`)}>{numbers.cases === 0 ? "Check the judge" : "Review"}</a>
    </p>
  );
}
