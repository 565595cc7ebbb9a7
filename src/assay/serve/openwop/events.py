"""GET /v1/runs/{runId}/events and /events/poll: the log, live or page by page (contract §4.3, §4.4)."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from assay.errors import InvalidRequest, Problem, Refusal
from assay.ports import CLOSED, Run
from assay.protocol.runs import EventPage
from assay.runs.event_docs import read_page
from assay.runs.stream_modes import MODES, SUSPENDING, TERMINAL, buffer_of, carries, is_update, modes_of
from assay.serve.openwop.errors import UnsupportedMode
from assay.serve.openwop.events_feed import Frame
from assay.serve.openwop.host import OpenWopHost, host_of, run_of, snapshot
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer, log

PAGE = 1_000  # events in one answer
ASIDE = frozenset({"progress", "run.annotated"})  # not in the log: whoever hears updates hears them
_encode = msgspec.json.Encoder().encode
_NUMBER = re.compile(r"-?[0-9]{1,15}")


class KeepAlive(ServerSentEvent):
    """A comment, to the letter of the contract."""

    def encode(self) -> bytes:
        return b":keepalive\n\n"


class LogStream:
    """Frames until the run ends, the client leaves or the host stops; then the connection is closed."""

    def __init__(
        self, call: HttpRequest, surface: OpenWopHost, run: Run, after: int, modes: Sequence[str], buffer: int
    ) -> None:
        self._call, self._surface, self._run = call, surface, run
        self._after, self._modes, self._buffer = after, modes, buffer / 1000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = EventSourceResponse(
            self._frames(),
            ping=self._call.server.serving.ping_seconds,
            sep="\n",
            ping_message_factory=KeepAlive,
            send_timeout=self._call.server.serving.send_seconds,
        )
        response.headers["connection"] = "close"
        await response(scope, receive, send)

    async def _frames(self) -> AsyncIterator[bytes]:
        frames = self._surface.feeds.follow(self._run, self._after)
        try:
            async with aclosing(frames) as following:
                if "values" in self._modes:
                    async for frame in self._values(following):
                        yield frame
                elif self._buffer:
                    async for frame in self._batches(following):
                        yield frame
                else:
                    async for frame in following:
                        if self._wanted(frame):
                            yield _framed(frame)
        except Refusal as trouble:  # the client comes again, with its Last-Event-ID
            log.error("following %s: %s", self._run.id, trouble)

    def _wanted(self, frame: Frame) -> bool:
        if frame.type in ASIDE:
            return not {"updates", "debug"}.isdisjoint(self._modes)
        return carries(self._modes, frame.type)

    async def _values(self, frames: AsyncIterator[Frame]) -> AsyncIterator[bytes]:
        """The run as it is, first of all and after every step."""
        if self._after >= 0:
            yield await self._state(self._after)
        async for frame in frames:
            if frame.sequence is not None and is_update(frame.type):
                yield await self._state(frame.sequence)

    async def _state(self, sequence: int) -> bytes:
        run = await self._call.server.executor.get(self._run.id, self._call.tenant)
        document = _encode(await snapshot(self._surface, run))
        return b"id: %d\nevent: state.snapshot\ndata: %b\n\n" % (sequence, document)

    async def _batches(self, frames: AsyncIterator[Frame]) -> AsyncIterator[bytes]:
        """What comes within the time is sent together; the end, or somebody being waited for, at once."""
        held: list[Frame] = []
        due = 0.0
        clock = asyncio.get_running_loop().time
        coming: asyncio.Task[Frame | None] | None = None
        try:
            while True:
                coming = coming or asyncio.create_task(_next(frames))
                await asyncio.wait({coming}, timeout=max(0.0, due - clock()) if held else None)
                if coming.done():
                    frame, coming = coming.result(), None
                    if frame is not None and frame.sequence is None:
                        if frame.type != "progress" and self._wanted(frame):
                            yield _framed(
                                frame
                            )  # it is no event of the log; progress is what a buffer spares
                    elif frame is not None and self._wanted(frame):
                        due = due if held else clock() + self._buffer
                        held.append(frame)
                    if frame is None or frame.type in TERMINAL or frame.type in SUSPENDING:
                        due = 0.0
                    if frame is None and not held:
                        return
                if held and clock() >= due:
                    yield _batch(held)
                    held = []
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})


async def _next(frames: AsyncIterator[Frame]) -> Frame | None:
    return await anext(frames, None)


def _framed(frame: Frame) -> bytes:
    id = b"" if frame.sequence is None else b"id: %d\n" % frame.sequence
    return b"%bevent: %b\ndata: %b\n\n" % (id, frame.type.encode(), frame.data)


def _batch(frames: list[Frame]) -> bytes:
    numbers = [frame.sequence for frame in frames if frame.sequence is not None]
    id = b"id: %d\n" % numbers[-1] if numbers else b""
    return b"%bevent: batch\ndata: [%b]\n\n" % (id, b",".join(frame.data for frame in frames))


async def follow_run(call: HttpRequest) -> Response | LogStream:
    """The query first, whatever is accepted; then a stream, or the page of it that is there."""
    asked = call.query("streamMode", "bufferMs", "lastSequence", "since")
    surface = host_of(call)
    modes, buffer = _modes(asked.get("streamMode")), buffer_of(asked.get("bufferMs"))
    after = _after(asked, call.header(b"last-event-id"))
    accepted = call.headers.get(b"accept", b"").lower()
    if b"text/event-stream" not in accepted and b"application/json" in accepted:
        return await _page(call, await run_of(call, surface), after)
    call.server.admission.check_open()
    run = await run_of(call, surface)
    await call.audit_read(run)
    return LogStream(call, surface, run, after, modes, buffer)


async def poll_run(call: HttpRequest) -> Response:
    """What came after `lastSequence`: at once if there is anything, else for a while."""
    asked = call.query("lastSequence", "since", "timeout")
    after, seconds = _after(asked), _seconds(asked.get("timeout"))
    surface = host_of(call)
    run = await run_of(call, surface)
    if run.status not in CLOSED and run.events <= after + 1:
        waiting = call.server.store.wait_for_events(run.id, after=after, timeout=seconds)
        await call.until_disconnect(waiting)
        run = await run_of(call, surface)
    return await _page(call, run, after)


async def _page(call: HttpRequest, run: Run, after: int) -> Response:
    docs = await read_page(call.server.store, run.id, after=after, limit=PAGE)
    if docs:  # whoever waits for news is shown nothing
        await call.audit_read(run)
    last = docs[-1]["sequence"] if docs else after
    return answer(
        EventPage(
            run_id=run.id,
            run_status=run.status,
            events=[msgspec.Raw(_encode(one)) for one in docs],
            is_complete=run.status in CLOSED and last >= run.events - 1,
            last_event_seq=run.events - 1,
        )
    )


def _modes(text: str | None) -> tuple[str, ...]:
    """The contract gives a wrong mode an error code of its own (§4.4)."""
    try:
        return modes_of(text)
    except InvalidRequest as refusal:
        raise UnsupportedMode(str(refusal), MODES) from None


def _after(asked: dict[str, str], header: str | None = None) -> int:
    """From `lastSequence`, its older name `since`, or a Last-Event-ID; -1: from the start."""
    if "lastSequence" in asked and "since" in asked:
        raise InvalidRequest(Problem("since", "it is another name of lastSequence: give one of them"))
    said = [(name, asked[name]) for name in ("lastSequence", "since") if name in asked]
    name, text = said[0] if said else ("Last-Event-ID", header or "-1")
    if not _NUMBER.fullmatch(text):
        raise InvalidRequest(
            Problem(name, f"expected the sequence of an event, a whole number, got {text[:40]!r}")
        )
    return max(-1, int(text))


def _seconds(text: str | None) -> float:
    if text is None:
        return 30.0
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 60):
        raise InvalidRequest(Problem("timeout", f"expected whole seconds from 1 to 60, got {text[:40]!r}"))
    return float(text)
