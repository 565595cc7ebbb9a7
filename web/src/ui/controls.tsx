/** Buttons, fields, segments, menus and the copy button. */
import "./controls.css";
import { DropdownMenu, Popover as RadixPopover } from "radix-ui";
import {
  type ButtonHTMLAttributes,
  type InputHTMLAttributes,
  type ReactNode,
  type Ref,
  type SelectHTMLAttributes,
  useEffect,
  useRef,
  useState,
} from "react";
import { useKeys } from "~/state/keyboard";
import { Icon, type IconName } from "./icons";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  kind?: "normal" | "primary" | "plain" | "danger";
  size?: "normal" | "small";
  icon?: IconName;
  ref?: Ref<HTMLButtonElement>;
};

/** A button. With an icon and no text it needs `aria-label`, which is its tooltip too. */
export function Button({ kind = "normal", size = "normal", icon, className, children, title, ...rest }: ButtonProps) {
  const square = icon !== undefined && children === undefined;
  const classes = ["button", kind, size === "small" && "small", square && "square", className].filter(Boolean).join(" ");
  return (
    <button type="button" className={classes} title={title ?? (square ? rest["aria-label"] : undefined)} {...rest}>
      {icon && <Icon name={icon} size={size === "small" ? 14 : 16} />}
      {children}
    </button>
  );
}

export function Field({ className, ...rest }: InputHTMLAttributes<HTMLInputElement> & { ref?: Ref<HTMLInputElement> }) {
  return <input className={`field ${className ?? ""}`} {...rest} />;
}

type SelectProps = Omit<SelectHTMLAttributes<HTMLSelectElement>, "onChange"> & {
  label: string;
  options: readonly (readonly [value: string, text: string])[];
  onChange: (value: string) => void;
};

/** A native select: it works with every keyboard, phone and screen reader. */
export function Select({ label, options, onChange, className, ...rest }: SelectProps) {
  return (
    <select
      className={`field ${className ?? ""}`}
      aria-label={label}
      title={label}
      onChange={(event) => onChange(event.target.value)}
      {...rest}
    >
      {options.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

interface SearchProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  /** The key that puts the focus here: "/" for the one search of a screen. */
  hotkey?: string;
  /** Milliseconds of silence before `onChange`. */
  delay?: number;
  className?: string;
}

/** A search field. It keeps what is typed at once and reports it after a short silence; Escape clears it. */
export function SearchField({ label, value, onChange, placeholder, hotkey, delay = 200, className }: SearchProps) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  const reported = useRef(value);
  const change = useRef(onChange);
  change.current = onChange;
  useEffect(() => {
    if (value !== reported.current) {
      reported.current = value;
      setText(value);
    }
  }, [value]);
  useEffect(() => {
    if (text === reported.current) return;
    const timer = setTimeout(() => {
      reported.current = text;
      change.current(text);
    }, delay);
    return () => clearTimeout(timer);
  }, [text, delay]);
  const clear = () => {
    setText("");
    reported.current = "";
    onChange("");
    input.current?.focus();
  };
  useKeys("Search", hotkey ? [{ keys: hotkey, label: "Search", run: () => (input.current?.focus(), input.current?.select()) }] : []);
  return (
    <div className={`search-field ${className ?? ""}`} role="search">
      <Icon name="search" size={14} />
      <input
        ref={input}
        className="field"
        type="search"
        aria-label={label}
        placeholder={placeholder ?? label}
        value={text}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.preventDefault();
            if (text) clear();
            else input.current?.blur();
          }
        }}
      />
      {text ? (
        <Button className="clear" kind="plain" size="small" icon="close" aria-label="Clear the search" onClick={clear} />
      ) : (
        hotkey && <kbd aria-hidden="true">{hotkey}</kbd>
      )}
    </div>
  );
}

interface SegmentsProps<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [value: T, text: ReactNode])[];
  onChange: (value: T) => void;
}

/** A choice of a few, all visible. */
export function Segments<T extends string>({ label, value, options, onChange }: SegmentsProps<T>) {
  return (
    <div className="segments" role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>
          {text}
        </button>
      ))}
    </div>
  );
}

interface TabsProps<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [value: T, text: ReactNode])[];
  onChange: (value: T) => void;
  /** The id of the panel that the tabs control. */
  panel: string;
}

/** Tabs; the left and right arrows move between them. The panel needs `role="tabpanel"` and the id `panel`. */
export function Tabs<T extends string>({ label, value, options, onChange, panel }: TabsProps<T>) {
  const list = useRef<HTMLDivElement>(null);
  const move = (by: number) => {
    const index = options.findIndex(([option]) => option === value);
    const next = options[(index + by + options.length) % options.length];
    if (next === undefined) return;
    onChange(next[0]);
    list.current?.querySelectorAll("button")[options.indexOf(next)]?.focus();
  };
  return (
    <div
      ref={list}
      className="tabs"
      role="tablist"
      aria-label={label}
      onKeyDown={(event) => {
        if (event.key === "ArrowRight") move(1);
        else if (event.key === "ArrowLeft") move(-1);
      }}
    >
      {options.map(([option, text]) => (
        <button
          key={option}
          type="button"
          role="tab"
          aria-selected={option === value}
          aria-controls={panel}
          tabIndex={option === value ? 0 : -1}
          onClick={() => onChange(option)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

export interface MenuEntry {
  label: ReactNode;
  onSelect?: () => void;
  checked?: boolean; // an entry that can be on or off; the menu stays open
  disabled?: boolean;
  heading?: boolean;
  line?: boolean;
}

/** A menu on a button. The arrows, Home, End, letters and Escape work. */
export function Menu({ trigger, entries, align = "end" }: { trigger: ReactNode; entries: MenuEntry[]; align?: "start" | "end" }) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align={align} sideOffset={4} collisionPadding={8}>
          {entries.map((entry, index) =>
            entry.line ? (
              <DropdownMenu.Separator key={index} className="menu-line" />
            ) : entry.heading ? (
              <DropdownMenu.Label key={index} className="menu-label">
                {entry.label}
              </DropdownMenu.Label>
            ) : entry.checked !== undefined ? (
              <DropdownMenu.CheckboxItem
                key={index}
                className="menu-item"
                checked={entry.checked}
                disabled={entry.disabled}
                onSelect={(event) => {
                  event.preventDefault();
                  entry.onSelect?.();
                }}
              >
                <span className="mark">{entry.checked && <Icon name="check" size={14} />}</span>
                {entry.label}
              </DropdownMenu.CheckboxItem>
            ) : (
              <DropdownMenu.Item key={index} className="menu-item" disabled={entry.disabled} onSelect={() => entry.onSelect?.()}>
                {entry.label}
              </DropdownMenu.Item>
            ),
          )}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

/** A small panel on a button. */
export function Popover({ trigger, label, children }: { trigger: ReactNode; label: string; children: ReactNode }) {
  return (
    <RadixPopover.Root>
      <RadixPopover.Trigger asChild>{trigger}</RadixPopover.Trigger>
      <RadixPopover.Portal>
        <RadixPopover.Content className="popover" align="start" sideOffset={4} collisionPadding={8} aria-label={label}>
          {children}
        </RadixPopover.Content>
      </RadixPopover.Portal>
    </RadixPopover.Root>
  );
}

/** Copies a text. It says so for a moment, also to a screen reader. */
export function CopyButton({ text, label = "Copy", children }: { text: string | (() => string); label?: string; children?: ReactNode }) {
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle");
  useEffect(() => {
    if (state === "idle") return;
    const timer = setTimeout(() => setState("idle"), 1_600);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = () => {
    void writeClipboard(typeof text === "string" ? text : text()).then((ok) => setState(ok ? "copied" : "failed"));
  };
  return (
    <>
      <Button
        kind="plain"
        size="small"
        icon={state === "copied" ? "check" : "copy"}
        className={state === "copied" ? "copied" : undefined}
        aria-label={children === undefined ? label : undefined}
        onClick={copy}
      >
        {children}
      </Button>
      <span className="sr" role="status">
        {state === "copied" ? "Copied" : state === "failed" ? "The browser refused to copy" : ""}
      </span>
    </>
  );
}

export async function writeClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without a secure context there is no clipboard interface; the old command still works.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "sr";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
