// @vitest-environment happy-dom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import "~/testing/dom";
import { Evidence } from "./Evidence";

const overview = { run: { score: { text: "0.900", low: 0.7, range: "0.700–0.980" }, passed: true }, findings: [] };
const result = { before: 0.9, after: 0.9, difference: 0, low: -0.1, high: 0.1, level: 0.95, method: "tango", cases: 40 };

test.each([
  [{ ...result, verdict: "not enough data", same: true }, "no change"],
  [{ ...result, verdict: "not enough data" }, "not enough data"],
  [{ ...result, verdict: "improved" }, "improved"],
])("the verdict against the active version is that of its headline: %j", (result, word) => {
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  queries.setQueryData(["run", "new", "overview"], overview);
  queries.setQueryData(["comparison", "old", "new"], { comparison: { comparisons: [{ result }] }, pairs: [{ headline: `90.0% → 90.0% ${word}` }] });
  render(
    <QueryClientProvider client={queries}>
      <Evidence run="new" active={{ agentId: "a", version: "1.0.0", state: "active", evalRunId: "old" }} />
    </QueryClientProvider>,
  );
  expect(screen.getByText(word).closest(".chip")).toBeTruthy();
  expect(screen.getByText(`90.0% → 90.0% ${word}`)).toBeTruthy();
  expect(screen.getByRole("link", { name: "compare with 1.0.0" }).getAttribute("href")).toContain("runs=old,new");
});
