import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";

import type { Overview } from "~/api/cases";
import { Button, Field } from "~/ui/controls";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";

import { filterTexts, slicesQuery, suggestionsOf } from "./slices";
import { checksText, checkText, filterOf, limitText, MAX_FILTERS, MODEL, REASON, type View, whereText, withCheck } from "./view";

interface Props {
  overview: Overview;
  view: View;
  change: (params: Record<string, string | undefined>) => void;
}

/**
 * Filters that combine with the search and the order, as chips, and a field that adds one. It suggests what the run has, as
 * far as the slices have been read.
 */
export function Filters({ overview, view, change }: Props) {
  const { run, columns } = overview;
  const reasons = useQuery({ ...slicesQuery(run.runId, REASON), enabled: false });

  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const id = useId();
  const list = useId();
  const suggestions = suggestionsOf(filterTexts(overview, reasons.data?.values), text);
  const { where, limits, checks } = view;
  const setLimits = (next: typeof limits) => change({ limits: next.map(limitText).join(",") || undefined });
  const setChecks = (next: typeof checks) => change({ check: checksText(next) });
  const setWhere = (next: typeof where) => change({ where: whereText(next) });
  const add = () => {
    if (text.trim() === "") return;
    const filter = filterOf(text, columns, reasons.data?.values);
    const many = "where" in filter ? where.length : "check" in filter ? checks.length : 0;
    const refusal = "wrong" in filter ? filter.wrong : many >= MAX_FILTERS ? `There are ${MAX_FILTERS} filters of this kind already. Remove one first.` : "";
    setWrong(refusal);
    if (refusal || "wrong" in filter) return;
    setText("");
    if ("where" in filter) setWhere([...where.filter((one) => one.by !== filter.where.by || one.name !== filter.where.name), filter.where]);
    else if ("corrected" in filter) change({ corrected: "true" });
    else if ("limit" in filter) setLimits([...limits.filter((one) => one.name !== filter.limit.name || one.sign !== filter.limit.sign), filter.limit]);
    else setChecks(withCheck(checks, filter.check));
  };
  return (
    <>
      <form
        className="filter-form"
        onSubmit={(event) => {
          event.preventDefault();
          add();
        }}
      >
        <Field
          aria-label="Add a filter"
          aria-invalid={wrong !== ""}
          aria-describedby={wrong ? id : undefined}
          placeholder="Filter: tag=…, score<0.5"
          list={list}
          autoComplete="off"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <datalist id={list}>
          {suggestions.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      </form>
      {where.map((one) => (
        <ChipButton key={`${one.by}=${one.name}`} name={one.by === REASON ? "like" : one.by === MODEL ? "model" : one.by} value={one.name} onClick={() => setWhere(where.filter((other) => other !== one))} />
      ))}
      {checks.map((one) => (
        <ChipButton key={checkText(one, columns)} name="" value={checkText(one, columns)} onClick={() => setChecks(checks.filter((other) => other !== one))} />
      ))}
      {view.corrected && <ChipButton name="" value="corrected" onClick={() => change({ corrected: undefined })} />}
      {limits.map((one) => (
        <ChipButton key={limitText(one)} name="" value={limitText(one)} onClick={() => setLimits(limits.filter((other) => other !== one))} />
      ))}
      {wrong && (
        <p id={id} className="reason-failed" role="alert">
          {wrong}
        </p>
      )}
    </>
  );
}

function ChipButton({ name, value, onClick }: { name: string; value: string; onClick: () => void }) {
  return (
    <Button size="small" className="filter-chip" icon="close" aria-label={`Remove the filter ${plainText(`${name} ${value}`.trim())}`} onClick={onClick}>
      {name && <span className="faint">{name}</span>}{" "}
      <span className="truncate">
        <VisibleText text={value} />
      </span>
    </Button>
  );
}
