import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const NAME = "assay.theme";
const listeners = new Set<() => void>();

function read(): Theme {
  const stored = localStorage.getItem(NAME);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(): void {
  const theme = read();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(theme: Theme): void {
  if (theme === "system") localStorage.removeItem(NAME);
  else localStorage.setItem(NAME, theme);
  applyTheme();
  listeners.forEach((listener) => listener());
}

export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, read);
}
