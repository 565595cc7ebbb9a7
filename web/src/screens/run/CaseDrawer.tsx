import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { getCase, type SliceName } from "~/api/cases";
import { ApiError } from "~/api/client";
import { useKeys } from "~/state/keyboard";
import { part } from "~/state/parts";
import { Button, CopyButton } from "~/ui/controls";
import { ErrorState, Loading, Notice } from "~/ui/display";
import { Drawer } from "~/ui/overlay";
import { VisibleText } from "~/ui/VisibleText";

/** What shows a case, with Markdown and differences. It comes whole: nothing of an open case moves when more of it is loaded. */
export const CASE_VIEW = part("case", () => import("./CaseView"));

interface Props {
  run: string;
  position: number;
  onClose: () => void;
  onMove: (by: 1 | -1) => void;
  onNextFailure: () => void;
  onWhere: (slice: SliceName) => void; // only cases like this one
}

/** One case with all that the run has about it. Its address is `?case=POSITION`. */
export function CaseDrawer({ run, position, onClose, onMove, onNextFailure, onWhere }: Props) {
  const query = useQuery({
    queryKey: ["run", run, "case", position],
    queryFn: ({ signal }) => getCase(run, position, signal),
    placeholderData: keepPreviousData,
  });
  const view = useQuery(CASE_VIEW);
  useKeys("Case", [
    { keys: "j", label: "Next case", run: () => onMove(1) },
    { keys: "k", label: "Previous case", run: () => onMove(-1) },
    { keys: "n", label: "Next failure", run: onNextFailure },
    { keys: "Escape", label: "Close", run: onClose, inText: true },
  ]);
  const detail = query.data;
  const title = detail ? detail.caseId || `case ${detail.row.position}` : `case ${position}`;
  return (
    <Drawer
      wide
      beside
      title={<VisibleText text={title.slice(0, 300)} />}
      onClose={onClose}
      actions={
        <>
          <CopyButton text={() => window.location.href} label="Copy the link to this case" />
          <Button kind="plain" icon="up" aria-label="Previous case (k)" onClick={() => onMove(-1)} />
          <Button kind="plain" icon="down" aria-label="Next case (j)" onClick={() => onMove(1)} />
        </>
      }
    >
      {isLeftOut(query.error) ? (
        <Notice>{query.error.message}</Notice>
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : view.isError ? (
        <ErrorState error={view.error} retry={() => window.location.reload()} />
      ) : detail === undefined || view.data === undefined ? (
        <Loading label="Loading the case" lines={8} />
      ) : (
        <view.data.CaseView key={detail.row.position} detail={detail} onWhere={onWhere} />
      )}
    </Drawer>
  );
}

/** Whether a static report does not have the case. */
function isLeftOut(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === "not_in_report";
}
