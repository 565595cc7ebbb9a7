import { useKeyLayers } from "~/state/keyboard";
import { Dialog } from "~/ui";

const NAMES: Record<string, string> = { mod: /Mac/.test(navigator.userAgent) ? "⌘" : "Ctrl", ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };

/** The keys of this screen and of every screen. */
export function Help({ onClose }: { onClose: () => void }) {
  const layers = useKeyLayers().filter((layer) => layer.commands.length > 0);
  const groups = new Map<string, { keys: string; label: string }[]>();
  for (const { group, commands } of [...layers].reverse()) {
    const own = groups.get(group) ?? [];
    for (const command of commands) if (!own.some((one) => one.keys === command.keys)) own.push(command);
    groups.set(group, own);
  }
  groups.set("In a table", [
    { keys: "j", label: "Next row, also ↓" },
    { keys: "k", label: "Previous row, also ↑" },
    { keys: "Enter", label: "Open the row" },
    { keys: "x", label: "Pick the row, also Space" },
  ]);
  return (
    <Dialog title="Keys" onClose={onClose}>
      {[...groups].map(([group, commands]) => (
        <Group key={group} group={group} commands={commands} />
      ))}
      <p className="faint">
        The address of the page contains the state of the view. Copy it to share the view.
      </p>
    </Dialog>
  );
}

function Group({ group, commands }: { group: string; commands: { keys: string; label: string }[] }) {
  return (
    <section className="keys">
      <h3>{group}</h3>
      <dl>
        {commands.map((command) => (
          <div key={command.keys} className="keys-row">
            <dt>{command.label}</dt>
            <dd>
              {command.keys.split(/[ +]/).map((key, index) => (
                <kbd key={index}>{NAMES[key] ?? key}</kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
