// @vitest-environment happy-dom
import { fireEvent, render, screen, within } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import "~/testing/dom";
import { ContentView } from "./ContentView";
import { Picture } from "./Picture";

afterEach(() => vi.restoreAllMocks());

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

const PICTURE = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=";
const LONG_PICTURE = `data:image/png;base64,${"iVBORw0K".repeat(1_000)}`;

test.each([
  ["a text", PICTURE],
  ["a long text", LONG_PICTURE],
  ["the main text", { text: PICTURE, more: 1 }],
  ["a member of JSON", { chart: PICTURE }],
  ["a deep member of JSON", { list: [{ chart: LONG_PICTURE }], more: "x".repeat(100) }],
  ["a message", [{ role: "user", content: PICTURE }]],
  ["a part of a message", [{ role: "user", content: [{ type: "text", text: LONG_PICTURE }] }]],
])("data of a picture are a picture, and a click enlarges it: %s", (_, value) => {
  const { container } = render(<ContentView value={value} label="Output" />);
  const [url] = [PICTURE, LONG_PICTURE].filter((one) => JSON.stringify(value).includes(one));
  expect(container.querySelector("img")?.getAttribute("src")).toBe(url);
  expect(container.textContent).not.toContain("base64");
  fireEvent.click(screen.getByRole("button", { name: "Picture" }));
  expect(screen.getByRole("dialog", { name: "Picture" }).querySelector("img")?.getAttribute("src")).toBe(url);
});

test.each(["data:image/svg+xml;base64,PHN2Zz4=", `${PICTURE} and words`, "data:text/html;base64,AAAA"])("%s is text", (text) => {
  const { container } = render(<ContentView value={text} label="Output" />);
  expect(container.querySelector("img")).toBeNull();
  expect(container.textContent).toBe(text);
});

test("a block of code has a button that copies it, and nothing else", async () => {
  const writeText = vi.spyOn(navigator.clipboard, "writeText").mockResolvedValue();
  render(<ContentView value={"Run **this**:\n\n```sh\nls -l\n\techo `$HOME`\n```\n"} label="Output" />);
  fireEvent.click(screen.getByRole("button", { name: "Copy the code" }));
  expect(writeText).toHaveBeenCalledExactlyOnceWith("ls -l\n\techo `$HOME`");
  expect((await screen.findByText("Copied")).getAttribute("role")).toBe("status");
});

test.each([
  ["Markdown", "**a** ![a chart](https://example.com/a.png?q=1)"],
  ["a part of a message", [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://example.com/a.png?q=1" } }] }]],
])("a picture elsewhere in %s is not asked for; its button opens a new tab without a referrer", (_, value) => {
  const open = vi.spyOn(window, "open").mockReturnValue(null);
  const { container } = render(<ContentView value={value} label="Input" />);
  expect(container.querySelector("img, [src], [href], [style*=url]")).toBeNull();
  expect(container.textContent).toContain("https://example.com/a.png?q=1");
  fireEvent.click(screen.getByRole("button", { name: "Load in a new tab" }));
  expect(open).toHaveBeenCalledExactlyOnceWith("https://example.com/a.png?q=1", "_blank", "noopener,noreferrer");
  expect(container.querySelector("img")).toBeNull();
});

test("a picture with an address that is not of the web has no button", () => {
  render(<ContentView value={"**a** ![x](javascript:alert(1))"} label="Output" />);
  expect(screen.queryByRole("button")).toBeNull();
});

test("the name of a picture and of a value has no invisible character", () => {
  render(<ContentView value="text" label={"Memory a\u200bb"} />);
  expect(screen.getByRole("group", { name: "Memory a⟨ZWSP⟩b" })).toBeTruthy();
  render(<Picture url={PICTURE} text={"pay\u202epal"} />);
  fireEvent.click(screen.getByRole("button", { name: "pay⟨RLO⟩pal" }));
  expect(screen.getByRole("dialog", { name: "pay⟨RLO⟩pal" })).toBeTruthy();
});
