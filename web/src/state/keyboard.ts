/** Command keys: one letter, or two in a row (`g r`). A screen declares its own with `useKeys`; the help shows them all. */
import { useEffect, useRef, useSyncExternalStore } from "react";

export interface Command {
  keys: string; // "/", "?", "g r", "Escape", "mod+k"
  label: string;
  run: (event: KeyboardEvent) => void;
  inText?: boolean; // also while the focus is in a text field
  outside?: string; // a selector: not while the focus is within such an element
}

interface Layer {
  group: string;
  commands: Command[];
}

let layers: Layer[] = [];
let modals: ReadonlySet<Layer>[] = []; // for each open dialog: the keys that it covers
const listeners = new Set<() => void>();
let pending = "";
let pendingSince = 0;
const SEQUENCE_MS = 900;

function inText(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

window.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.altKey) return;
  const mod = event.ctrlKey || event.metaKey;
  const key = event.key.length === 1 && !mod ? event.key : event.key.toLowerCase();
  const pressed = mod ? `mod+${key}` : event.key.length === 1 ? key : event.key;
  const sequence = Date.now() - pendingSince < SEQUENCE_MS && pending ? `${pending} ${pressed}` : "";
  const typing = inText(event.target);
  const covered = modals.at(-1);
  const asked = [...layers].reverse().filter((layer) => !covered?.has(layer));
  for (const layer of asked) {
    for (const command of layer.commands) {
      if (typing && !command.inText) continue;
      if (command.outside && event.target instanceof Element && event.target.closest(command.outside)) continue;
      if (command.keys === sequence || command.keys === pressed) {
        pending = "";
        event.preventDefault();
        command.run(event);
        return;
      }
    }
  }
  pending = typing || mod || event.key.length !== 1 ? "" : pressed;
  pendingSince = Date.now();
});

/** Declare the keys of a screen or a dialog while it is shown. */
export function useKeys(group: string, commands: Command[]): void {
  const latest = useRef(commands);
  latest.current = commands;
  const shape = commands.map((command) => `${command.keys}=${command.label}`).join("\n");
  useEffect(() => {
    const layer = {
      group,
      commands: latest.current.map((command, index) => ({
        ...command,
        run: (event: KeyboardEvent) => latest.current[index]?.run(event),
      })),
    };
    layers = [...layers, layer];
    listeners.forEach((listener) => listener());
    return () => {
      layers = layers.filter((other) => other !== layer);
      listeners.forEach((listener) => listener());
    };
  }, [group, shape]);
}

/** Every declared key, for the help. */
export function useKeyLayers(): { group: string; commands: Command[] }[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => layers,
  );
}

/** A modal dialog owns the keyboard: keys that were declared before it opened do nothing until it closes. */
export function coverKeys(): () => void {
  const covered: ReadonlySet<Layer> = new Set(layers);
  modals = [...modals, covered];
  return () => {
    modals = modals.filter((other) => other !== covered);
  };
}
