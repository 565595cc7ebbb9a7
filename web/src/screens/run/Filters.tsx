import { useId, useState } from "react";

import type { CheckColumn } from "~/api/cases";
import { Button, Field } from "~/ui/controls";
import { plainText } from "~/ui/visible";
import { VisibleText } from "~/ui/VisibleText";

import { filterOf, limitText, REASON, type View, whereText } from "./view";

interface Props {
  view: View;
  columns: CheckColumn[];
  change: (params: Record<string, string | undefined>) => void;
}

/** Filters that combine with the search and the order, as chips, and a field that adds one. */
export function Filters({ view, columns, change }: Props) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const id = useId();
  const { where, limits } = view;
  const setLimits = (next: typeof limits) => change({ limits: next.map(limitText).join(",") || undefined });
  const add = () => {
    if (text.trim() === "") return;
    const filter = filterOf(text, columns);
    setWrong("wrong" in filter ? filter.wrong : "");
    if ("wrong" in filter) return;
    setText("");
    if ("where" in filter) change({ where: whereText([...where.filter((one) => one.by !== filter.where.by || one.name !== filter.where.name), filter.where]) });
    else if ("show" in filter) change({ show: filter.show });
    else if ("limit" in filter) setLimits([...limits.filter((one) => one.name !== filter.limit.name || one.sign !== filter.limit.sign), filter.limit]);
    else change({ check: String(filter.check) });
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
          placeholder="Filter: tag=…, score<0.5, corrected"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </form>
      {where.map((one) => (
        <ChipButton key={`${one.by}=${one.name}`} name={one.by === REASON ? "like" : one.by} value={one.name} onClick={() => change({ where: whereText(where.filter((other) => other !== one)) })} />
      ))}
      {view.show === "corrected" && <ChipButton name="" value="corrected" onClick={() => change({ show: undefined })} />}
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
