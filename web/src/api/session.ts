/**
 * The key of this tab. It is in memory and in sessionStorage, so a reload of the tab keeps it and another tab does not have it.
 * It is never in an address, never in a cookie, and never in localStorage.
 */
import { useSyncExternalStore } from "react";
import { tabStorage } from "~/state/storage";

export interface Session {
  key: string | null;
  reason: string; // why the last session ended; "" if there was none
}

const NAME = "assay.key";
const listeners = new Set<() => void>();
let session: Session = { key: tabStorage.get(NAME), reason: "" };

function set(next: Session): void {
  session = next;
  listeners.forEach((listener) => listener());
}

export function currentKey(): string | null {
  return session.key;
}

export function signIn(key: string): void {
  tabStorage.set(NAME, key);
  set({ key, reason: "" });
}

export function signOut(reason = ""): void {
  tabStorage.remove(NAME);
  set({ key: null, reason });
}

export function onSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useSession(): Session {
  return useSyncExternalStore(onSession, () => session);
}
