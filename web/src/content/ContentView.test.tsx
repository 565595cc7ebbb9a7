// @vitest-environment happy-dom
import { render, screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import "~/testing/dom";
import { ContentView } from "./ContentView";

const messages = () => within(screen.getByRole("group", { name: "Input" })).getAllByRole("listitem");

test("a conversation has its tool calls in place, and each answer names its call", () => {
  const talk = [
    { role: "user", content: "Where is **17**?" },
    { role: "assistant", content: null, tool_calls: [{ id: "call_1", function: { name: "find", arguments: '{"order": 17}' } }] },
    { role: "tool", name: "find", tool_call_id: "call_1", content: '{"state": "sent"}' },
    { role: "assistant", content: "It is sent." },
  ];
  render(<ContentView value={{ messages: talk, tier: "pro" }} label="Input" />);
  expect(messages().map((message) => message.textContent)).toEqual([
    "userWhere is 17?",
    'assistantcalls findcall_1{"order": 17}',
    'tool · findcall_1{"state": "sent"}',
    "assistantIt is sent.",
  ]);
  expect(within(messages()[0]!).getByText("17").tagName).toBe("STRONG");
  expect(screen.getByRole("group", { name: "Input" }).textContent).toContain('{"tier": "pro"}');
});

test.each([
  [{ content: null, refusal: "I cannot **do** that." }, "refusalI cannot do that."],
  [{ content: "Hi.", reasoning_content: "greet" }, "reasoning_contentgreetHi."],
  [{ content: null, function_call: { name: "find", arguments: '{"order": 17}' } }, 'calls find{"order": 17}'],
  [{ content: "Hi.", audio: { id: "a1" } }, 'Hi.{"audio": {"id": "a1"}}'],
  [{ content: "" }, "Empty."],
])("the message %j shows all of its members", (message, text) => {
  render(<ContentView value={[{ role: "assistant", ...message }]} label="Input" />);
  expect(messages()[0]?.textContent).toBe(`assistant${text}`);
});
