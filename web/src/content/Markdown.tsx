import type { ListItem, Nodes, RootContent, Text } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmTableFromMarkdown } from "mdast-util-gfm-table";
import { gfmTable } from "micromark-extension-gfm-table";
import { useMemo, type ReactNode } from "react";

import { CopyButton } from "~/ui/controls";
import { VisibleText } from "~/ui/VisibleText";

import { Picture } from "./Picture";

const MAX_DEPTH = 30;

/**
 * Markdown as nodes of React, from its syntax tree. HTML in it stays text, and a link is text with its address. What is not
 * markup keeps every character: `\\d`, `\\*` and `&lt;` are shown as they were sent.
 */
export function Markdown({ text }: { text: string }) {
  const tree = useMemo(() => fromMarkdown(text, { extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()] }), [text]);
  return <div className="markdown">{childrenOf(tree, 0, text)}</div>;
}

function childrenOf(node: Nodes, depth: number, source: string): ReactNode {
  if (!("children" in node)) return null;
  return node.children.map((child, at) => <Node key={at} node={child as RootContent} depth={depth + 1} source={source} />);
}

function Node({ node, depth, source }: { node: RootContent; depth: number; source: string }): ReactNode {
  if (depth > MAX_DEPTH) return <VisibleText text={sourceOf(node, source)} />;
  const inner = () => childrenOf(node, depth, source);
  switch (node.type) {
    case "text":
      return <VisibleText text={writtenText(node, source)} />;
    case "paragraph":
      return <p>{inner()}</p>;
    case "heading":
      return <p className={`md-heading md-heading-${node.depth}`}>{inner()}</p>; // the headings of the page are its own
    case "emphasis":
      return <em>{inner()}</em>;
    case "strong":
      return <strong>{inner()}</strong>;
    case "inlineCode":
      return (
        <code>
          <VisibleText text={node.value} />
        </code>
      );
    case "code":
      return <CodeBlock text={node.value} language={[node.lang, node.meta].filter(Boolean).join(" ")} />;
    case "blockquote":
      return <blockquote>{inner()}</blockquote>;
    case "list":
      return node.ordered ? <ol>{inner()}</ol> : <ul>{inner()}</ul>;
    case "listItem":
      return <li value={numberOf(node, source)}>{inner()}</li>;
    case "break":
      return (
        <>
          {sourceOf(node, source).trim()}
          <br />
        </>
      );
    case "thematicBreak":
      return <hr />;
    case "link":
      return (
        <span className="md-link">
          {inner()} <Address url={node.title ? `${node.url} ${node.title}` : node.url} />
        </span>
      );
    case "image":
      return <Picture url={node.url} text={node.alt ?? ""} />;
    case "table":
      return (
        <table>
          <tbody>{inner()}</tbody>
        </table>
      );
    case "tableRow":
      return <tr>{inner()}</tr>;
    case "tableCell":
      return <td>{inner()}</td>;
    default: // HTML, definitions and references: as they are written
      return <VisibleText text={sourceOf(node, source)} />;
  }
}

function Address({ url }: { url: string }) {
  return (
    <span className="md-address">
      (<VisibleText text={url} />)
    </span>
  );
}

function CodeBlock({ text, language }: { text: string; language: string }) {
  return (
    <div className="md-code">
      <div className="md-code-head">
        <span className="faint">
          <VisibleText text={language} />
        </span>
        <CopyButton text={text} label="Copy the code" />
      </div>
      <pre>
        <VisibleText text={text} />
      </pre>
    </div>
  );
}

/** The text as it is written: an escape or an entity is no markup for a reader, and loses a character. */
function writtenText(node: Text, source: string): string {
  const raw = sourceOf(node, source);
  if (raw === node.value || !/[\\&]/.test(raw)) return node.value;
  return raw.replace(/\n[ \t>]*/g, "\n"); // what begins a line of a quote or a list is markup
}

/** The number that an item of an ordered list is written with. */
function numberOf(node: ListItem, source: string): number | undefined {
  const [number] = /^\d{1,9}(?=[.)])/.exec(sourceOf(node, source)) ?? [];
  return number === undefined ? undefined : Number(number);
}

function sourceOf(node: RootContent, source: string): string {
  const { start, end } = node.position ?? {};
  return source.slice(start?.offset ?? 0, end?.offset ?? 0);
}
