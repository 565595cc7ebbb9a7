import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, test, vi } from "vitest";

vi.hoisted(() => {
  vi.stubGlobal("document", { baseURI: "http://localhost/" });
  vi.stubGlobal("window", { addEventListener: () => undefined, location: { hash: "" } });
});

import { JsonTree } from "./JsonTree";
import { Markdown } from "./Markdown";
import { isTame } from "./tame";
import { isPicture, mainText, messagesOf, outsideAddress, parsed, readableText, textOf } from "./shapes";

const TALK = [
  { role: "system", content: "Be brief." },
  { role: "user", content: [{ type: "text", text: "What is it?" }, { type: "image_url", image_url: { url: "https://example.com/a.png" } }] },
  { role: "assistant", content: null, tool_calls: [{ id: "1", function: { name: "find", arguments: '{"id": 17}' } }] },
  { role: "tool", name: "find", content: '{"state": "sent"}' },
];

describe("conversations", () => {
  test("messages have roles, parts, pictures and calls", () => {
    const found = messagesOf({ messages: TALK, user: "ada" });
    expect(found?.map((one) => [one.role, one.parts.map((part) => part.kind)])).toEqual([
      ["system", ["text"]],
      ["user", ["text", "image"]],
      ["assistant", ["call"]],
      ["tool", ["text"]],
    ]);
    expect(found?.[2]?.parts[0]).toEqual({ kind: "call", call: { id: "1", name: "find", input: { id: 17 } } });
    expect(readableText(TALK)).toContain("assistant:\ncalls find (1) {\"id\": 17}\n\ntool (find):\n");
  });
  test.each<[object, unknown[], string]>([
    [{ content: null, refusal: "I cannot." }, [{ kind: "text", text: "I cannot.", label: "refusal" }], "refusal: I cannot."],
    [{ refusal: "I cannot." }, [{ kind: "text", text: "I cannot.", label: "refusal" }], "refusal: I cannot."],
    [{ content: [{ type: "refusal", refusal: "No." }] }, [{ kind: "text", text: "No.", label: "refusal" }], "refusal: No."],
    [{ content: "Hi.", reasoning_content: "greet" }, [{ kind: "text", text: "greet", label: "reasoning_content" }, { kind: "text", text: "Hi." }], "reasoning_content: greet\nHi."],
    [{ content: [{ type: "thinking", thinking: "hm", signature: "s" }] }, [{ kind: "text", text: "hm", label: "thinking" }, { kind: "json", value: { signature: "s" } }], 'thinking: hm\n{"signature": "s"}'],
    [{ function_call: { name: "find", arguments: '{"id": 17}' } }, [{ kind: "call", call: { name: "find", input: { id: 17 }, id: "" } }], 'calls find {"id": 17}'],
    [{ content: "Hi.", audio: { id: "a1" }, annotations: [], refusal: null }, [{ kind: "text", text: "Hi." }, { kind: "json", value: { audio: { id: "a1" } } }], 'Hi.\n{"audio": {"id": "a1"}}'],
    [{ content: [{ type: "text", text: "Hi.", citations: ["b"] }] }, [{ kind: "text", text: "Hi." }, { kind: "json", value: { citations: ["b"] } }], 'Hi.\n{"citations": ["b"]}'],
    [{ content: [{ type: "tool_result", content: "gone", is_error: true }] }, [{ kind: "text", text: "gone" }, { kind: "json", value: { is_error: true } }], 'gone\n{"is_error": true}'],
    [{ tool_calls: [{ id: "1", type: "tool_call", name: "find", args: {} }, "odd"] }, [{ kind: "call", call: { name: "find", input: {}, id: "1" } }, { kind: "json", value: "odd" }], "calls find (1) {}\nodd"],
    [{ tool_calls: { odd: 1 } }, [{ kind: "json", value: { tool_calls: { odd: 1 } } }], '{"tool_calls": {"odd": 1}}'],
  ])("nothing of the message %j is left out", (message, parts, text) => {
    const talk = [{ role: "assistant", ...message }];
    expect(messagesOf(talk)?.[0]?.parts).toEqual(parts);
    expect(readableText(talk)).toBe(`assistant:\n${text}`);
  });
  test.each([[[]], [[1]], [{ messages: "x" }], ["text"], [null], [[{ role: "user" }]], [[{ role: 1, content: "x" }]]])("%j is no conversation", (value) => {
    expect(messagesOf(value)).toBeNull();
  });
});

test.each([
  [{ text: "a", more: 1 }, { text: "a", rest: { more: 1 } }],
  [{ answer: "a" }, { text: "a", rest: null }],
  [{ text: "" }, null],
  [{ other: "a" }, null],
  ["a", null],
])("the main text of %j", (value, expected) => expect(mainText(value)).toEqual(expected));

test.each([
  ["data:image/png;base64,AAAA", true, null],
  ["data:image/png;base64,AAAA\r\nAA==\n", true, null],
  ["data:image/png;base64,AAAA and words", false, null],
  ["data:image/png;base64,AA==AA", false, null],
  ["data:image/svg+xml;base64,AAAA", false, null],
  ["data:text/html;base64,AAAA", false, null],
  ["https://example.com/a.png", false, "https://example.com/a.png"],
  ["javascript:alert(1)", false, null],
  ["//example.com/a.png", false, null],
])("%s is drawn: %s, elsewhere: %s", (url, drawn, outside) => {
  expect(isPicture(url)).toBe(drawn);
  expect(outsideAddress(url)).toBe(outside);
});

test.each([
  ["[1, 2]", [1, 2]],
  ["{broken", "{broken"],
  ["plain", "plain"],
])("%s holds %j", (text, value) => expect(parsed(text)).toEqual(value));

test("a readable text has the lines of JSON texts, and Raw has them escaped", () => {
  const value = { steps: "one\ntwo", list: [{ name: "a long member that does not fit", other: "into one line of this text at all" }, 2], none: null };
  expect(readableText(value)).toBe("steps:\n    one\n    two\nlist:\n  -\n    name: a long member that does not fit\n    other: into one line of this text at all\n  - 2\nnone: null");
  expect(textOf(value)).toContain("one\\ntwo");
});

const HOSTILE = [
  "<script>window.hacked = 1</script>",
  "<img src=x onerror='window.hacked = 1'>",
  "[click](javascript:alert(1))",
  "![x](https://example.com/steal?q=1)",
  "![x](data:image/svg+xml;base64,PHN2Zz4=)",
  "[a]: javascript:alert(1)\n\n[a] ![a]",
  "<https://example.com>",
  "> <iframe src=x>",
  "| <b>x</b> | [y](https://z.example) |\n|---|---|\n| <img src=x> | 2 |",
  "```html\n<script>window.hacked = 1</script>\n```",
  "*".repeat(200) + "a",
  "[".repeat(200),
];

describe("markdown", () => {
  test.each(HOSTILE)("%s has no active element", (text) => {
    const html = renderToStaticMarkup(<Markdown text={text} />);
    expect(html).not.toMatch(/<(script|img|iframe|a|b|style|link|object)[\s>]/);
    expect(html).not.toMatch(/<[^>]*\s(href|src|on\w+)=/);
  });
  test("is drawn as nodes, a link as text with its address", () => {
    const html = renderToStaticMarkup(<Markdown text={"# Title\n\n1. **one**\n2. `two`\n\n[Terms](https://example.com/t)\n\n```json\n{}\n```"} />);
    expect(html).toContain('<p class="md-heading md-heading-1">Title</p>');
    expect(html).toContain("<strong>one</strong>");
    expect(html).toContain('Terms <span class="md-address">(https://example.com/t)</span>');
    expect(html).toContain("<pre>{}</pre>");
  });
  test.each([
    ["# Rule\n\nMatch `\\d+` or \\d+ and \\*never\\* **more**.", ["\\d+", "\\*never\\*"]],
    ["- one \\_two\\_\n- C:\\new\\*.txt", ["one \\_two\\_", "C:\\new\\*.txt"]],
    ["> **a** \\# b\n> c \\- d", ["\\# b\nc \\- d"]],
    ["**say** &lt;b&gt; and &amp;amp;", ["&lt;b&gt; and &amp;amp;"]],
    ["1. one\n1. two\n7. seven", ['value="1"', 'value="7"']],
    ["**a**\\\nb", ["\\<br/>b"]],
    ["[a](https://example.com/ \"a title\") **b**", ["https://example.com/ a title"]],
    ["```python title=x\n\\n\n```", ["python title=x", "<pre>\\n</pre>"]],
    ["| a |\n|---|\n| \\| |", ["\\|"]],
  ])("%j loses no character that was sent", (text, kept) => {
    const html = renderToStaticMarkup(<Markdown text={text} />).replaceAll("&amp;", "&");
    for (const part of kept) expect(html).toContain(part);
  });
  test("labels invisible characters", () => expect(renderToStaticMarkup(<Markdown text={"**a\u202eb**"} />)).toContain("RLO"));
});

test("a tree of JSON has the lines of its texts, and hostile names and texts stay text", () => {
  const html = renderToStaticMarkup(<JsonTree value={{ "<b>": "<img src=x>\nline", deep: { list: [1, { a: "x".repeat(100) }] } }} />);
  expect(html).toContain("&lt;b&gt;");
  expect(html).toContain("&lt;img src=x&gt;\nline");
  expect(html).not.toMatch(/<(img|b)[\s>]/);
});

test.each([
  ["# A title\n\n- one\n- two\n", true],
  ["1. ".repeat(10_000), false],
  ["> ".repeat(50), false],
  ["**a*".repeat(10_000), false],
  ["\n\n- a".repeat(2_000), false],
  ["word ".repeat(5_000), false],
])("a text of Markdown that begins with %s is parsed: %s", (text, tame) => expect(isTame(text)).toBe(tame));

test("what is closed in a large tree is not drawn", () => {
  const large = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`m${at}`, { text: `hidden ${at} ${"x".repeat(200)}`, more: ["y".repeat(100)] }]));
  const html = renderToStaticMarkup(<JsonTree value={large} />);
  expect(html).toContain("m299");
  expect(html).not.toContain("hidden");
});
