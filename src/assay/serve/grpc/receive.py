"""A message as it comes in: only once it is known who sends it, in time, and of a tenant no more at once than may be held (decision 40)."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from grpc.aio import EOF

from assay.errors import InvalidRequest
from assay.serve.grpc.context import RpcContext
from assay.serve.web.body import body_too_slow
from assay.serve.web.footprint import message_footprint
from assay.serve.web.limits import ServerLimits

LARGE = 256 * 1024  # bytes that are counted and read in a thread, so that others are served meanwhile
SLOWEST = 128 * 1024  # bytes a second, at which the largest message must come


class MessageReceiver:
    """
    One server's. gRPC gives a message out when all of it is there, and holds it until then.

    So nobody unknown is listened to, and a tenant's messages wait for each other where they could be too much together.
    """

    def __init__(self, serving: ServerLimits) -> None:
        self._patience = serving.body_seconds
        longest = serving.body_seconds + serving.max_body_bytes / SLOWEST
        self._seconds = min(longest, serving.max_body_seconds)
        held = min(serving.max_held_bytes, serving.max_tenant_held_bytes)
        self._most = max(1, held // serving.max_body_bytes)
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._asking: Counter[str] = Counter()

    async def message(self, call: RpcContext) -> bytes:
        """The one message of a call, as bytes."""
        try:
            async with asyncio.timeout(self._seconds), self._turn(call.tenant):
                data = await call.context.read()
        except TimeoutError:
            raise body_too_slow(self._patience) from None
        if data is EOF:
            raise InvalidRequest("expected a message, and none came")
        call.reservation.reserve_bytes(
            message_footprint(data)
            if len(data) <= LARGE
            else await asyncio.to_thread(message_footprint, data)
        )
        return data

    @asynccontextmanager
    async def _turn(self, tenant: str) -> AsyncGenerator[None]:
        turns = self._turns.setdefault(tenant, asyncio.Semaphore(self._most))
        self._asking[tenant] += 1
        try:
            async with turns:
                yield
        finally:
            self._asking[tenant] -= 1
            if not self._asking[tenant]:
                del self._asking[tenant], self._turns[tenant]
