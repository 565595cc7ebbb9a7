/** What a value is for a reader: a conversation, a text, a picture, or JSON. Pure functions. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface ToolCall {
  name: string;
  input: unknown; // JSON, or a text that is none
  id: string;
}

/** `label`: the member that a text is, if it is not the content. */
export type Part = { kind: "text"; text: string; label?: string } | { kind: "image"; url: string } | { kind: "call"; call: ToolCall } | { kind: "json"; value: unknown };

export interface Message {
  role: string;
  name: string; // of the tool that answers, or of the speaker
  callId: string; // of the call that is answered
  parts: Part[];
}

type Members = Record<string, unknown>;
const ONE_LINE = 88; // characters of a JSON value that stays on one line
const THOUGHTS = ["reasoning_content", "reasoning", "thinking"]; // texts that come before the content
const TEXTS = [...THOUGHTS, "refusal"];
const CONTENTS = ["content", "tool_calls", "function_call", "reasoning_content", "refusal"]; // a message has one of them
const MAIN = ["text", "content", "answer"] as const; // members that a person reads first

export function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The messages of a conversation: a list of objects with a role, alone or as the member `messages`. Null: it is none. */
export function messagesOf(value: unknown): Message[] | null {
  const list = isObject(value) && Array.isArray(value["messages"]) ? value["messages"] : value;
  if (!Array.isArray(list) || list.length === 0) return null;
  if (!list.every((one) => isObject(one) && typeof one["role"] === "string" && CONTENTS.some((name) => name in one))) return null;
  return (list as Members[]).map(messageOf);
}

/** A message. A member with content that has no place of its own is a part too: nothing of a message is left out. */
function messageOf(message: Members): Message {
  const { role, content, tool_calls: calls, function_call: call, tool_call_id: callId, ...others } = message;
  const name = ["name", "tool_name"].find((member) => typeof others[member] === "string") ?? "";
  const texts = textsOf(others);
  const rest = {
    ...(Array.isArray(calls) ? {} : { tool_calls: calls }),
    ...(isObject(call) ? {} : { function_call: call }),
    ...(typeof callId === "string" ? {} : { tool_call_id: callId }),
    ...(others["type"] === "message" ? { ...others, type: null } : others),
  };
  return {
    role: String(role),
    name: String(others[name] ?? ""),
    callId: typeof callId === "string" ? callId : "",
    parts: [
      ...texts.filter((text) => THOUGHTS.includes(text.label)),
      ...partsOf(content),
      ...texts.filter((text) => !THOUGHTS.includes(text.label)),
      ...(Array.isArray(calls) ? calls.flatMap(callOf) : []),
      ...(isObject(call) ? callOf(call) : []),
      ...otherParts(rest, [name, ...texts.map((text) => text.label)]),
    ],
  };
}

/** The texts of a message or a part that have a name of their own, such as a refusal. */
function textsOf(members: Members): { kind: "text"; text: string; label: string }[] {
  return TEXTS.flatMap((label) => {
    const text = members[label];
    return typeof text === "string" && text !== "" ? [{ kind: "text", text, label }] : [];
  });
}

/** The members with content that nothing else shows, as one part. */
function otherParts(members: Members, shown: readonly string[]): Part[] {
  const others = Object.entries(members).filter(([name, value]) => !shown.includes(name) && hasContent(value));
  return others.length === 0 ? [] : [{ kind: "json", value: Object.fromEntries(others) }];
}

function hasContent(value: unknown): boolean {
  if (value === null || value === undefined || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

/** What a conversation has beside its messages. */
export function besideMessages(value: unknown): Members | null {
  if (!isObject(value)) return null;
  const rest = Object.fromEntries(Object.entries(value).filter(([name]) => name !== "messages"));
  return Object.keys(rest).length > 0 ? rest : null;
}

/** The member of an object that a person reads first, and the others. Null: there is none. */
export function mainText(value: unknown): { text: string; rest: Members | null } | null {
  if (!isObject(value)) return null;
  const name = MAIN.find((one) => typeof value[one] === "string" && value[one] !== "");
  if (name === undefined) return null;
  const rest = Object.fromEntries(Object.entries(value).filter(([member]) => member !== name));
  return { text: String(value[name]), rest: Object.keys(rest).length > 0 ? rest : null };
}

function partsOf(content: unknown): Part[] {
  if (content === null || content === undefined || content === "") return [];
  if (typeof content === "string") return [{ kind: "text", text: content }];
  if (!Array.isArray(content)) return [{ kind: "json", value: content }];
  return content.flatMap(partOf);
}

/** A part of a message in the forms of the large providers. What is none of them is shown as JSON. */
function partOf(part: unknown): Part[] {
  if (typeof part === "string") return [{ kind: "text", text: part }];
  if (!isObject(part)) return [{ kind: "json", value: part }];
  if (typeof part["text"] === "string") return [{ kind: "text", text: part["text"] }, ...otherParts(part, ["type", "text"])];
  if (part["type"] === "tool_use") return callOf(part);
  if (part["type"] === "tool_result") return [...partsOf(part["content"]), ...otherParts(part, ["type", "content"])];
  const texts = textsOf(part);
  if (texts.length > 0) return [...texts, ...otherParts(part, ["type", ...texts.map((text) => text.label)])];
  const url = imageOf(part);
  return url === null ? [{ kind: "json", value: part }] : [{ kind: "image", url }, ...otherParts(part, ["type", "image_url", "source"])];
}

function imageOf(part: Members): string | null {
  const image = part["image_url"];
  if (typeof image === "string") return image;
  if (isObject(image) && typeof image["url"] === "string") return image["url"];
  const source = part["source"];
  if (isObject(source) && typeof source["data"] === "string" && typeof source["media_type"] === "string") return `data:${source["media_type"]};base64,${source["data"]}`;
  return isObject(source) && typeof source["url"] === "string" ? source["url"] : null;
}

function callOf(call: unknown): Part[] {
  if (!isObject(call)) return [{ kind: "json", value: call }];
  const { id, type, function: called, ...own } = call;
  const members: Members = isObject(called) ? { ...own, ...called } : { ...own, function: called };
  const input = ["arguments", "input", "args"].find((name) => members[name] !== undefined && members[name] !== null) ?? "";
  const named = typeof members["name"] === "string" ? "name" : "";
  return [
    { kind: "call", call: { name: String(members[named] ?? "tool"), input: parsed(members[input]), id: String(id ?? "") } },
    ...otherParts(members, [named, input]),
  ];
}

/** The JSON value that a text holds, if it is an object or a list; else the value itself. */
export function parsed(value: unknown): unknown {
  if (typeof value !== "string" || !/^\s*[[{]/.test(value) || value.length > 200_000) return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}

const PICTURE = /^data:image\/(png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/\r\n]+(?:={1,2}[\r\n]*)?$/;
const MAX_PICTURE = 8_000_000; // characters

/** Whether the page may draw it: a picture in the value itself, in a format that holds no script. */
export function isPicture(url: string): boolean {
  return url.length <= MAX_PICTURE && PICTURE.test(url);
}

/** The address of a picture elsewhere; null if it is none. The page never asks for it by itself. */
export function outsideAddress(url: string): string | null {
  try {
    const { protocol, href } = new URL(url);
    return protocol === "https:" || protocol === "http:" ? href : null;
  } catch {
    return null;
  }
}

/** The value as it is stored: a text as it is, anything else as JSON; a short value on one line. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === undefined) return ""; // not stored
  const lines = JSON.stringify(value, null, 2);
  if (lines.length > 2 * ONE_LINE) return lines;
  const line = lines.replace(/\n\s*/g, " ").replace(/([[{]) | (?=[\]}])/g, "$1");
  return line.length <= ONE_LINE && JSON.stringify(JSON.parse(line)) === JSON.stringify(value) ? line : lines;
}

/** The value as a text to read: a conversation by its speakers, JSON with the lines of its texts. */
export function readableText(value: unknown): string {
  if (typeof value === "string") return value;
  const messages = messagesOf(value);
  if (messages === null) return jsonText(value, "");
  const said = messages.map((message) => `${speakerText(message)}:\n${message.parts.map(partText).join("\n")}`);
  const rest = besideMessages(value);
  return [...said, ...(rest === null ? [] : [jsonText(rest, "")])].join("\n\n");
}

function speakerText({ role, name, callId }: Message): string {
  const about = [name, callId].filter(Boolean).join(", ");
  return about ? `${role} (${about})` : role;
}

function partText(part: Part): string {
  if (part.kind === "text") return part.label ? `${part.label}: ${part.text}` : part.text;
  if (part.kind === "image") return `[picture ${part.url.slice(0, 80)}]`;
  if (part.kind === "json") return jsonText(part.value, "");
  const { name, id, input } = part.call;
  return `calls ${name}${id && ` (${id})`} ${input === undefined ? "" : textOf(input)}`.trimEnd();
}

const MAX_DEPTH = 40;

function jsonText(value: unknown, indent: string): string {
  if (typeof value === "string") return value.includes("\n") ? `\n${value.replace(/^/gm, `${indent}  `)}` : value;
  if (typeof value !== "object" || value === null) return String(JSON.stringify(value));
  const short = textOf(value);
  if (!short.includes("\n") || indent.length > 2 * MAX_DEPTH) return short;
  const entries = Array.isArray(value) ? value.map((one) => ["-", one] as const) : Object.entries(value).map(([name, one]) => [`${name}:`, one] as const);
  const lines = entries.map(([name, one]) => {
    const text = jsonText(one, `${indent}  `);
    return `${indent}${name}${text.startsWith("\n") ? "" : " "}${text}`;
  });
  return `${indent && "\n"}${lines.join("\n")}`;
}
