/** The rows of the table, page by page as they come into view, or the rows that a search found. */

import { keepPreviousData, useInfiniteQuery, type QueryClient, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";

import { queryCases, searchCases, type CaseRow, type CasesAnswer, type CasesQuery, type SearchMatch } from "~/api/cases";

import { queryOf, type View } from "./view";

export const PAGE = 100; // rows of a page; the most that the server gives with previews
const MIN_MATCHES = 50; // a search goes on by itself until it has this many,
const MAX_CALLS = 12; // or until it has called the server so often
const MAX_MATCHES = 200;

export interface Rows {
  total: number;
  at: (index: number) => CaseRow | undefined; // undefined: not loaded yet
  load: (index: number) => Promise<CaseRow | undefined>;
  onRange: (first: number, last: number) => void;
  first: CasesAnswer | undefined; // has the counts of the whole run
  error: unknown;
  loading: boolean;
  match: (row: CaseRow) => SearchMatch | undefined;
  search: SearchState | null;
}

export interface SearchState {
  looked: number;
  total: number;
  complete: boolean;
  running: boolean;
  matches: number;
  more: (() => void) | null;
}

/** The rows of a view. */
export function useRows(run: string, view: View): Rows {
  const pages = usePages(run, queryOf({ ...view, text: "" }));
  const found = useSearch(run, view.text);
  return view.text.trim() ? { ...found, first: pages.first } : pages;
}

function pageOptions(run: string, query: CasesQuery, page: number) {
  return {
    queryKey: ["run", run, "cases", query, page] as const,
    queryFn: ({ signal }: { signal: AbortSignal }) => queryCases(run, { ...query, limit: PAGE, offset: page * PAGE }, signal),
    staleTime: 30_000,
    gcTime: 60_000,
  };
}

/** Ask for the first rows of a view before the rest of the screen is known. */
export function prefetchRows(queries: QueryClient, run: string, view: View): void {
  void queries.prefetchQuery({ ...pageOptions(run, queryOf({ ...view, text: "" }), 0), retry: false });
}

function usePages(run: string, query: CasesQuery): Rows {
  const queries = useQueryClient();
  const [range, setRange] = useState<[number, number]>([0, 0]);
  const wanted = useMemo(() => {
    const many = new Set([0]);
    for (let page = range[0]; page <= range[1]; page += 1) many.add(page);
    return [...many];
  }, [range]);
  const options = useCallback((page: number) => pageOptions(run, query, page), [run, JSON.stringify(query)]);
  const results = useQueries({ queries: wanted.map((page) => ({ ...options(page), placeholderData: keepPreviousData })) });
  const loaded = new Map<number, CaseRow[]>();
  wanted.forEach((page, at) => {
    const result = results[at];
    if (result?.data && !result.isPlaceholderData) loaded.set(page, result.data.cases);
  });
  const first = results[0]?.data;
  const at = (index: number) => loaded.get(Math.floor(index / PAGE))?.[index % PAGE];
  return {
    total: first?.matching ?? 0,
    at,
    load: async (index) => {
      const answer = await queries.fetchQuery(options(Math.floor(index / PAGE)));
      return answer.cases[index % PAGE];
    },
    onRange: useCallback((low: number, high: number) => {
      const next: [number, number] = [Math.floor(low / PAGE), Math.floor(high / PAGE)];
      setRange((now) => (now[0] === next[0] && now[1] === next[1] ? now : next));
    }, []),
    first,
    error: results.find((result) => result.error !== null)?.error ?? null,
    loading: results[0]?.isPending ?? true,
    match: () => undefined,
    search: null,
  };
}

function useSearch(run: string, text: string): Rows {
  const words = text.trim();
  const search = useInfiniteQuery({
    queryKey: ["run", run, "search", words],
    queryFn: ({ pageParam, signal }) => searchCases(run, { text: words, limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) }, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next,
    enabled: words !== "",
    staleTime: 30_000,
  });
  const [goal, setGoal] = useState({ matches: MIN_MATCHES, calls: MAX_CALLS });
  useEffect(() => setGoal({ matches: MIN_MATCHES, calls: MAX_CALLS }), [words]);
  const pages = search.data?.pages;
  const matches = useMemo(() => firstOfEach(pages?.flatMap((page) => page.matches) ?? []), [pages]);
  const calls = pages?.length ?? 0;
  const { hasNextPage, isFetching, fetchNextPage, isError } = search;
  useEffect(() => {
    const short = matches.size < Math.min(goal.matches, MAX_MATCHES) && calls < goal.calls;
    if (hasNextPage && !isFetching && !isError && short) void fetchNextPage();
  }, [hasNextPage, isFetching, isError, fetchNextPage, matches.size, calls, goal]);

  const positions = useMemo(() => [...matches.keys()].slice(0, MAX_MATCHES), [matches]);
  const rows = useQuery({
    queryKey: ["run", run, "cases", "positions", positions],
    queryFn: ({ signal }) => rowsAt(run, positions, signal),
    enabled: positions.length > 0,
    placeholderData: keepPreviousData,
  });
  const byPosition = useMemo(() => new Map((rows.data ?? []).map((row) => [row.position, row])), [rows.data]);
  const at = (index: number) => byPosition.get(positions[index] ?? -1);
  const looked = pages?.at(-1)?.looked;
  return {
    total: positions.length,
    at,
    load: (index) => Promise.resolve(at(index)),
    onRange: () => undefined,
    first: undefined,
    error: search.error ?? rows.error,
    loading: search.isPending,
    match: (row) => matches.get(row.position),
    search: {
      looked: looked?.to ?? 0,
      total: looked?.total ?? 0,
      complete: looked?.complete ?? false,
      running: isFetching,
      matches: matches.size,
      more: hasNextPage && positions.length < MAX_MATCHES ? () => setGoal({ matches: matches.size + MIN_MATCHES, calls: calls + MAX_CALLS }) : null,
    },
  };
}

async function rowsAt(run: string, positions: number[], signal: AbortSignal): Promise<CaseRow[]> {
  const rows: CaseRow[] = [];
  for (let start = 0; start < positions.length; start += PAGE) {
    const some = positions.slice(start, start + PAGE);
    const answer = await queryCases(run, { filter: { positions: some }, include: ["preview"], limit: PAGE }, signal);
    rows.push(...answer.cases);
  }
  return rows;
}

function firstOfEach(matches: SearchMatch[]): Map<number, SearchMatch> {
  const found = new Map<number, SearchMatch>();
  for (const match of matches) if (!found.has(match.position)) found.set(match.position, match);
  return found;
}

/** Every row of a view, for an export. It stops at `most` rows. */
export async function allRows(run: string, view: View, most: number): Promise<CaseRow[]> {
  const rows: CaseRow[] = [];
  let cursor: string | undefined;
  do {
    const answer: CasesAnswer = await queryCases(run, { ...queryOf(view), limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
    rows.push(...answer.cases);
    cursor = answer.next;
  } while (cursor !== undefined && rows.length < most);
  return rows;
}
