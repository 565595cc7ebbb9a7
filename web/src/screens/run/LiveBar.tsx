import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { cancelRun, type Overview } from "~/api/cases";
import type { StreamState } from "~/api/stream";
import { Button } from "~/ui/controls";
import { describe, Notice, Progress } from "~/ui/display";
import { count } from "~/ui/format";
import { Dialog } from "~/ui/overlay";

import { timeLeftText } from "./progress";
import { nounOf } from "./words";

/** The progress of a run in flight: how much is done, the time left, and a button that cancels. */
export function LiveBar({ overview, connection }: { overview: Overview; connection: StreamState }) {
  const { run, progress } = overview;
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const cancel = useMutation({
    mutationFn: () => cancelRun(run.runId, run.kind),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["run", run.runId] }),
    onSettled: () => setAsking(false),
  });
  if (progress === null) return null;
  const noun = nounOf(overview);
  const left = timeLeftText(progress.secondsLeft);
  return (
    <section className="live-bar" aria-label="Progress">
      <div className="row wrap">
        <strong className="num">
          {progress.total === null ? `${count(progress.done)} ${noun}s so far` : `${count(progress.done)} of ${count(progress.total)} ${noun}s`}
        </strong>
        <span className="quiet num">
          {[left, progress.perSecond === null ? "" : `${progress.perSecond.toPrecision(2)} a second`].filter(Boolean).join(" · ")}
        </span>
        {connection === "waiting" && <span className="reason-error">The connection was lost. The page is trying again.</span>}
        <span className="grow" />
        <Button kind="danger" size="small" disabled={run.status === "cancelling" || cancel.isPending} onClick={() => setAsking(true)}>
          {run.status === "cancelling" ? "Cancelling" : "Cancel the run"}
        </Button>
      </div>
      {progress.total !== null && <Progress done={progress.done} total={progress.total} label={`${noun}s done`} />}
      {cancel.isError && <Notice tone="fail">{describe(cancel.error).text}</Notice>}
      {asking && (
        <Dialog
          title="Cancel this run?"
          onClose={() => setAsking(false)}
          foot={
            <>
              <Button onClick={() => setAsking(false)}>Keep it running</Button>
              <Button kind="danger" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
                Cancel the run
              </Button>
            </>
          }
        >
          <p>
            The {count(progress.done)} results so far stay. The other {progress.total === null ? "" : `${count(Math.max(0, progress.total - progress.done))} `}
            {noun}s are not measured.
          </p>
        </Dialog>
      )}
    </section>
  );
}
