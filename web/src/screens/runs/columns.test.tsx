// @vitest-environment happy-dom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import type { RunRow } from "~/api/runs";
import { setSize } from "~/testing/dom";
import { DataTable } from "~/ui";
import { runColumns } from "./columns";

const NUMBERS = { status: "completed", score: null, passed: null, counts: null, total: null, costUsd: null, durationMs: null, createdAt: "2026-11-19T09:00:00Z" };
const run = (runId: string, more: Partial<RunRow>) => ({ ...NUMBERS, runId, kind: "evaluation", name: runId, ...more }) as RunRow;
const RUNS = [
  run("agent", { agentId: "shop", agentVersion: "1.1", models: ["m-1"], commit: { id: "1f3a9c2b7d55", clean: false }, tags: ["prompt=v3", "night=1"] }),
  run("outputs", { models: ["m-1", "m-2"], commit: { id: "88c1d02e4f00", clean: true } }),
  run("nothing", {}),
];

test("a row of the list has what tells its run apart: agent, models, commit and tags", () => {
  setSize(1_600);
  const onTag = vi.fn();
  render(<DataTable label="Runs" columns={runColumns(onTag, new Map())} rows={RUNS} rowKey={(one) => one.runId} />);
  const headers = screen.getAllByRole("columnheader").map((header) => header.textContent);
  const cell = (at: number, name: string) => {
    const row = screen.getAllByRole("row").filter((one) => one.dataset["line"] !== undefined)[at] as HTMLElement;
    return within(row).getAllByRole("gridcell")[headers.indexOf(name)] as HTMLElement;
  };
  expect([0, 1, 2].map((at) => cell(at, "Agent and model").textContent)).toEqual(["shop1.1 · m-1", "m-1, m-2", "–"]);
  expect([0, 1, 2].map((at) => cell(at, "Commit and tags").textContent)).toEqual(["1f3a9c2prompt=v3+1", "88c1d02", ""]);
  expect(cell(0, "Commit and tags").firstElementChild?.getAttribute("title")).toBe("commit 1f3a9c2b7d and changed files, prompt=v3, night=1");
  fireEvent.click(within(cell(0, "Commit and tags")).getByRole("button", { name: "prompt=v3" }));
  expect(onTag).toHaveBeenCalledWith("prompt=v3");
});
