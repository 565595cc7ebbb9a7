/** Keeps the list true while runs change: a long request that answers as soon as something shown changed or a run is new. */
import { type InfiniteData, type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { ApiError } from "~/api/client";
import { type RunFilter, type RunRow, type RunsAnswer, runChanges } from "~/api/runs";
import { pause } from "~/api/stream";
import { throttle } from "~/api/throttle";
import { isLive } from "~/ui";

type Pages = InfiniteData<RunsAnswer, string | undefined>;
const MAX_WATCHED = 200;
const REFRESH_MS = 400;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5_000;

/** Whether a row belongs to a list with this filter; null: only the server knows. */
export function fits(row: RunRow, filter: RunFilter): boolean | null {
  if (filter.kind && !filter.kind.includes(row.kind)) return false;
  if (filter.status && !filter.status.includes(row.status)) return false;
  if (filter.name !== undefined && row.name !== filter.name) return false;
  if (filter.passed !== undefined && row.passed !== filter.passed) return false;
  if (filter.agentId !== undefined && row.agentId !== filter.agentId) return false;
  if (filter.tag !== undefined && !(row.tags ?? []).includes(filter.tag)) return false;
  return filter.text === undefined && filter.since === undefined && filter.until === undefined ? true : null;
}

/** The pages with changed rows in their places and new ones at the top. */
export function merge(pages: Pages, changed: RunRow[], created: RunRow[], filter: RunFilter, newestFirst: boolean): Pages {
  const news = new Map([...changed, ...created].map((row) => [row.runId, row]));
  const there = new Set<string>();
  const next = pages.pages.map((page) => ({
    ...page,
    runs: page.runs?.flatMap((row) => {
      there.add(row.runId);
      const other = news.get(row.runId);
      return other === undefined ? [row] : fits(other, filter) === false ? [] : [other];
    }),
  }));
  const first = next[0];
  if (first?.runs && newestFirst) {
    first.runs = [...created.filter((row) => !there.has(row.runId) && fits(row, filter) === true), ...first.runs];
  }
  return { ...pages, pages: next };
}

interface Options {
  key: QueryKey;
  rows: RunRow[];
  filter: RunFilter;
  newestFirst: boolean;
  enabled: boolean;
  now: string | undefined; // of the server, with the first page
  onNews: () => Promise<unknown>; // counts and groups may have changed
}

export function useLiveRuns({ key, rows, filter, newestFirst, enabled, now, onNews }: Options): void {
  const queries = useQueryClient();
  const shown = useRef({ rows, onNews });
  shown.current = { rows, onNews };
  const signature = JSON.stringify(key);
  useEffect(() => {
    if (!enabled || now === undefined) return;
    const stop = new AbortController();
    const news = throttle(() => shown.current.onNews(), REFRESH_MS);
    let since = now;
    const loop = async () => {
      let wait = FIRST_WAIT_MS;
      while (!stop.signal.aborted) {
        const watch = shown.current.rows.filter((row) => isLive(row.status)).slice(0, MAX_WATCHED);
        try {
          const answer = await runChanges(
            { since, watch: watch.map(({ runId, version }) => ({ runId, version })), kind: filter.kind, waitSeconds: 15 },
            stop.signal,
          );
          wait = FIRST_WAIT_MS;
          const { changed, created } = answer;
          if (created[0] && created[0].createdAt > since) since = created[0].createdAt;
          if (changed.length + created.length > 0) {
            const isAsking = queries.getQueryState(key)?.fetchStatus === "fetching";
            queries.setQueryData<Pages>(key, (pages) => pages && merge(pages, changed, created, filter, newestFirst));
            if (isAsking) void queries.invalidateQueries({ queryKey: key }); // its answer may be older than this news, and would undo it
            news.call();
            await pause(REFRESH_MS, stop.signal); // a run with many results changes all the time
          }
        } catch (error) {
          if (stop.signal.aborted || (error instanceof ApiError && !error.temporary)) return;
          await pause(wait, stop.signal);
          wait = Math.min(wait * 2, LONGEST_WAIT_MS);
        }
      }
    };
    void loop();
    return () => {
      stop.abort();
      news.stop();
    };
  }, [queries, signature, enabled, now === undefined]);
}
