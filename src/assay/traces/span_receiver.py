"""
A receiver of OTLP over HTTP on loopback, for the spans of agents under test.

Each invocation has a trace of its own, whose random id its agent gets in a `traceparent`. Spans of other traces are
counted and left. An invocation's spans are all there when each of our calls has a child and no span lacks its parent;
else when none has come for a while.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, UsageError
from assay.extras import require
from assay.ports.telemetry import SpanExport, span_export
from assay.traces.otlp import Item, items_of_json, items_of_protobuf
from assay.traces.spans import LogRecord, Span, with_events
from assay.traces.trace_case import SpanGroup
from assay.traces.trace_files import MAX_SPANS

USUAL_PORT = 4318  # where a sender of OTLP over HTTP sends, if it is not told
QUIET_ENDPOINT = (
    12.0  # seconds without a span after which no more are waited for; senders wait 5 between batches
)
QUIET_COMMAND = 1.0  # the same for a process that has ended
LONGEST = 60.0  # seconds from the answer on
MAX_BODY = 64 * 1024 * 1024  # bytes of a request
MAX_BYTES = 64 * 1024 * 1024  # of the spans of one invocation
JSON_TYPE, PROTOBUF_TYPE = "application/json", "application/x-protobuf"


class ExpectedSpans:
    """The spans of one invocation."""

    def __init__(self, export: SpanExport) -> None:
        self._export = export
        self._spans: list[Span] = []
        self._logs: dict[str, list[LogRecord]] = {}
        self._size = self._left_out = 0
        self._arrived = asyncio.Event()

    @property
    def trace_id(self) -> str:
        return self._export.trace_id

    def add(self, item: Item, size: int) -> None:
        self._size += size
        if self._size > MAX_BYTES or len(self._spans) >= MAX_SPANS:
            self._left_out += isinstance(item, Span)
        elif isinstance(item, Span):
            self._spans.append(item)
        else:
            self._logs.setdefault(item.span_id, []).append(item)
        self._arrived.set()

    @property
    def complete(self) -> bool:
        """Whether our calls have children, and each span a parent."""
        parents = set(self._export.parents)
        known = {span.span_id for span in self._spans} | parents
        return parents <= {span.parent for span in self._spans} and all(
            not span.parent or span.parent in known for span in self._spans
        )

    async def wait(self, quiet: float) -> SpanGroup:
        """The spans, once they are complete, or `quiet` seconds after the last one came."""
        until = asyncio.get_running_loop().time() + LONGEST
        while not self.complete:
            self._arrived.clear()
            left = until - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(min(quiet, left)):
                    await self._arrived.wait()
            except TimeoutError:
                break
        return SpanGroup([self._whole(span) for span in self._spans], self._left_out)

    def _whole(self, span: Span) -> Span:
        """A span with its log records. A child of one of our calls is a root."""
        if span.parent in self._export.parents:
            span = msgspec.structs.replace(span, parent="")
        return with_events(span, [log.event for log in self._logs.get(span.span_id, ())])


class SpanReceiver:
    """
    Gives the spans that come to the invocations that wait for them.

    `late` spans came after their task was scored, `foreign` ones belong to no invocation, `empty` invocations had none.
    """

    def __init__(self, endpoint: str, quiet: float) -> None:
        self.endpoint, self.quiet = endpoint, quiet
        self.late = self.foreign = self.refused = self.empty = self.invocations = 0
        self._expected: dict[str, ExpectedSpans] = {}
        self._over: set[str] = set()

    @contextmanager
    def expect(self) -> Generator[ExpectedSpans]:
        """An agent that is called inside sends its spans here."""
        export = SpanExport(self.endpoint)
        found = self._expected[export.trace_id] = ExpectedSpans(export)
        token = span_export.set(export)
        try:
            yield found
        finally:
            span_export.reset(token)
            del self._expected[export.trace_id]
            self._over.add(export.trace_id)

    async def spans_of(self, expected: ExpectedSpans) -> SpanGroup:
        group = await expected.wait(self.quiet)
        self.invocations += 1
        self.empty += not group.spans
        return group

    def add(self, items: list[Item], size: int) -> None:
        for item in items:
            expected = self._expected.get(item.trace_id)
            if expected is not None:
                expected.add(item, size // len(items) + 1)
            elif item.trace_id in self._over:
                self.late += isinstance(item, Span)
            else:
                self.foreign += isinstance(item, Span)

    def notes(self) -> list[str]:
        """What a person should know about the spans of a run."""
        found: list[str] = []
        if self.empty:
            found.append(f"no spans came for {self.empty:,} of {self.invocations:,} trials")
        if self.foreign:
            hint = "; does the agent continue the trace of its traceparent?" if self.empty else ""
            found.append(f"{self.foreign:,} spans belong to no task of this run{hint}")
        if self.late:
            found.append(f"{self.late:,} spans came after their task was scored, and were left out")
        if self.refused:
            found.append(f"{self.refused:,} requests were no OTLP, and were refused")
        return found


@asynccontextmanager
async def open_receiver(kind: str, port: int | None) -> AsyncGenerator[SpanReceiver]:
    """
    The receiver for an agent of this kind. The sender of an endpoint must know its port beforehand, so it has the usual
    one; a command is told.
    """
    require("--traces", "agents", package="aiohttp")
    require("--traces", "telemetry", package="opentelemetry-exporter-otlp-proto-http")
    from aiohttp import web  # deferred import: an extra

    is_command = kind == "command"
    if port is None:
        port = 0 if is_command else USUAL_PORT
    receiver = SpanReceiver("", QUIET_COMMAND if is_command else QUIET_ENDPOINT)

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        try:
            receiver.add(await in_thread(lambda: _items(request.content_type, body)), len(body))
        except InvalidRequest as wrong:
            receiver.refused += 1
            return web.json_response({"code": 3, "message": str(wrong)}, status=400)
        if request.content_type == JSON_TYPE:
            return web.json_response({})
        return web.Response(body=b"", content_type=PROTOBUF_TYPE)

    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_post("/v1/traces", receive)
    app.router.add_post("/v1/logs", receive)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        except OSError as wrong:
            raise UsageError(
                f"--traces: expected the free port {port} on 127.0.0.1, got {wrong.strerror or wrong};"
                " --traces-port names another one"
            ) from None
        host, bound = runner.addresses[0][:2]
        receiver.endpoint = f"http://{host}:{bound}"
        yield receiver
    finally:
        await runner.cleanup()


def _items(content_type: str, body: bytes) -> list[Item]:
    if content_type != JSON_TYPE:
        return list(items_of_protobuf(body))
    document: Any = None
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return list(items_of_json(None))  # refuses it
    return list(items_of_json(document))
