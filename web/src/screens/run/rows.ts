/** The rows of the table, page by page as they come into view, or the rows that a search found. */

import { keepPreviousData, useInfiniteQuery, type QueryClient, useQueries, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";

import { queryCases, searchCases, type CaseRow, type CasesAnswer, type CasesQuery, type SearchMatch } from "~/api/cases";

import { isSearch, queryOf, type View } from "./view";

export const PAGE = 100; // rows of a page; the most that the server gives with previews
const STRETCH = 1_000; // matches after which a search waits for a person
const MAX_MATCHES = 10_000; // the most positions that a filter of the server has

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
  query: CasesQuery; // of these rows, without a place
}

export interface SearchState {
  looked: number;
  total: number;
  complete: boolean;
  running: boolean;
  matches: number;
  stop: (() => void) | null;
  more: (() => void) | null; // goes on after a stop
  cut: boolean; // there may be further matches, and they cannot be shown
}

/** The rows of a view. A search looks only at the cases of the view, and its rows have the order of the view. */
export function useRows(run: string, view: View): Rows {
  const searched = isSearch(view);
  const search = useSearch(run, view);
  const query = queryOf(view);
  const pages = usePages(run, searched ? { ...query, filter: { ...query.filter, positions: search.positions } } : query);
  if (!searched) return pages;
  const { positions, ...found } = search;
  return { ...pages, ...found, total: positions.length === 0 ? 0 : pages.total, loading: found.loading || pages.loading, error: found.error ?? pages.error };
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
  void queries.prefetchQuery({ ...pageOptions(run, queryOf(view), 0), retry: false });
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
    match: noMatch,
    search: null,
    query,
  };
}

function noMatch(): undefined {
  return undefined;
}

interface Search extends Pick<Rows, "match" | "search" | "loading" | "error"> {
  positions: number[];
}

/**
 * Looks through the run, call by call, until its end or until it is stopped. It waits after each `STRETCH` of matches, so
 * that a filter of many cases does not ask for all of them, and ends at `MAX_MATCHES`.
 */
function useSearch(run: string, view: View): Search {
  const words = view.text.trim();
  const { filter } = queryOf(view);
  const search = useInfiniteQuery({
    queryKey: ["run", run, "search", words, view.where, filter],
    queryFn: ({ pageParam, signal }) => searchCases(run, { ...(words ? { text: words } : {}), ...(view.where.length > 0 ? { where: view.where } : {}), limit: PAGE, ...(filter ? { filter } : {}), ...(pageParam ? { cursor: pageParam } : {}) }, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next,
    enabled: isSearch(view),
    staleTime: 30_000,
  });
  const [most, setMost] = useState(STRETCH); // matches up to which it goes by itself; 0: it is stopped
  useEffect(() => setMost(STRETCH), [words, JSON.stringify([filter, view.where])]);
  const pages = search.data?.pages;
  const matches = useMemo(() => firstOfEach(pages?.flatMap((page) => page.matches) ?? []), [pages]);
  const { hasNextPage, isFetching, fetchNextPage, isError } = search;
  const further = hasNextPage && !isError;
  const more = further && matches.size < MAX_MATCHES;
  const goes = more && matches.size < most;
  useEffect(() => {
    if (goes && !isFetching) void fetchNextPage();
  }, [goes, isFetching, fetchNextPage]);
  const positions = useMemo(() => [...matches.keys()].slice(0, MAX_MATCHES), [matches]);
  const looked = pages?.at(-1)?.looked;
  return {
    positions,
    error: search.error,
    loading: search.isPending,
    match: useCallback((row: CaseRow) => (words ? matches.get(row.position) : undefined), [words, matches]),
    search: {
      looked: looked?.to ?? 0,
      total: looked?.total ?? 0,
      complete: looked?.complete ?? false,
      running: isFetching || goes,
      matches: positions.length,
      stop: goes ? () => setMost(0) : null,
      more: more && !goes ? () => setMost(matches.size + STRETCH) : null,
      cut: further && !more,
    },
  };
}

function firstOfEach(matches: SearchMatch[]): Map<number, SearchMatch> {
  const found = new Map<number, SearchMatch>();
  for (const match of matches) if (!found.has(match.position)) found.set(match.position, match);
  return found;
}

/** The index of a case among the rows of a query; null if it is not one of them. */
export async function placeOf(run: string, query: CasesQuery, position: number): Promise<number | null> {
  const answer = await queryCases(run, { ...query, include: [], limit: 1, place: position });
  return answer.place ?? null;
}

/** Every row of a query, for an export. It stops at `most` rows. */
export async function allRows(run: string, query: CasesQuery, most: number): Promise<CaseRow[]> {
  const rows: CaseRow[] = [];
  let cursor: string | undefined;
  do {
    const answer: CasesAnswer = await queryCases(run, { ...query, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
    rows.push(...answer.cases);
    cursor = answer.next;
  } while (cursor !== undefined && rows.length < most);
  return rows;
}
