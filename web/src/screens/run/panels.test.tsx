// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { type ReactNode, useMemo } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Overview } from "~/api/cases";
import { changeParams, useAddress } from "~/state/address";
import "~/testing/dom";
import { Distributions } from "./Distributions";
import { Filters } from "./Filters";
import { Slices } from "./Slices";
import { filterTexts, groupings, suggestionsOf } from "./slices";
import { viewOf } from "./view";

const overview = {
  run: { runId: "r", score: { value: 0.5 } },
  columns: [{ index: 0, label: "exact" }, { index: 1, label: "helpful" }],
  latency: { medianMs: 1 },
  cost: null,
  effective: { corrected: ["c1"] },
} as unknown as Overview;

const MODEL = "$.output.metadata.model";
const VALUES = { tag: ["warranty", "sale"], tier: ["free", "pro"], [MODEL]: ["m-1"], "a:b": ["x"], odd: ["a\u202eb", " x"] };
const slice = (name: string, rest = {}) => ({ name, cases: 4, rate: "50.0% (1–99%)", ...rest });
const ANSWERS: Record<string, object> = {
  reason: { slices: [{ name: "helpful: too short", cases: 61 }], members: ["tag", "tier"], values: VALUES },
  tag: { slices: [slice("warranty", { difference: "−20 points", verdict: "worse" }), slice("sale")], members: ["tag", "tier"] },
  tier: { slices: [slice("free")], members: ["tag", "tier"] },
  check: { slices: [slice("helpful")], members: [] },
};

let requests: string[] = [];
beforeEach(() => {
  requests = [];
  vi.stubGlobal("fetch", async (address: string) => {
    const { pathname, searchParams } = new URL(address);
    requests.push(`${pathname.split("/").at(-1)} ${searchParams.get("by") ?? ""}`.trim());
    if (pathname.endsWith("distributions")) return Response.json({ distributions: DISTRIBUTIONS });
    const by = searchParams.get("by") ?? "";
    return ANSWERS[by] ? Response.json({ by, more: 0, counted: true, ...ANSWERS[by] }) : Response.json({ error: {} }, { status: 400 });
  });
});
afterEach(() => vi.unstubAllGlobals());

const show = (children: ReactNode) => render(<QueryClientProvider client={new QueryClient()}>{children}</QueryClientProvider>);
const address = () => decodeURIComponent(window.location.hash);

/** The filters and the panels, with their state in the address. */
function Run({ onCheck = () => undefined }: { onCheck?: (label: string) => void }) {
  const { params } = useAddress();
  const view = useMemo(() => viewOf(params), [params]);
  const only = (by: string, name: string) => changeParams({ where: `${by}:${encodeURIComponent(name)}` });
  return (
    <Slices run="r" live={false} judged={false} results={8} failures where={view.where} failing={["helpful"]} onWhere={({ by, name }) => only(by, name)} onCheck={onCheck}>
      <Filters overview={overview} view={view} change={changeParams} />
    </Slices>
  );
}

const field = () => screen.getByRole<HTMLInputElement>("combobox", { name: "Add a filter" });
const type = (text: string) => fireEvent.change(field(), { target: { value: text } });
const add = (text: string) => {
  type(text);
  fireEvent.submit(field().form!);
};
const offered = () => [...field().list!.options].map((option) => option.value);
const chips = () => screen.queryAllByRole("button", { name: /^Remove the filter/ }).map((button) => button.textContent?.trim());

test("a click on a slice and on a group of failures shows only their cases", async () => {
  show(<Run />);
  const slices = await screen.findByRole("region", { name: "Slices" });
  const warranty = await within(slices).findByRole("button", { name: /warranty/ });
  expect(warranty.textContent).toBe("warranty450.0% (1–99%)−20 points");
  fireEvent.click(warranty);
  expect(address()).toContain("where=tag:warranty");
  expect(warranty.getAttribute("aria-pressed")).toBe("true");
  const group = screen.getByRole("button", { name: /too short/ });
  expect(group.textContent).toBe("×61helpful: too short");
  fireEvent.click(group);
  expect(address()).toContain("where=reason:helpful");
  expect([warranty, group].map((one) => one.getAttribute("aria-pressed"))).toEqual(["false", "true"]);
});

test("the chosen grouping is in the address", async () => {
  const onCheck = vi.fn();
  const { unmount } = show(<Run onCheck={onCheck} />);
  const select = () => screen.getByRole<HTMLSelectElement>("combobox", { name: "Slices by" });
  await waitFor(() => expect(select().value).toBe("tag"));
  expect([...select().options].map((option) => option.text)).toEqual(["By tag", "By tier", "By model", "By check"]);
  fireEvent.change(select(), { target: { value: "check" } });
  expect(address()).toContain("by=check");
  const helpful = await within(screen.getByRole("region", { name: "Slices" })).findByRole("button", { name: /^helpful/ });
  expect(helpful.getAttribute("aria-pressed")).toBe("true");
  fireEvent.click(helpful);
  expect(onCheck).toHaveBeenCalledWith("helpful");
  unmount();
  requests = [];
  show(<Run />);
  await waitFor(() => expect(select().value).toBe("check"));
  expect(requests.toSorted()).toEqual(["slices check", "slices reason"]);
});

test("a run whose outputs name no model has no slices by model", () => {
  const answer = { by: "reason", slices: [], more: 0, members: ["tag", "tier"], counted: true };
  expect(groupings({ ...answer, values: { tag: ["a"] } }, "tag")).toEqual(["tag", "tier", "check"]);
  expect(groupings({ ...answer, values: { [MODEL]: ["m"] } }, "$.test_case.x")).toEqual(["tag", "tier", MODEL, "check", "$.test_case.x"]);
});

test.each([[["m-1"], 0], [["m-1", "m-2"], 1]])("a run with the models %j and nothing else to tell its cases apart has %d panel of slices", async (models, panels) => {
  const { tag, reason } = ANSWERS;
  Object.assign(ANSWERS, { tag: { slices: [slice("(none)")], members: ["tag"] }, reason: { ...reason, members: ["tag"], values: { [MODEL]: models } } });
  show(<Run />);
  await screen.findByRole("region", { name: "What fails" });
  await waitFor(() => expect(screen.queryAllByRole("region", { name: "Slices" })).toHaveLength(panels));
  Object.assign(ANSWERS, { tag, reason });
});

test("the field suggests what the run has", async () => {
  show(<Run />);
  await waitFor(() => expect(field().list).toBeTruthy());
  await waitFor(() => expect(offered()).toContain("tag=warranty"));
  expect(offered()).toEqual([
    ...["check:exact=fail", "check:exact=pass", "check:helpful=fail", "check:helpful=pass", "corrected", "score<", "score>", "latency>", "latency<"],
    ...["tag=warranty", "tag=sale", "tier=free", "tier=pro", "model=m-1"],
  ]);
  type("TIER");
  expect(offered()).toEqual(["tier=free", "tier=pro"]);
  expect(requests.toSorted()).toEqual(["slices reason", "slices tag"]); // those of the panels
  expect(filterTexts({ ...overview, run: { ...overview.run, score: null }, columns: [], latency: null, effective: undefined } as Overview)).toEqual([]);
  expect(suggestionsOf(Array.from({ length: 200 }, (_, at) => `tag=${at}`), "tag")).toHaveLength(50);
});

test("filters of each kind are chips that combine, and a click removes one", async () => {
  window.location.hash = "#/runs/r?show=failed&q=refund";
  show(<Run />);
  await waitFor(() => expect(offered()).toContain("model=m-1"));
  for (const text of ["tag=warranty", "tag=sale", "check:helpful=fail", "check:exact=pass", "latency>2s", "corrected", "model=m-1"]) add(text);
  expect(chips()).toEqual(["tag warranty", "tag sale", "model m-1", "check:helpful=fail", "check:exact=pass", "corrected", "latency>2000"]);
  for (const part of ["show=failed", "q=refund", "check=1,0:pass", "corrected=true", "limits=latency>2000"]) expect(address()).toContain(part);
  fireEvent.click(screen.getByRole("button", { name: "Remove the filter check:helpful=fail" }));
  fireEvent.click(screen.getByRole("button", { name: "Remove the filter tag sale" }));
  expect(chips()).toEqual(["tag warranty", "model m-1", "check:exact=pass", "corrected", "latency>2000"]);
});

test("a filter that means nothing is refused beside the field", async () => {
  show(<Run />);
  await screen.findByRole("combobox", { name: "Add a filter" });
  add("check:tone=fail");
  expect(screen.getByRole("alert").textContent).toBe("There is no check tone.");
  expect(field().getAttribute("aria-invalid")).toBe("true");
  expect(field().value).toBe("check:tone=fail");
  for (let at = 0; at < 11; at += 1) add(`tag=${at}`);
  expect(chips()).toHaveLength(10);
  expect(screen.getByRole("alert").textContent).toContain("There are 10 filters of this kind already.");
});

const bar = (low: number, high: number, results: number) => ({ low, high, results });
const DISTRIBUTIONS = [
  { name: "score", results: 8, median: 0.5, bars: [bar(0, 0.5, 2), bar(0.5, 1, 6)] },
  { name: "latency_ms", results: 8, median: 1_500, bars: [bar(1_000, 2_000, 8), bar(2_000, 3_000, 0)] },
  { name: "cost_usd", results: 4, median: 0.25, bars: [bar(0, 0.25, 1), bar(0.25, 0.5, 3)] },
];

test("numbers that differ between results are drawn, each with its text", async () => {
  show(<Distributions run="r" version="1" measured />);
  const drawn = await screen.findAllByRole("img");
  expect(drawn.map((one) => one.getAttribute("aria-label"))).toEqual([
    "Score of 8 results: from 0.000 to 1.000, median 0.500",
    expect.stringMatching(/^Cost of 4 results: from \$0.* to \$0\.50.*, median \$0\.25/),
  ]); // each result has the same latency
  const [low, high] = [...drawn[0]!.querySelectorAll("rect")].map((rect) => Number(rect.getAttribute("height")));
  expect(low! * 3).toBeCloseTo(high!);
  expect(drawn[0]!.querySelector("title")?.textContent).toBe("0.000 to 0.500: 2 results");
});

test("a run without a result has no distributions, and asks for none", () => {
  const { container } = show(<Distributions run="r" version="1" measured={false} />);
  expect(container.innerHTML).toBe("");
  expect(requests).toEqual([]);
});
