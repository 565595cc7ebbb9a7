"""GET /v1/runs/{runId}/events and /events/poll: the event log, live or in pages (openwop-contract §4.3, §4.4)."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import msgspec
from sse_starlette import ServerSentEvent

from assay.errors import InvalidRequest, Problem
from assay.ports import CLOSED, Run
from assay.protocol.runs import EventPage
from assay.runs.log_reader import read_page
from assay.serve.openwop.errors import UnsupportedMode
from assay.serve.openwop.events_feed import (
    MODES,
    SUSPENDING,
    TERMINAL,
    Frame,
    buffer_of,
    carries,
    is_update,
    modes_of,
)
from assay.serve.openwop.host import OpenWopHost, host_of, run_of, snapshot
from assay.serve.web.event_stream import EventStream
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

PAGE = 1_000  # events in one response
EPHEMERAL = frozenset({"progress", "run.annotated"})  # not in the log; sent with `updates` and `debug`
_encode = msgspec.json.Encoder().encode
_NUMBER = re.compile(r"-?[0-9]{1,15}")


class KeepAlive(ServerSentEvent):
    """The keep-alive comment, as clients expect it."""

    def encode(self) -> bytes:
        return b":keepalive\n\n"


class LogFrames:
    """The frames of a run's log as server-sent events, selected by the modes."""

    def __init__(
        self, call: HttpRequest, host: OpenWopHost, run: Run, sequence: int, modes: Sequence[str], buffer: int
    ) -> None:
        self._call, self._host, self._run = call, host, run
        self._sequence, self._modes, self._buffer = sequence, modes, buffer / 1000

    async def follow(self) -> AsyncGenerator[bytes]:
        async with aclosing(self._host.feeds.follow(self._run, self._sequence)) as following:
            if "values" in self._modes:
                async for frame in self._values(following):
                    yield frame
            elif self._buffer:
                async for frame in self._batches(following):
                    yield frame
            else:
                async for frame in following:
                    if self._selects(frame):
                        yield _encode_frame(frame)

    def _selects(self, frame: Frame) -> bool:
        if frame.type in EPHEMERAL:
            return not {"updates", "debug"}.isdisjoint(self._modes)
        return carries(self._modes, frame.type)

    async def _values(self, frames: AsyncIterator[Frame]) -> AsyncIterator[bytes]:
        """A snapshot of the run at the start and after every update."""
        if self._sequence >= 0:
            yield await self._state(self._sequence)
        async for frame in frames:
            if frame.sequence is not None and is_update(frame.type):
                yield await self._state(frame.sequence)

    async def _state(self, sequence: int) -> bytes:
        run = await self._call.server.executor.get(self._run.id, self._call.tenant)
        document = _encode(await snapshot(self._host, run))
        return b"id: %d\nevent: state.snapshot\ndata: %b\n\n" % (sequence, document)

    async def _batches(self, frames: AsyncIterator[Frame]) -> AsyncIterator[bytes]:
        """Send the frames of one interval together. The end of the run, or a wait for a person, is sent at once."""
        batch: list[Frame] = []
        due = 0.0
        clock = asyncio.get_running_loop().time
        pending: asyncio.Task[Frame | None] | None = None
        try:
            while True:
                pending = pending or asyncio.create_task(_next(frames))
                await asyncio.wait({pending}, timeout=max(0.0, due - clock()) if batch else None)
                if pending.done():
                    frame, pending = pending.result(), None
                    if frame is not None and frame.sequence is None:
                        if frame.type != "progress" and self._selects(frame):
                            # it is not in the log; progress is dropped, since a buffer asks for fewer frames
                            yield _encode_frame(frame)
                    elif frame is not None and self._selects(frame):
                        due = due if batch else clock() + self._buffer
                        batch.append(frame)
                    if frame is None or frame.type in TERMINAL or frame.type in SUSPENDING:
                        due = 0.0
                    if frame is None and not batch:
                        return
                if batch and clock() >= due:
                    yield _batch(batch)
                    batch = []
        finally:
            if pending is not None:
                pending.cancel()
                await asyncio.wait({pending})


async def _next(frames: AsyncIterator[Frame]) -> Frame | None:
    return await anext(frames, None)


def _encode_frame(frame: Frame) -> bytes:
    id = b"" if frame.sequence is None else b"id: %d\n" % frame.sequence
    return b"%bevent: %b\ndata: %b\n\n" % (id, frame.type.encode(), frame.data)


def _batch(frames: list[Frame]) -> bytes:
    numbers = [frame.sequence for frame in frames if frame.sequence is not None]
    id = b"id: %d\n" % numbers[-1] if numbers else b""
    return b"%bevent: batch\ndata: [%b]\n\n" % (id, b",".join(frame.data for frame in frames))


async def follow_run(call: HttpRequest) -> Response | EventStream:
    """An event stream; or a page of events, if the client accepts only JSON. The query is validated first."""
    params = call.query("streamMode", "bufferMs", "lastSequence", "since")
    host = host_of(call)
    modes, buffer = _modes(params.get("streamMode")), buffer_of(params.get("bufferMs"))
    after = _start_sequence(params, call.header(b"last-event-id"))
    accepted = call.headers.get(b"accept", b"").lower()
    if b"text/event-stream" not in accepted and b"application/json" in accepted:
        return await _page(call, await run_of(call, host), after)
    call.server.admission.check_open()
    run = await run_of(call, host)
    await call.audit_read(run, content=False)
    frames = LogFrames(call, host, run, after, modes, buffer)
    return EventStream(call, run, frames.follow(), closes=True, ping=KeepAlive)


async def poll_run(call: HttpRequest) -> Response:
    """The events after `lastSequence`. Waits up to `timeout` seconds if there are none yet."""
    params = call.query("lastSequence", "since", "timeout")
    after, seconds = _start_sequence(params), _seconds(params.get("timeout"))
    host = host_of(call)
    run = await run_of(call, host)
    if run.status not in CLOSED and run.events <= after + 1:
        waiting = call.server.store.wait_for_events(run.id, after=after, timeout=seconds)
        await call.until_disconnect(waiting)
        run = await run_of(call, host)
    return await _page(call, run, after)


async def _page(call: HttpRequest, run: Run, sequence: int) -> Response:
    docs = await read_page(call.server.store, run.id, after=sequence, limit=PAGE)
    if docs:  # a poll without events reads no content
        await call.audit_read(run, content=False)
    last = docs[-1]["sequence"] if docs else sequence
    return answer(
        EventPage(
            run_id=run.id,
            run_status=run.status,
            events=[msgspec.Raw(_encode(doc)) for doc in docs],
            is_complete=run.status in CLOSED and last >= run.events - 1,
            last_event_seq=run.events - 1,
        )
    )


def _modes(text: str | None) -> tuple[str, ...]:
    """A wrong mode has an error code of its own (openwop-contract §4.4)."""
    try:
        return modes_of(text)
    except InvalidRequest as refusal:
        raise UnsupportedMode(str(refusal), MODES) from None


def _start_sequence(params: dict[str, str], header: str | None = None) -> int:
    """The sequence in `lastSequence`, in its older name `since`, or in Last-Event-ID; -1: from the start."""
    if "lastSequence" in params and "since" in params:
        raise InvalidRequest(
            Problem("since", "expected one of since and lastSequence, got both; they mean the same")
        )
    values = [(name, params[name]) for name in ("lastSequence", "since") if name in params]
    name, text = values[0] if values else ("Last-Event-ID", header or "-1")
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
