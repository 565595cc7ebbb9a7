/** Follows a run that is in flight: each event of its stream brings the numbers and the visible cases up to date. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { runChanges, type RunRow } from "~/api/runs";
import { follow, pause, type StreamEvent, type StreamState } from "~/api/stream";
import { throttle } from "~/api/throttle";
import { isLive } from "~/ui/display";

const REFRESH_MS = 700;
const LARGE = 2_000; // cases; the stream of an evaluation has every result with its content
const ENDS = ["run.completed", "run.failed", "run.cancelled"];

/** Follow the run. Returns the state of the connection. */
export function useLive(run: RunRow | undefined): StreamState {
  const queries = useQueryClient();
  const [state, setState] = useState<StreamState>("closed");
  const id = run?.runId;
  const kind = run?.kind;
  const live = run !== undefined && isLive(run.status);
  const large = (run?.total ?? 0) > LARGE;
  useEffect(() => {
    if (id === undefined || !live) return;
    const abort = new AbortController();
    const refresh = throttle(() => queries.invalidateQueries({ queryKey: ["run", id] }), REFRESH_MS);
    const stream = kind === "evaluation" ? `/v1/evaluations/${encodeURIComponent(id)}/events` : `/v1/runs/${encodeURIComponent(id)}/events`;
    const done =
      kind === "evaluation" && large
        ? watch(id, abort.signal, refresh.call)
        : follow(stream, { signal: abort.signal, onEvent: refresh.call, onState: setState }, isLast);
    done.catch(() => setState("closed")).finally(() => abort.signal.aborted || refresh.call());
    return () => {
      abort.abort();
      refresh.stop();
    };
  }, [id, kind, live, large, queries]);
  return live ? state : "closed";
}

function isLast(event: StreamEvent): boolean {
  if (ENDS.includes(event.type)) return true;
  return event.type === "progress" && /"status":"(completed|failed|cancelled)"/.test(event.data);
}

/** A long poll instead of the stream, without content. */
async function watch(runId: string, signal: AbortSignal, refresh: () => void): Promise<void> {
  let version = "";
  while (!signal.aborted) {
    try {
      const { changed } = await runChanges({ watch: [{ runId, version }], waitSeconds: 20 }, signal);
      const row = changed[0];
      if (row !== undefined) {
        version = row.version;
        refresh();
        if (!isLive(row.status)) return;
      }
      await pause(REFRESH_MS, signal);
    } catch {
      await pause(4 * REFRESH_MS, signal);
    }
  }
}
