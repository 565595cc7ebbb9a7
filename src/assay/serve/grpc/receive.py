"""
Receives the message of a call: only after authentication, in time, and within the memory limit of its tenant (FEP-40).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from grpc.aio import EOF

from assay.concurrency.tenant_threads import off_loop
from assay.errors import InvalidRequest
from assay.serve.grpc.context import RpcContext
from assay.serve.web.body_reader import body_too_slow
from assay.serve.web.footprint import message_footprint
from assay.serve.web.limits import ServerLimits

SLOWEST = 128 * 1024  # bytes per second at which the largest message must arrive


class MessageReceiver:
    """
    gRPC buffers a message until it is complete, and only then hands it out.

    So no message is received without authentication, and the messages of a tenant wait for each other where together
    they could exceed its limit.
    """

    def __init__(self, serving: ServerLimits) -> None:
        self._idle_seconds = serving.body_seconds
        longest = serving.body_seconds + serving.max_body_bytes / SLOWEST
        self._seconds = min(longest, serving.max_body_seconds)
        limit = min(serving.max_held_bytes, serving.max_tenant_held_bytes)
        self._slots = max(1, limit // serving.max_body_bytes)
        self._semaphores: dict[str, asyncio.Semaphore] = {}
        self._waiting: Counter[str] = Counter()

    async def message(self, call: RpcContext) -> bytes:
        """The one message of a call, as bytes."""
        try:
            async with asyncio.timeout(self._seconds), self._slot(call.tenant):
                data = await call.context.read()
        except TimeoutError:
            raise body_too_slow(self._idle_seconds) from None
        if data is EOF:
            raise InvalidRequest("expected a message, got none")
        call.reservation.reserve_bytes(await off_loop(len(data), lambda: message_footprint(data)))
        return data

    @asynccontextmanager
    async def _slot(self, tenant: str) -> AsyncGenerator[None]:
        semaphore = self._semaphores.setdefault(tenant, asyncio.Semaphore(self._slots))
        self._waiting[tenant] += 1
        try:
            async with semaphore:
                yield
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant], self._semaphores[tenant]
