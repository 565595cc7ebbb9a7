/** Numbers, durations, money and times as a person reads them. A missing number is "–", never 0. */

export const MISSING = "–";

/** `toFixed`, and a tie goes to the even digit, as in Python: 0.8125 is 0.812 in the terminal and here. */
export function fixed(value: number, digits: number): string {
  const text = value.toFixed(digits);
  if (!Number.isInteger(value * 2 ** (digits + 1))) return text; // no tie: a double that is half-way ends after so many bits
  const scaled = Math.abs(value) * 10 ** digits;
  const down = Math.floor(scaled);
  if (scaled - down !== 0.5 || down % 2 === 1) return text;
  return `${value < 0 ? "-" : ""}${(down / 10 ** digits).toFixed(digits)}`;
}

/** The value of a case, or a mean of them: a score, or a number such as a cost or a time: `12.5`, `1,234`. */
export function caseValue(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  const size = Math.abs(value);
  if (size <= 1 && (size >= 0.001 || size === 0)) return score(value);
  const text = size >= 1_000 ? whole.format(Number(fixed(size, 0))) : significant(size, size < 1 ? 2 : 4);
  return value < 0 ? `−${text}` : text;
}

/** So many digits that count, without zeros at the end, and never a power of ten. */
function significant(value: number, digits: number): string {
  return fixed(value, Math.min(100, Math.max(0, digits - 1 - Math.floor(Math.log10(value))))).replace(/\.?0+$/, "");
}

/** A score from 0 to 1: three digits, so that columns align. A score below 1 never reads 1.000, and one above 0 never 0.000. */
export function score(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  const text = fixed(value, 3).replace("-", "−");
  if (text === "1.000" && value < 1) return ">0.999";
  return text === "0.000" && value > 0 ? "<0.001" : text;
}

/** A share from 0 to 1: `83.3%`, rounded as a score is. A share below 1 never reads 100.0%, and one above 0 never 0.0%. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  const text = fixed(hundredfold(value), 1);
  if (text === "100.0" && value < 1) return ">99.9%";
  return text === "0.0" && value > 0 ? "<0.1%" : `${text}%`;
}

/** The difference of two shares: `+12.5 points`, `−3.0 points`. */
export function points(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  const text = fixed(Math.abs(hundredfold(value)), 1);
  return `${text === "0.0" ? "+" : value < 0 ? "−" : "+"}${text} points`;
}

/** How sure an agent is, in its own words: `90%`. */
export function confidence(share: number): string {
  return `${fixed(share * 100, 0)}%`;
}

function hundredfold(share: number): number {
  return Number(fixed(share, 3)) * 100;
}

const whole = new Intl.NumberFormat("en-US");

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? MISSING : whole.format(value);
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `$12.30`, `$0.0153`, `$0.0000021`: to three digits below a dollar, as every report writes amounts. */
export function money(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  if (value < 0) return `−${money(-value)}`;
  if (value === 0 || value >= 1) {
    const [dollars = "0", cents = "00"] = fixed(value, 2).split(".");
    return `$${whole.format(Number(dollars))}.${cents}`;
  }
  return `$${fixed(value, Math.min(100, 2 - Math.floor(Math.log10(value))))}`;
}

/** Milliseconds as `340 ms`, `4.2 s`, `3 min 05 s`, `2 h 10 min`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms) || ms < 0) return MISSING;
  if (ms < 0.005) return "0 ms";
  if (ms < 1) return `${fixed(ms, 2)} ms`;
  if (ms < 999.5) return `${fixed(ms, 0)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 59.95) return `${fixed(seconds, 1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(minutes / 1_440)} d ${Math.floor((minutes % 1_440) / 60)} h`;
}

/** `just now`, `5 min ago`, `3 h ago`, `12 Nov`, `12 Nov 2025`. */
export function ago(iso: string | null | undefined, now = Date.now()): string {
  if (!iso) return MISSING;
  const then = Date.parse(iso);
  if (Number.isNaN(then)) return MISSING;
  const seconds = (now - then) / 1_000;
  if (seconds < 45) return "just now";
  if (seconds < 3_570) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3_600)} h ago`;
  if (seconds < 7 * 86_400) return `${Math.round(seconds / 86_400)} d ago`;
  const date = new Date(then);
  const year = date.getFullYear() === new Date(now).getFullYear() ? undefined : "numeric";
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
}

/** The full time, for a tooltip. */
export function moment(iso: string | null | undefined): string {
  if (!iso || Number.isNaN(Date.parse(iso))) return "";
  return new Date(iso).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

/** `04:21` of today, `12 Nov, 04:21`, `12 Nov 2025, 04:21`; with seconds, `04:21:07`. */
export function clock(iso: string, now = Date.now(), seconds = false): string {
  const then = new Date(iso);
  if (Number.isNaN(then.getTime())) return MISSING;
  const today = new Date(now);
  const time = then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" as const } : {}) });
  if (then.toDateString() === today.toDateString()) return time;
  const year = then.getFullYear() === today.getFullYear() ? undefined : "numeric";
  return `${then.toLocaleDateString("en-GB", { day: "numeric", month: "short", year })}, ${time}`;
}

/** The end of an id, enough to recognise it: ids begin with the time, so their beginnings are alike. */
export function shortId(id: string): string {
  return id.length > 14 ? `…${id.slice(-8)}` : id;
}
