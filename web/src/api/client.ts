/** Requests to the server that this page came from. Every one carries the key in a header. */
import { reportReachable } from "./connection";
import { currentKey, signOut } from "./session";

/** A refusal of the server, or no answer at all (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Record<string, unknown> = {},
    readonly retryAfter: number | null = null,
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** Whether the same request may succeed later. */
  get temporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

export interface RequestOptions {
  method?: "GET" | "POST" | "DELETE";
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** The key to try, before there is a session. */
  key?: string;
  /** Send the cookie of a sign-in at a provider. No other request sends or takes a cookie. */
  cookies?: boolean;
}

const BASE = new URL("./", document.baseURI);

export function apiUrl(path: string, query?: RequestOptions["query"]): string {
  const url = new URL(path.replace(/^\//, ""), BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url.href;
}

export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  const key = options.key ?? currentKey();
  if (key) headers["Authorization"] = `Bearer ${key}`;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(apiUrl(path, options.query), {
      method: options.method ?? "GET",
      headers,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
      credentials: options.cookies ? "same-origin" : "omit",
      cache: "no-store",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    reportReachable(false);
    throw new ApiError(0, "unreachable", "The server does not answer. The page is trying again.");
  }
  reportReachable(true);
  if (response.ok) return response;
  const refusal = await refusalOf(response);
  if (response.status === 401 && options.key === undefined && currentKey() === key) {
    signOut(key ? refusal.message || "The key is no longer valid." : "");
  }
  throw refusal;
}

/** What a static report answers from: its own data. `runs` are the ids of its runs. */
export interface ReportSource {
  answer: (path: string, options: RequestOptions) => unknown;
  runs: string[];
}

let source: ReportSource | null = null;

/** Answer every request from the data of a static report. No request is sent from then on. */
export function answerFrom(report: ReportSource): void {
  source = report;
}

/** The static report that this document is; null in the page of a server. */
export function reportSource(): ReportSource | null {
  return source;
}

/** The JSON body of an answer: `const page = await request<RunPage>("/v1/host/assay/runs:search", { method: "POST", body })`. */
export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  if (source !== null) return source.answer(path, options) as T;
  const response = await send(path, options);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

async function refusalOf(response: Response): Promise<ApiError> {
  const after = Number(response.headers.get("Retry-After"));
  const retry = Number.isFinite(after) && after > 0 ? after : null;
  try {
    const body = (await response.json()) as { error?: string; message?: string; details?: Record<string, unknown> };
    const message = body.message ?? `The server answered ${response.status}.`;
    return new ApiError(response.status, body.error ?? "error", message, body.details ?? {}, retry);
  } catch {
    return new ApiError(response.status, "error", `The server answered ${response.status}.`, {}, retry);
  }
}
