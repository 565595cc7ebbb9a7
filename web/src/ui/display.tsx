/** What a screen shows: chips, intervals, progress, content, and the empty, loading and broken states. */
import "./display.css";
import type { ReactNode } from "react";
import { ApiError, reportSource } from "~/api/client";
import type { CostParts, Score } from "~/api/runs";
import { formatAddress } from "~/state/address";
import { Button, CopyButton } from "./controls";
import { MISSING } from "./format";
import { Icon, type IconName } from "./icons";

export type Tone = "pass" | "fail" | "warn" | "live" | "mute";

/** Each tone has a shape of its own, so that colour is never the only sign. */
function Shape({ tone }: { tone: Tone }) {
  const shapes: Record<Tone, ReactNode> = {
    pass: <path d="m2 5.4 2 2L8 3" />,
    fail: <path d="m2.2 2.2 5.6 5.6m0-5.6L2.2 7.8" />,
    warn: <path d="M5 1.8v3.9M5 8.2h.01" />,
    live: <path d="M5 1.5a3.5 3.5 0 0 1 0 7" />,
    mute: <path d="M2.2 5h5.6" />,
  };
  return (
    <svg width="10" height="10" viewBox="0 0 10 10" fill="none" stroke="currentColor" strokeWidth="1.8" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true" className={tone === "live" ? "spin" : undefined}>
      {shapes[tone]}
    </svg>
  );
}

export function Chip({ tone = "mute", children, title, plain }: { tone?: Tone; children: ReactNode; title?: string; plain?: boolean }) {
  return (
    <span className={`chip ${tone}${plain ? " plain" : ""}`} title={title}>
      <Shape tone={tone} />
      <span className="truncate">{children}</span>
    </span>
  );
}

export function Tag({ children, title }: { children: ReactNode; title?: string }) {
  return (
    <span className="tag" title={title}>
      {children}
    </span>
  );
}

const STATUS: Record<string, [Tone, string]> = {
  pending: ["mute", "Queued"],
  running: ["live", "Running"],
  paused: ["warn", "Paused"],
  "waiting-approval": ["warn", "Waits for approval"],
  "waiting-input": ["warn", "Waits for input"],
  "waiting-external": ["warn", "Waits"],
  completed: ["pass", "Completed"],
  failed: ["fail", "Failed"],
  cancelling: ["mute", "Cancelling"],
  cancelled: ["mute", "Cancelled"],
  erased: ["mute", "Erased"],
};

/** Whether a run in this status can still change. */
export function isLive(status: string): boolean {
  return !["completed", "failed", "cancelled"].includes(status);
}

/** The status of a run. */
export function StatusChip({ status }: { status: string }) {
  const [tone, text] = STATUS[status] ?? ["mute", status];
  return <Chip tone={tone}>{text}</Chip>;
}

export interface IntervalValue {
  value: number | null | undefined;
  low?: number | null;
  high?: number | null;
}

/** A score with its interval, in the words of the server: `83.3% 57.1–94.9%`. `bar`: with a small drawing on the scale from 0 to 1. */
export function Interval({ score, bar }: { score: Score; bar?: boolean }) {
  const known = score.low !== null;
  const title = known ? `${score.text}; 95% interval ${score.range} (${score.method})` : `${score.text}; without an interval: ${score.method}`;
  return (
    <span className="interval" title={title}>
      {bar && score.scale !== "number" && <IntervalBar value={score.value} low={score.low} high={score.high} />}
      <span className="value">{score.text}</span>
      {known && <span className="spread">{score.range}</span>}
    </span>
  );
}

/** The interval as a drawing on the scale from `from` to `to`. */
export function IntervalBar({ value, low, high, from = 0, to = 1, width = 48 }: IntervalValue & { from?: number; to?: number; width?: number }) {
  if (value === null || value === undefined) return null;
  const at = (x: number) => 2 + ((Math.min(to, Math.max(from, x)) - from) / (to - from)) * (width - 4);
  return (
    <svg className="interval-bar" width={width} height="10" viewBox={`0 0 ${width} 10`} aria-hidden="true">
      <line className="track" x1="1" x2={width - 1} y1="5" y2="5" strokeWidth="2" strokeLinecap="round" />
      {low !== null && low !== undefined && high !== null && high !== undefined && (
        <line className="reach" x1={at(low)} x2={at(high)} y1="5" y2="5" strokeWidth="4" strokeLinecap="round" />
      )}
      <circle className="point" cx={at(value)} cy="5" r="2.6" />
    </svg>
  );
}

/** `system $0.66 + judges $0.035`: what the outputs cost, and what their judges did. */
export function costOf({ system, judges }: CostParts = {}): string {
  return [system && `system ${system}`, judges && `judges ${judges}`].filter(Boolean).join(" + ");
}

export function NotMeasured({ why }: { why?: string }) {
  return (
    <span className="faint" title={why ?? "Nothing was measured here. This is neither a score of 0 nor a failure."}>
      not measured
    </span>
  );
}

export function Missing() {
  return <span className="faint">{MISSING}</span>;
}

export function Progress({ done, total, label }: { done: number; total: number; label: string }) {
  const share = total > 0 ? Math.min(1, done / total) : 0;
  return (
    <div className="progress" role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={total} aria-valuenow={done} aria-valuetext={`${done} of ${total}`}>
      <div style={{ width: `${share * 100}%` }} />
    </div>
  );
}

/** One number of a headline. Put several into a `<dl>`. */
export function Stat({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="stat">
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A command to copy. */
export function CommandLine({ text }: { text: string }) {
  return (
    <div className="command-line">
      <code tabIndex={0}>{text}</code>
      <CopyButton text={text} label="Copy the command" />
    </div>
  );
}

interface StateProps {
  title: string;
  icon?: IconName;
  children?: ReactNode;
  actions?: ReactNode;
}

export function Empty({ title, icon = "search", children, actions }: StateProps) {
  return (
    <div className="state">
      <div className="glyph">
        <Icon name={icon} size={20} />
      </div>
      <h2>{title}</h2>
      {children}
      {actions && <div className="actions">{actions}</div>}
    </div>
  );
}

/** What went wrong, in the words of the server, and what to do. */
export function ErrorState({ error, retry }: { error: unknown; retry?: () => void }) {
  const { title, text, code } = describe(error);
  return (
    <div className="state broken" role="alert">
      <div className="glyph">
        <Icon name="close" size={20} />
      </div>
      <h2>{title}</h2>
      <p>{text}</p>
      {code && <p className="faint mono">{code}</p>}
      <div className="actions">
        {isOldPage(error) ? (
          <Button icon="refresh" kind="primary" onClick={() => window.location.reload()}>
            Reload
          </Button>
        ) : (
          retry && (
            <Button icon="refresh" onClick={retry}>
              Try again
            </Button>
          )
        )}
        {error instanceof ApiError && error.status === 404 && reportSource() === null && (
          <a className="button" href={formatAddress("/runs")}>
            All runs
          </a>
        )}
      </div>
    </div>
  );
}

/** Whether a part of the page is no longer on the server: it was updated while the page was open. */
function isOldPage(error: unknown): boolean {
  return error instanceof Error && /dynamically imported module|importing a module script|preload CSS/i.test(error.message);
}

export function describe(error: unknown): { title: string; text: string; code: string } {
  if (isOldPage(error)) return { title: "This page is older than the server", text: "The server has a newer page. Reload to get it.", code: "" };
  if (!(error instanceof ApiError)) {
    return { title: "The page failed", text: error instanceof Error ? error.message : String(error), code: "" };
  }
  const id = error.details["correlationId"];
  const code = typeof id === "string" ? `request ${id}` : "";
  if (error.status === 0) return { title: "The server does not answer", text: error.message, code };
  if (error.status === 403) {
    const scope = error.details["scopeRequired"];
    return { title: "This key has no access", text: typeof scope === "string" ? `The key needs the scope ${scope}.` : error.message, code };
  }
  if (error.status === 404) return { title: "Not found", text: error.message, code };
  if (error.status === 429) return { title: "Too many requests", text: error.message, code };
  return { title: error.status >= 500 ? "The server failed" : "The server refused the request", text: error.message, code };
}

export function Notice({ tone, children }: { tone?: "warn" | "fail"; children: ReactNode }) {
  return (
    <div className={`notice ${tone ?? ""}`} role="status">
      {children}
    </div>
  );
}

/** Grey lines while something loads. */
export function Loading({ label = "Loading", lines = 4 }: { label?: string; lines?: number }) {
  return (
    <div className="stack" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} className="skeleton" style={{ width: `${92 - ((index * 23) % 48)}%` }} />
      ))}
    </div>
  );
}
