/** How content is shown, in this browser: as a person reads it, as text, or as it is stored. */
import { useSyncExternalStore } from "react";
import { browserStorage } from "~/state/storage";

export type Mode = "rendered" | "text" | "raw";
export const MODES: readonly (readonly [Mode, string])[] = [
  ["rendered", "Rendered"],
  ["text", "Text"],
  ["raw", "Raw"],
];
const NAME = "assay.content";
const listeners = new Set<() => void>();

function read(): Mode {
  const stored = browserStorage.get(NAME);
  return stored === "text" || stored === "raw" ? stored : "rendered";
}

export function setMode(mode: Mode): void {
  if (mode === "rendered") browserStorage.remove(NAME);
  else browserStorage.set(NAME, mode);
  listeners.forEach((listener) => listener());
}

export function useMode(): Mode {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, read);
}
