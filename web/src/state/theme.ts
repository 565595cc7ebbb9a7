import { useSyncExternalStore } from "react";
import { browserStorage } from "./storage";

export type Theme = "system" | "light" | "dark";
const NAME = "assay.theme";
const listeners = new Set<() => void>();

function read(): Theme {
  const stored = browserStorage.get(NAME);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(): void {
  const theme = read();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(theme: Theme): void {
  if (theme === "system") browserStorage.remove(NAME);
  else browserStorage.set(NAME, theme);
  applyTheme();
  listeners.forEach((listener) => listener());
}

export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, read);
}
