"""A response of server-sent events."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from assay.errors import Refusal
from assay.ports import Run
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import log


class EventStream:
    """
    The frames of a run until it ends, the client disconnects or the server stops. With `closes` the connection ends
    with them. `ping` makes what is sent in between.
    """

    def __init__(
        self,
        call: HttpRequest,
        run: Run,
        frames: AsyncGenerator[bytes],
        *,
        closes: bool = False,
        ping: Callable[[], ServerSentEvent] | None = None,
    ) -> None:
        self._serving, self._run, self._frames = call.server.serving, run, frames
        self._closes, self._ping = closes, ping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = EventSourceResponse(
            self._guarded(),
            ping=self._serving.ping_seconds,
            sep="\n",
            ping_message_factory=self._ping,
            send_timeout=self._serving.send_seconds,
        )
        if self._closes:
            response.headers["connection"] = "close"
        else:
            del response.headers["connection"]  # the server sets it
        await response(scope, receive, send)

    async def _guarded(self) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self._frames) as frames:
                async for frame in frames:
                    yield frame
        except Refusal as trouble:  # the client reconnects with its Last-Event-ID
            log.error("event stream of %s ended: %s", self._run.id, trouble)
