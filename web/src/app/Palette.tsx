import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { queryRuns } from "~/api/runs";
import { formatAddress, navigate } from "~/state/address";
import { setTheme } from "~/state/theme";
import { Dialog, Field, format, StatusChip, VisibleText } from "~/ui";
import { ROUTES } from "./routes";

interface Entry {
  id: string;
  label: string;
  note?: string;
  status?: string;
  run: () => void;
}

/** Go to a screen or a run by its name. The arrows choose, Enter goes. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const wanted = text.trim().toLowerCase();
  const runs = useQuery({
    queryKey: ["palette", wanted],
    queryFn: ({ signal }) => queryRuns({ filter: wanted ? { text: wanted.slice(0, 200) } : {}, limit: 8 }, signal),
    placeholderData: (before) => before,
    retry: false,
  });
  const entries = useMemo<Entry[]>(() => {
    const screens: Entry[] = ROUTES.flatMap((route) =>
      route.nav ? [{ id: route.path, label: `Go to ${route.nav.label}`, note: `g ${route.nav.key}`, run: () => navigate(formatAddress(route.path)) }] : [],
    );
    const themes: Entry[] = (["light", "dark", "system"] as const).map((theme) => ({
      id: theme,
      label: `Theme: ${theme}`,
      run: () => setTheme(theme),
    }));
    const fixed = [...screens, ...(wanted ? themes : [])].filter((entry) => entry.label.toLowerCase().includes(wanted));
    const found: Entry[] = (runs.data?.runs ?? []).map((run) => ({
      id: run.runId,
      label: run.kind === "deployment" ? `${run.transition ?? "change"} ${run.agentId ?? run.name}` : run.name || run.runId,
      note: `${format.clock(run.createdAt)} · ${format.shortId(run.runId)}`,
      status: run.status,
      run: () => navigate(formatAddress(`/${run.kind === "workflow" || run.kind === "deployment" ? "verify" : "runs"}/${encodeURIComponent(run.runId)}`)),
    }));
    return [...found, ...fixed];
  }, [wanted, runs.data]);
  const index = Math.min(chosen, Math.max(0, entries.length - 1));
  const go = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <Field
        className="palette-field"
        role="combobox"
        aria-label="A run, a suite, an agent or a screen"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={entries.length > 0 ? `palette-${index}` : undefined}
        placeholder="A run, a suite, an agent or a screen"
        data-autofocus
        spellCheck={false}
        autoComplete="off"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setChosen(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setChosen(Math.min(index + 1, entries.length - 1));
          else if (event.key === "ArrowUp") setChosen(Math.max(index - 1, 0));
          else if (event.key === "Enter") go(entries[index]);
          else return;
          event.preventDefault();
        }}
      />
      <ul className="palette-list" role="listbox" id="palette-list" aria-label="Results">
        {entries.map((entry, at) => (
          <li
            key={entry.id}
            id={`palette-${at}`}
            role="option"
            aria-selected={at === index}
            onMouseMove={() => setChosen(at)}
            onClick={() => go(entry)}
          >
            <span className="grow truncate"><VisibleText text={entry.label} /></span>
            {entry.status && entry.status !== "completed" && <StatusChip status={entry.status} />}
            {entry.note && <span className="faint num palette-note">{entry.note}</span>}
          </li>
        ))}
      </ul>
      {entries.length === 0 && <p className="faint">No run or screen has this name.</p>}
    </Dialog>
  );
}
