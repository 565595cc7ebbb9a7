/** Whether the server answers. Every request tells it; the frame shows it, and queries run again when the server is back. */
import { useSyncExternalStore } from "react";

let reachable = true;
const listeners = new Set<() => void>();

export function reportReachable(next: boolean): void {
  if (next === reachable) return;
  reachable = next;
  listeners.forEach((listener) => listener());
}

export function onConnection(listener: (reachable: boolean) => void): () => void {
  const call = () => listener(reachable);
  listeners.add(call);
  return () => listeners.delete(call);
}

export function useReachable(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => reachable,
  );
}
