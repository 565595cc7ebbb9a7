import "./trajectory.css";
import { useMemo, useState } from "react";

import type { Step, Usage } from "~/api/cases";
import { ContentView } from "~/content/ContentView";
import { textOf } from "~/content/shapes";
import { useParam } from "~/state/address";
import { Button } from "~/ui/controls";
import { count, duration as formatDuration, money, plural } from "~/ui/format";
import { VisibleText } from "~/ui/VisibleText";

import { costOf, isFailed, type Item, modelName, type ToolItem, type Turn, turnsOf } from "./trajectory";

/** The steps of an agent: a tree of turns with their times and costs, and beside it the step that is chosen. `live`: tools were called; else fixtures answered. */
export function Timeline({ steps, live }: { steps: readonly Step[]; live: boolean }) {
  const turns = useMemo(() => turnsOf(steps), [steps]);
  const [chosen, setChosen] = useParam("step");
  const [closed, setClosed] = useState<ReadonlySet<number>>(new Set());
  const cost = costOf(turns);
  const models = turns.filter((turn) => turn.usage !== null).length;
  const said = steps.filter((step) => step.type === "said" && step["role"] === "user").length;
  const tools = turns.flatMap((turn) => turn.items).filter((item) => item.kind === "tool").length;
  const all = turns.flatMap((turn, at) => turn.items.map((item, index) => ({ name: `${at + 1}.${index + 1}`, item })));
  const shown = all.find((one) => one.name === chosen) ?? all.find((one) => isFailed(one.item)) ?? all[0];
  const toggle = (at: number) => {
    const next = new Set(closed);
    if (!next.delete(at)) next.add(at);
    setClosed(next);
  };
  return (
    <>
      <div className="row wrap">
        <p className="quiet">
          {said > 0 && `${plural(said, "turn")}, `}
          {plural(models, "model call")}, {plural(tools, "tool call")}
          {models > 0 && ` · ${cost.unknown ? "cost not known" : money(cost.usd)}`}
          {tools > 0 && ` · tools: ${live ? "live" : "fixtures"}`}
        </p>
        <span className="grow" />
        {turns.length > 1 && (
          <Button kind="plain" size="small" onClick={() => setClosed(closed.size > 0 ? new Set() : new Set(turns.keys()))}>
            {closed.size > 0 ? "Expand all" : "Collapse all"}
          </Button>
        )}
      </div>
      <div className="trajectory">
        <ol className="timeline" aria-label="Steps">
          {turns.map((turn, at) => (
            <li key={at} className="turn">
              <TurnHead turn={turn} noun={said > 0 ? "Model call" : "Turn"} open={!closed.has(at)} onToggle={() => toggle(at)} />
              {!closed.has(at) && (
                <ul className="steps">
                  {turn.items.map((item, index) => {
                    const name = `${at + 1}.${index + 1}`;
                    return (
                      <li key={index}>
                        <button type="button" className={`step step-${item.kind}${isFailed(item) ? " step-failed" : ""}`} aria-pressed={name === shown?.name} onClick={() => setChosen(name)}>
                          <StepLine item={item} />
                        </button>
                      </li>
                    );
                  })}
                </ul>
              )}
            </li>
          ))}
        </ol>
        {shown && (
          <section className="trajectory-step" aria-label="Chosen step">
            {shown.item.kind === "tool" ? <ToolView item={shown.item} live={live} /> : <NoteView item={shown.item} />}
          </section>
        )}
      </div>
    </>
  );
}

function TurnHead({ turn, noun, open, onToggle }: { turn: Turn; noun: string; open: boolean; onToggle: () => void }) {
  const before = turn.items[0]?.kind === "said" ? "Message" : "Start";
  return (
    <button type="button" className="turn-head" aria-expanded={open} onClick={onToggle}>
      <span className="turn-number">{turn.usage === null ? before : `${noun} ${turn.number}`}</span>
      {turn.usage !== null && <UsageText usage={turn.usage} />}
      <Time at={turn.at} />
    </button>
  );
}

/** One line of the tree: what the agent did, and how long it took. */
function StepLine({ item }: { item: Item }) {
  const [name, text] = item.kind === "tool" ? [item.tool, textOf(item.inputs ?? "")] : [item.title, textOf(item.text ?? "")];
  return (
    <>
      <span className="step-title">
        <VisibleText text={name} />
      </span>
      <span className="faint truncate step-text">
        <VisibleText text={text.slice(0, 120)} />
      </span>
      {isFailed(item) && <span className="source source-failed">failed</span>}
      <Time at={null} duration={item.kind === "tool" ? item.duration : null} />
    </>
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

function NoteView({ item }: { item: Exclude<Item, ToolItem> }) {
  return (
    <>
      <div className="step-head">
        <span className="step-title">
          <VisibleText text={item.title} />
        </span>
        <Time at={item.at} />
      </div>
      {item.text !== undefined && <ContentView value={item.text} label={item.title} />}
    </>
  );
}

function ToolView({ item, live }: { item: ToolItem; live: boolean }) {
  return (
    <>
      <div className="step-head">
        <span className="step-title">
          <code>
            <VisibleText text={item.tool} />
          </code>
        </span>
        <span className="source">{live ? "live" : "fixture"}</span>
        {isFailed(item) && item.answered && (
          <span className="source source-failed">
            <VisibleText text={item.status ? `failed (${item.status})` : "failed"} />
          </span>
        )}
        {!item.answered && <span className="source source-failed">no answer</span>}
        <Time at={item.at} duration={item.duration} />
      </div>
      <span className="arrow">call</span>
      <ContentView value={item.inputs} label={`Arguments of ${item.tool}`} />
      {item.answered && (
        <>
          <span className="arrow">{item.error === undefined ? "answer" : "error"}</span>
          <ContentView value={item.error ?? item.outcome} label={`Answer of ${item.tool}`} />
        </>
      )}
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
