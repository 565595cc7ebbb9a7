import { queryOptions } from "@tanstack/react-query";

/** A part of a screen that is loaded apart from it, once: `useQuery(PART).data` is its module. */
export function part<T>(name: string, load: () => Promise<T>) {
  return queryOptions({ queryKey: ["part of the page", name], queryFn: load, staleTime: Infinity, gcTime: Infinity, structuralSharing: false });
}
