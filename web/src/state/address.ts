/**
 * The state of the page is in the fragment of its address: `#/runs?status=failed&q=refund`.
 *
 * A browser never sends the fragment to a server, so a search text is in no log. A link to any state can be shared.
 */
import { useCallback, useMemo, useSyncExternalStore } from "react";

export interface Address {
  path: string;
  params: URLSearchParams;
}

const listeners = new Set<() => void>();
window.addEventListener("hashchange", () => listeners.forEach((listener) => listener()));

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function parseAddress(hash: string): Address {
  const text = hash.replace(/^#/, "");
  const cut = text.indexOf("?");
  const path = cut < 0 ? text : text.slice(0, cut);
  return { path: path.startsWith("/") ? path : "/", params: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)) };
}

export function formatAddress(path: string, params?: URLSearchParams | Record<string, string | undefined>): string {
  const search = new URLSearchParams();
  const entries = params instanceof URLSearchParams ? [...params] : Object.entries(params ?? {});
  for (const [name, value] of entries) if (value) search.append(name, value);
  const text = search.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
  return `#${path}${text ? `?${text}` : ""}`;
}

/** Go to an address of the page. `replace` leaves no entry in the history: for typing in a search field. */
export function navigate(address: string, options?: { replace?: boolean }): void {
  const hash = address.startsWith("#") ? address : `#${address}`;
  if (hash === window.location.hash) return;
  if (options?.replace) window.history.replaceState(null, "", hash);
  else window.history.pushState(null, "", hash);
  listeners.forEach((listener) => listener());
}

export function useAddress(): Address {
  const hash = useSyncExternalStore(subscribe, () => window.location.hash);
  return useMemo(() => parseAddress(hash), [hash]);
}

/** The address of now, outside of a component. */
export function currentAddress(): Address {
  return parseAddress(window.location.hash);
}

type Change = Record<string, string | undefined>;

/** Change parameters of this address; `undefined` or "" removes one. */
export function changeParams(change: Change, options?: { replace?: boolean }): void {
  const { path, params } = currentAddress();
  for (const [name, value] of Object.entries(change)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  navigate(formatAddress(path, params), options);
}

/** One parameter of the address as state: `const [sort, setSort] = useParam("sort", "-created")`. */
export function useParam(name: string, initial = ""): [string, (value: string, options?: { replace?: boolean }) => void] {
  const { params } = useAddress();
  const value = params.get(name) ?? initial;
  const set = useCallback(
    (next: string, options?: { replace?: boolean }) =>
      changeParams({ [name]: next === initial ? undefined : next }, { replace: true, ...options }),
    [name, initial],
  );
  return [value, set];
}

/** A parameter with several values, separated by commas: `?status=failed,running`. */
export function useListParam(name: string): [string[], (values: string[]) => void] {
  const [text, set] = useParam(name);
  const values = useMemo(() => (text ? text.split(",").map(decodeURIComponent) : []), [text]);
  const setValues = useCallback((next: string[]) => set(next.map(encodeURIComponent).join(",")), [set]);
  return [values, setValues];
}

/** The variables of a path that fits `pattern` (`/runs/:id`), or null. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/").filter(Boolean);
  const parts = path.split("/").filter(Boolean);
  if (wanted.length !== parts.length) return null;
  const found: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const actual = parts[index] ?? "";
    if (part.startsWith(":")) {
      try {
        found[part.slice(1)] = decodeURIComponent(actual);
      } catch {
        return null;
      }
    } else if (part !== actual) return null;
  }
  return found;
}
