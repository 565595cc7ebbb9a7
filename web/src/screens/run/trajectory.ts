/** The steps of an agent, folded into turns: a tool's call and its answer are one item. */

import type { Step, Usage } from "~/api/cases";

export interface ToolItem {
  kind: "tool";
  tool: string;
  at: number | null;
  inputs: unknown; // undefined: not stored
  answered: boolean;
  outcome: unknown;
  error: unknown;
  status: string;
  duration: number | null;
}

export interface NoteItem {
  kind: "said" | "reasoned" | "wrote" | "handed-off" | "other";
  at: number | null;
  title: string;
  text: unknown;
}

export type Item = ToolItem | NoteItem;

export interface Turn {
  number: number; // 0: before the first answer of a model
  at: number | null;
  usage: Usage | null;
  items: Item[];
}

/**
 * The turns of an agent. A turn starts with an answer of a model; steps before the first one are turn 0, and so are
 * those between a message of a user and the answer of a model.
 */
export function turnsOf(steps: readonly Step[]): Turn[] {
  const turns: Turn[] = [];
  const open = new Map<string, ToolItem>();
  let turn: Turn | null = null;
  const current = (): Turn => {
    if (turn === null) {
      turn = { number: 0, at: null, usage: null, items: [] };
      turns.push(turn);
    }
    return turn;
  };
  for (const step of steps) {
    const at = numberOf(step.at_ms);
    if (step.type === "used") {
      const number: number = turns.filter((one) => one.usage !== null).length + 1;
      turn = { number, at, usage: (step["usage"] ?? {}) as Usage, items: [] };
      turns.push(turn);
    } else if (step.type === "tool-called") {
      const item = toolItem(step, at);
      open.set(callKey(step), item);
      current().items.push(item);
    } else if (step.type === "tool-returned") {
      const called = open.get(callKey(step));
      const item = called ?? toolItem(step, at);
      if (called === undefined) current().items.push(item);
      answer(item, step);
      open.delete(callKey(step));
    } else {
      if (step.type === "said" && step["role"] === "user") turn = null;
      current().items.push(noteItem(step, at));
    }
  }
  return turns;
}

/** Whether a step is an error: a tool that failed, or that gave no answer. */
export function isFailed(item: Item): boolean {
  if (item.kind !== "tool") return false;
  return !item.answered || item.error !== undefined || (item.status !== "" && !["ok", "success", "succeeded"].includes(item.status));
}

/** The sum of the known costs, and whether some cost is not known. */
export function costOf(turns: readonly Turn[]): { usd: number; unknown: boolean } {
  const usages = turns.flatMap((turn) => (turn.usage === null ? [] : [turn.usage]));
  const costs = usages.map((usage) => numberOf(usage.cost_usd));
  return { usd: costs.reduce<number>((sum, cost) => sum + (cost ?? 0), 0), unknown: costs.includes(null) };
}

/** `openai:gpt-5`, without the provider twice. */
export function modelName(usage: Usage): string {
  const { provider = "", model = "" } = usage;
  return !provider || model.startsWith(`${provider}:`) ? model || "model" : `${provider}:${model}`;
}

function toolItem(step: Step, at: number | null): ToolItem {
  return {
    kind: "tool",
    tool: String(step["tool"] ?? "tool"),
    at,
    inputs: step["inputs"],
    answered: false,
    outcome: undefined,
    error: undefined,
    status: "",
    duration: null,
  };
}

function answer(item: ToolItem, step: Step): void {
  item.answered = true;
  item.outcome = step["outcome"];
  item.error = step["error"];
  item.status = String(step["status"] ?? "");
  item.duration = numberOf(step["duration_ms"]);
}

function noteItem(step: Step, at: number | null): NoteItem {
  switch (step.type) {
    case "said":
      return { kind: "said", at, title: step["role"] === "user" ? "User" : "Agent", text: step["content"] };
    case "reasoned":
      return { kind: "reasoned", at, title: "Reasoning", text: step["text"] };
    case "wrote":
      return { kind: "wrote", at, title: `Writes memory ${String(step["memory_id"] ?? "")}`.trim(), text: step["content"] };
    case "handed-off":
      return { kind: "handed-off", at, title: `Hand-off to ${String(step["to_agent_id"] ?? "")}`, text: step["reason"] };
    default:
      return { kind: "other", at, title: step.type, text: step };
  }
}

function callKey(step: Step): string {
  return String(step["call_id"] ?? step["tool"] ?? "");
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
