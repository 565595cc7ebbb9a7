import "./content.css";
import { memo, useState } from "react";

import { Segments } from "~/ui/controls";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";

import { JsonTree } from "./JsonTree";
import { Folded, LongText, PlainText } from "./LongText";
import { Markdown } from "./Markdown";
import { type Mode, MODES, setMode, useMode } from "./mode";
import { Picture } from "./Picture";
import { besideMessages, isObject, isPicture, mainText, type Message, messagesOf, type Part, parsed, readableText, textOf, type ToolCall } from "./shapes";
import { isTame } from "./tame";

const MAX_MESSAGES = 60; // the last ones of a conversation; the others on demand
const MARKED = /(^|\n)\s{0,3}(#{1,6} |[-*+] |\d+[.)] |> |```|~~~|\|.*\|)|\*\*|__|`|\[[^\]\n]*\]\(|!\[|\*\S/;

/**
 * A value from outside, for every input, output, expected value, step and prompt: a conversation by its roles, Markdown,
 * a tree of JSON, pictures. Nothing in it is ever HTML, and no address in it is ever asked for. `exact`: a text that was
 * sent to a model is shown as it was sent, with the signs of its Markdown.
 */
export const ContentView = memo(function ContentView({ value, label, exact = false }: { value: unknown; label: string; exact?: boolean }) {
  const mode = useMode();
  if (value === undefined) return <p className="quiet">This content was not stored, or was erased.</p>;
  return <Shown value={value} label={plainText(label)} mode={exact && typeof value === "string" && mode === "rendered" ? "text" : mode} />;
});

/** The choice of how content is shown. It holds for all content, and stays. */
export function ContentMode() {
  return <Segments label="How content is shown" value={useMode()} options={MODES} onChange={setMode} />;
}

function Shown({ value, label, mode }: { value: unknown; label: string; mode: Mode }) {
  if (mode === "raw") return <LongText text={textOf(value)} label={label} />;
  if (mode === "text") return <LongText text={readableText(value)} label={label} />;
  const messages = messagesOf(value);
  if (messages !== null) return <Conversation messages={messages} rest={besideMessages(value)} label={label} />;
  const main = mainText(value);
  if (main !== null) {
    return (
      <>
        <RichText text={main.text} label={label} />
        {main.rest && <Tree value={main.rest} label={`${label}, other members`} />}
      </>
    );
  }
  if (typeof value !== "string") return <Tree value={value} label={label} />;
  const json = parsed(value);
  return typeof json === "string" ? <RichText text={json} label={label} /> : <Tree value={json} label={label} />;
}

function Tree({ value, label }: { value: unknown; label: string }) {
  if (!isObject(value) && !Array.isArray(value)) return <LongText text={textOf(value)} label={label} />;
  return (
    <div className="content">
      <div className="content-text" dir="auto" tabIndex={0} role="group" aria-label={label}>
        <JsonTree value={value} />
      </div>
    </div>
  );
}

/** A text of Markdown, a plain one, or the data of a picture. */
function RichText({ text, label }: { text: string; label: string }) {
  if (isPicture(text)) {
    return (
      <div className="content">
        <div className="content-text" role="group" aria-label={label}>
          <Picture url={text} />
        </div>
      </div>
    );
  }
  return (
    <Folded text={text} label={label}>
      {(shown) => <Rich text={shown} />}
    </Folded>
  );
}

function Rich({ text }: { text: string }) {
  return MARKED.test(text) && isTame(text) ? <Markdown text={text} /> : <PlainText text={text} />;
}

function Conversation({ messages, rest, label }: { messages: Message[]; rest: Record<string, unknown> | null; label: string }) {
  const [whole, setWhole] = useState(false);
  const hidden = whole ? 0 : Math.max(0, messages.length - MAX_MESSAGES);
  return (
    <div className="content">
      <div className="content-text conversation" tabIndex={0} role="group" aria-label={label}>
        {hidden > 0 && (
          <button type="button" className="button plain small" onClick={() => setWhole(true)}>
            {`Show the ${hidden} messages before`}
          </button>
        )}
        <ol>
          {messages.slice(hidden).map((message, at) => (
            <li key={at} className={`message message-${ROLES.includes(message.role) ? message.role : "other"}`}>
              <div className="message-head">
                <div className="message-role">
                  <VisibleText text={message.name ? `${message.role} · ${message.name}` : message.role} />
                </div>
                <CallId id={message.callId} />
              </div>
              <div className="message-body" dir="auto">
                {message.parts.length === 0 && <span className="quiet">Empty.</span>}
                {message.parts.map((part, index) => (
                  <PartView key={index} part={part} />
                ))}
              </div>
            </li>
          ))}
        </ol>
        {rest && <JsonTree value={rest} />}
      </div>
    </div>
  );
}

const ROLES = ["system", "developer", "user", "assistant", "tool"];

function PartView({ part }: { part: Part }) {
  switch (part.kind) {
    case "text":
      return part.label ? (
        <div className="message-member">
          <div className="quiet">{part.label}</div>
          <TextPart text={part.text} />
        </div>
      ) : (
        <TextPart text={part.text} />
      );
    case "image":
      return <Picture url={part.url} />;
    case "call":
      return <CallView call={part.call} />;
    case "json":
      return <JsonTree value={part.value} />;
  }
}

function TextPart({ text }: { text: string }) {
  if (isPicture(text)) return <Picture url={text} />;
  const json = parsed(text);
  return typeof json === "string" ? <LongPart text={json} /> : <JsonTree value={json} />;
}

const LONG = 4_000; // characters of a message that are shown at once

function LongPart({ text }: { text: string }) {
  if (text.length <= LONG) return <Rich text={text} />;
  return (
    <details className="long-part">
      <summary>
        <VisibleText text={text.slice(0, 300)} />… <span className="quiet">{`${text.length.toLocaleString("en-US")} characters`}</span>
      </summary>
      <Rich text={text} />
    </details>
  );
}

function CallView({ call }: { call: ToolCall }) {
  return (
    <div className="tool-call">
      <span className="quiet">calls</span>{" "}
      <code>
        <VisibleText text={call.name} />
      </code>
      <CallId id={call.id} />
      {call.input !== undefined && <JsonTree value={call.input} />}
    </div>
  );
}

/** What ties an answer to its call. */
function CallId({ id }: { id: string }) {
  return id === "" ? null : (
    <code className="call-id">
      <VisibleText text={id.slice(0, 100)} />
    </code>
  );
}
