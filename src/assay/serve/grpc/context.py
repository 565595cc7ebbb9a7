"""One call on its way: who is asking, its metadata, and what stops when nobody waits for it any longer."""

import asyncio
from typing import Any

from grpc.aio import ServicerContext

from assay.errors import Refusal
from assay.ports.supervise import run_guarded
from assay.serve.fep.submit import Started
from assay.serve.grpc.errors import Metadata
from assay.serve.web.request import RequestContext, ServerState, headers_by_name
from assay.serve.web.responses import log

Context = ServicerContext[Any, Any]


class RpcContext(RequestContext):
    """A cancelled call is a cancelled task: whoever waits in it is told by CancelledError."""

    __slots__ = ("context", "told")

    def __init__(self, server: ServerState, context: Context) -> None:
        given = context.invocation_metadata() or ()
        super().__init__(server, headers_by_name([(name.encode(), _bytes(value)) for name, value in given]))
        self.context = context
        self.told: Metadata = (("x-request-id", self.id),)

    def tell(self, *metadata: tuple[str, str | bytes]) -> None:
        """With the end of the answer, whatever it is."""
        self.told += metadata
        self.context.set_trailing_metadata(self.told)

    def give_up(self, begun: Started) -> None:
        """
        Nobody waits for a run any longer: it is stopped, unless somebody else may.

        A client that sent an idempotency-key comes again for what it has begun.
        """
        if not begun.replayed and begun.made is None and self.header(b"idempotency-key") is None:
            stopping = asyncio.create_task(_stop(self, begun.run))
            _STOPPING.add(stopping)
            stopping.add_done_callback(_STOPPING.discard)


_STOPPING: set[asyncio.Task[None]] = set()


async def _stop(call: RpcContext, run: str) -> None:
    trouble = await run_guarded("stop", call.server.executor.cancel(run, call.tenant), Refusal)
    if isinstance(trouble, Refusal):  # it has ended meanwhile, or the database is away
        log.info("request %s: run %s was not stopped: %s", call.id, run, trouble)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1", "replace")
