import "~/screens/run/run.css";
import "~/screens/run/case.css";
import "~/screens/compare/compare.css";
import "./verify.css";
import { useQuery } from "@tanstack/react-query";
import type { ScreenProps } from "~/app/routes";
import { DEPLOYMENT, getSnapshot, getTurns } from "~/api/decisions";
import { formatAddress } from "~/state/address";
import { Chip, CopyButton, ErrorState, isLive, Loading, StatusChip } from "~/ui";
import { LoopView } from "./LoopView";
import { PromotionView } from "./PromotionView";
import { outcomeOf } from "./words";

/** One run that people decide about: a verifier loop or a promotion. It follows the run while it is in flight. */
export default function VerifyScreen({ params }: ScreenProps) {
  const id = params["id"] ?? "";
  const run = useQuery({
    queryKey: ["decision", id],
    queryFn: ({ signal }) => getSnapshot(id, signal),
    refetchInterval: (query) => pace(query.state.data?.status),
  });
  const promotion = run.data?.workflowId === DEPLOYMENT;
  const turns = useQuery({
    queryKey: ["decision", id, "turns", run.data?.status],
    queryFn: ({ signal }) => getTurns(id, signal),
    enabled: run.data !== undefined && !promotion,
    refetchInterval: () => pace(run.data?.status),
    placeholderData: (before) => before,
  });
  if (run.isPending)
    return (
      <div className="screen">
        <Loading />
      </div>
    );
  if (run.isError) return <ErrorState error={run.error} retry={() => void run.refetch()} />;
  const outcome = turns.data ? outcomeOf(turns.data) : null;
  return (
    <div className="screen verify">
      <header className="screen-head">
        <div className="verify-title">
          <a href={formatAddress("/verify")}>Approvals</a>
          <h1 className="truncate">{promotion ? `${run.data.agent?.agentId ?? ""} ${run.data.agent?.version ?? ""}` : run.data.workflowId}</h1>
        </div>
        <span className="grow" />
        {outcome ? <Chip tone={outcome[0]}>{outcome[1]}</Chip> : <StatusChip status={run.data.status} />}
        <span className="row faint">
          <span className="mono truncate verify-id">{id}</span>
          <CopyButton text={id} label="Copy the id of the run" />
        </span>
      </header>
      {promotion ? (
        <PromotionView run={run.data} />
      ) : turns.isError ? (
        <ErrorState error={turns.error} retry={() => void turns.refetch()} />
      ) : turns.data ? (
        <LoopView log={turns.data} />
      ) : (
        <Loading lines={8} />
      )}
    </div>
  );
}

/** How often a run is read again: often while it works, seldom while it waits, and never after its end. */
function pace(status: string | undefined): number | false {
  if (status === undefined || !isLive(status)) return false;
  return status.startsWith("waiting") ? 5_000 : 700;
}
