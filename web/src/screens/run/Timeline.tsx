import { useMemo } from "react";

import type { Step, Usage } from "~/api/cases";
import { count, duration as formatDuration, money, plural } from "~/ui/format";

import { Content } from "./Content";
import { costOf, modelName, turnsOf, type Item, type ToolItem, type Turn } from "./trajectory";
import { VisibleText } from "~/ui/VisibleText";

/** The steps of an agent: turns of its model, with the tool calls between them. `live`: tools were called; else fixtures answered. */
export function Timeline({ steps, live }: { steps: readonly Step[]; live: boolean }) {
  const turns = useMemo(() => turnsOf(steps), [steps]);
  const cost = costOf(turns);
  const models = turns.filter((turn) => turn.usage !== null).length;
  const tools = turns.flatMap((turn) => turn.items).filter((item) => item.kind === "tool").length;
  return (
    <>
      <p className="quiet">
        {plural(models, "model call")}, {plural(tools, "tool call")}
        {models > 0 && ` · ${cost.unknown ? "cost not known" : money(cost.usd)}`}
        {tools > 0 && ` · tools: ${live ? "live" : "fixtures"}`}
      </p>
      <ol className="timeline">
        {turns.map((turn, at) => (
          <TurnView key={at} turn={turn} live={live} />
        ))}
      </ol>
    </>
  );
}

function TurnView({ turn, live }: { turn: Turn; live: boolean }) {
  return (
    <li className="turn">
      {turn.usage !== null && (
        <div className="turn-head">
          <span className="turn-number">Turn {turn.number}</span>
          <UsageText usage={turn.usage} />
          <Time at={turn.at} />
        </div>
      )}
      <ul className="steps">
        {turn.items.map((item, at) => (
          <li key={at} className={`step step-${item.kind}`}>
            <ItemView item={item} live={live} />
          </li>
        ))}
      </ul>
    </li>
  );
}

export function UsageText({ usage }: { usage: Usage }) {
  const { input_tokens: input, output_tokens: output, cost_usd: cost } = usage;
  return (
    <span className="usage">
      <code>
        <VisibleText text={modelName(usage)} />
      </code>
      {input !== undefined && ` ${count(input)} tokens in`}
      {output !== undefined && `, ${count(output)} out`}
      {`, ${cost === undefined || cost === null ? "cost not known" : money(cost)}`}
      {usage.cached && ", cached"}
    </span>
  );
}

function ItemView({ item, live }: { item: Item; live: boolean }) {
  if (item.kind === "tool") return <ToolView item={item} live={live} />;
  return (
    <>
      <div className="step-head">
        <span className="step-title">
          <VisibleText text={item.title} />
        </span>
        <Time at={item.at} />
      </div>
      {item.text !== undefined && <Content value={item.text} label={item.title} />}
    </>
  );
}

function ToolView({ item, live }: { item: ToolItem; live: boolean }) {
  const failed = item.error !== undefined || (item.answered && item.status !== "" && !["ok", "success", "succeeded"].includes(item.status));
  return (
    <>
      <div className="step-head">
        <span className="step-title">
          <code>
            <VisibleText text={item.tool} />
          </code>
        </span>
        <span className="source">{live ? "live" : "fixture"}</span>
        {failed && <span className="source source-failed">failed{item.status && ` (${item.status})`}</span>}
        {!item.answered && <span className="source source-failed">no answer</span>}
        <Time at={item.at} duration={item.duration} />
      </div>
      <div className="step-body">
        <span className="arrow">call</span>
        <Content value={item.inputs} label={`Arguments of ${item.tool}`} />
        {item.answered && (
          <>
            <span className="arrow">{item.error === undefined ? "answer" : "error"}</span>
            <Content value={item.error ?? item.outcome} label={`Answer of ${item.tool}`} />
          </>
        )}
      </div>
    </>
  );
}

function Time({ at, duration }: { at: number | null; duration?: number | null }) {
  const parts = [
    duration === null || duration === undefined ? "" : `took ${formatDuration(duration)}`,
    at === null ? "" : `at ${formatDuration(at)}`,
  ].filter(Boolean);
  return parts.length === 0 ? null : <span className="step-time">{parts.join(" · ")}</span>;
}
