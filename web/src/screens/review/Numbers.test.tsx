// @vitest-environment happy-dom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import type { Review, ReviewCase } from "~/api/review";
import "~/testing/dom";
import { Numbers } from "./Numbers";

const answered = (caseId: string, mine: boolean, judge: boolean, people: Record<string, boolean>): ReviewCase => ({ position: 0, caseId, mine, judge, people });
const numbers = { agreement: 0.75, kappa: 0.5, low: 0.1, high: 0.9, why: "", cases: 4, judgedRate: 0.72, bias: 0.1, biasLow: 0.02, biasHigh: 0.2, rate: 0.6, rateLow: 0.4, rateHigh: 0.8, rateLabels: 4, rateWhy: "" };
const review = (cases: ReviewCase[]) => ({ you: "me", noun: "case", judge: "helpful", people: ["me", "bob"], rows: [["bias", "as the command says it"]], cases, numbers }) as unknown as Review;

test("cases on which people or the judge disagree are listed, and each opens its case", () => {
  const go = vi.fn();
  const cases = [answered("same", true, true, { me: true }), answered("judge-\u202e", true, false, { me: true }), answered("people", true, true, { me: true, bob: false })];
  render(<Numbers review={review(cases)} go={go} />);
  const list = within(screen.getByRole("region", { name: "Disagreements" }));
  expect(list.getByRole("heading").textContent).toBe("Disagreements (2)");
  expect(list.getAllByRole("listitem").map((item) => item.querySelector(".quiet")?.textContent)).toEqual(["you pass, judge fail", "people differ: pass, fail; judge pass"]);
  expect(list.getAllByRole("button")[0]?.textContent).toContain("RLO");
  fireEvent.click(list.getByRole("button", { name: "people" }));
  expect(go).toHaveBeenCalledWith(2);
  expect(screen.getByText("2 people answer:", { exact: false }).textContent).toContain("you, bob");
});

test("without a disagreement there is no list, and the bias is in points", () => {
  render(<Numbers review={review([answered("same", true, true, { me: true })])} go={() => {}} />);
  expect(screen.queryByRole("region", { name: "Disagreements" })).toBeNull();
  const status = screen.getByRole("status", { name: "Numbers" }).textContent;
  expect(status).toContain("Bias of the judge+10.0 points95% +2.0…+20.0: the judge passes more than people");
  expect(status).toContain("Agreement with the judge75.0%");
});
