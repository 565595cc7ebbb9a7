/** Server-sent events by fetch, because an EventSource cannot send the key in a header. */
import { ApiError, send } from "./client";

export interface StreamEvent {
  id: string;
  type: string;
  data: string;
}

export type StreamState = "connecting" | "open" | "waiting" | "closed";

export interface StreamOptions {
  query?: Record<string, string | number | boolean | undefined>;
  lastEventId?: string;
  signal: AbortSignal;
  onEvent: (event: StreamEvent) => void;
  onState?: (state: StreamState) => void;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;

/**
 * Follow a stream until it is complete or the signal aborts. After a break it resumes with `Last-Event-ID`.
 * A refusal that waiting cannot mend (403, 404) is thrown. `complete` says that the server ended the stream.
 */
export async function follow(path: string, options: StreamOptions, complete: (event: StreamEvent) => boolean): Promise<void> {
  const { signal, onState } = options;
  let last = options.lastEventId ?? "";
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    onState?.("connecting");
    let done = false;
    try {
      const response = await send(path, {
        query: options.query,
        signal,
        headers: { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) },
      });
      onState?.("open");
      if (response.body === null) return;
      for await (const event of parseEvents(response.body, signal)) {
        wait = FIRST_WAIT_MS;
        if (event.id) last = event.id;
        options.onEvent(event);
        done ||= complete(event);
      }
    } catch (error) {
      if (signal.aborted) break;
      if (error instanceof ApiError && !error.temporary) throw error;
      if (error instanceof ApiError && error.retryAfter) wait = Math.max(wait, error.retryAfter * 1_000);
    }
    if (done || signal.aborted) break;
    onState?.("waiting");
    await pause(wait, signal);
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
  onState?.("closed");
}

async function* parseEvents(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<StreamEvent> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let buffer = "";
  try {
    while (!signal.aborted) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value.replaceAll("\r\n", "\n");
      let end: number;
      while ((end = buffer.indexOf("\n\n")) >= 0) {
        const event = parseBlock(buffer.slice(0, end));
        buffer = buffer.slice(end + 2);
        if (event) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export function parseBlock(block: string): StreamEvent | null {
  const event: StreamEvent = { id: "", type: "message", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line === "" || line.startsWith(":")) continue;
    const cut = line.indexOf(":");
    const name = cut < 0 ? line : line.slice(0, cut);
    const value = cut < 0 ? "" : line.slice(cut + 1).replace(/^ /, "");
    if (name === "id") event.id = value;
    else if (name === "event") event.type = value;
    else if (name === "data") data.push(value);
  }
  if (data.length === 0) return null;
  event.data = data.join("\n");
  return event;
}

export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
