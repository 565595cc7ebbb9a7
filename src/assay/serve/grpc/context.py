"""One gRPC call: its metadata, its trailers, and the run that is cancelled if its client goes away."""

import asyncio
from typing import Any

from grpc.aio import ServicerContext

from assay.concurrency.event_loop import run_guarded
from assay.errors import Refusal
from assay.serve.fep.submit import SubmittedRun
from assay.serve.grpc.errors import Metadata
from assay.serve.web.request import RequestContext, ServerState, headers_by_name
from assay.serve.web.responses import log

Context = ServicerContext[Any, Any]


class RpcContext(RequestContext):
    """gRPC cancels the task of a call when its client goes away: code that waits in it gets CancelledError."""

    __slots__ = ("context", "trailers")

    def __init__(self, server: ServerState, context: Context) -> None:
        metadata = context.invocation_metadata() or ()
        super().__init__(
            server, headers_by_name([(name.encode(), _bytes(value)) for name, value in metadata])
        )
        self.context = context
        self.trailers: Metadata = (("x-request-id", self.id),)

    def add_trailers(self, *metadata: tuple[str, str | bytes]) -> None:
        """Send metadata at the end of the response, also if it is an error."""
        self.trailers += metadata
        self.context.set_trailing_metadata(self.trailers)

    def abandon(self, run: SubmittedRun) -> None:
        """
        The client went away: cancel the run, unless another request may need it.

        A client that sent an idempotency-key may retry and ask for the same run.
        """
        if not run.replayed and run.result is None and self.header(b"idempotency-key") is None:
            task = asyncio.create_task(_stop(self, run.run))
            _STOPPING.add(task)
            task.add_done_callback(_STOPPING.discard)


_STOPPING: set[asyncio.Task[None]] = set()


async def _stop(call: RpcContext, run: str) -> None:
    trouble = await run_guarded("stop", call.server.executor.cancel(run, call.tenant), Refusal)
    if isinstance(trouble, Refusal):  # it has ended meanwhile, or the database is unavailable
        log.info("request %s: run %s was not cancelled: %s", call.id, run, trouble)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1", "replace")
