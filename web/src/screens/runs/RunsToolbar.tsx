import { type Kind, KINDS, type RunsAnswer } from "~/api/runs";
import { Button, format, SearchField, Select, VisibleText } from "~/ui";
import { KIND_NAMES } from "./columns";
import { type RunsState, STATUS_CHOICES } from "./query";

type Counts = RunsAnswer["counts"];

const PLURALS: Record<Kind, string> = {
  evaluation: "Evaluations",
  "agent-eval": "Agent evals",
  workflow: "Workflows",
  deployment: "Deployments",
};

/** Search, filters and grouping. Every choice is in the address. */
export function RunsToolbar({ state, counts, kinds }: { state: RunsState; counts: Counts; kinds: Kind[] | undefined }) {
  const amount = (value: number | undefined) => (counts ? ` (${format.count(value ?? 0)})` : "");
  const shown = KINDS.filter((kind) => kinds === undefined || kinds.includes(kind));
  const chips: [string, string, () => void][] = [];
  if (state.name) chips.push(["Suite or experiment", state.name, () => state.setName("")]);
  if (state.agent) chips.push(["Agent", state.agent, () => state.setAgent("")]);
  if (state.tag) chips.push(["Tag", state.tag, () => state.setTag("")]);
  return (
    <div className="toolbar runs-toolbar">
      <SearchField
        className="runs-search"
        label="Search the runs"
        placeholder="Name, id, agent, tag, model"
        hotkey="/"
        value={state.text}
        onChange={(value) => state.setText(value)}
      />
      <Select
        label="Kind"
        value={state.kind}
        onChange={(value) => state.setKind(value)}
        options={[["", "All kinds"], ...shown.map((kind) => [kind, `${PLURALS[kind] ?? KIND_NAMES[kind]}${amount(counts?.byKind[kind])}`] as const)]}
      />
      <Select
        label="Status"
        value={state.status}
        onChange={(value) => state.setStatus(value)}
        options={[
          ["", "Any status"],
          ...STATUS_CHOICES.map(
            ([value, text, statuses]) => [value, `${text}${amount(statuses.reduce((sum, status) => sum + (counts?.byStatus[status] ?? 0), 0))}`] as const,
          ),
        ]}
      />
      <Select
        label="Verdict"
        value={state.verdict}
        onChange={(value) => state.setVerdict(value)}
        options={[
          ["", "Any verdict"],
          ["passed", "Passed"],
          ["failed", "Not passed"],
        ]}
      />
      <Button aria-pressed={state.grouped} onClick={() => state.setGrouped(!state.grouped)}>
        Group by suite
      </Button>
      {chips.map(([label, value, clear]) => (
        <Button key={label} size="small" className="runs-chip" icon="close" title={`Remove the filter: ${label} ${value}`} onClick={clear}>
          <span className="faint">{label}</span>
          <span className="truncate">
            <VisibleText text={value} />
          </span>
        </Button>
      ))}
    </div>
  );
}
