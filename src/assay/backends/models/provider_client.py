"""The client of one provider: queueing, retries, deadlines. Models and embedders share it (FEP-26)."""

import asyncio
import itertools
import logging
import math
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import BinaryIO, NamedTuple

import msgspec

from assay.backends.models.fleet_limits import GATES
from assay.backends.models.key_scrubbing import valid_key
from assay.backends.models.provider_faults import (
    BACKOFF,
    Backoff,
    fault,
    lacks_credit,
    may_pass,
    pause,
    queue_timeout_fault,
    retry_after,
    throttles,
    unwrap_error,
)
from assay.backends.models.rate_limit import AdaptiveLimiter, RequestRate
from assay.backends.models.transport import JSON_TYPE, HttpAnswer, Outcome, TimedOut, Transport
from assay.extras import require
from assay.ports import Provider

log = logging.getLogger(__name__)


class ProviderResponse(msgspec.Struct, frozen=True):
    """A response body, the seconds it took with all retries but without queueing, and the number of attempts."""

    body: bytes
    seconds: float
    attempts: int


class _LoopState(NamedTuple):
    """The state of one event loop."""

    gate: AdaptiveLimiter
    transport: Transport


class ProviderClient:
    """
    One connection pool, one concurrency limit and one rate limit for a provider, on each event loop that uses it.

        line = Line(provider)
        model, embedder = OpenAICompatibleModel(line), OpenAICompatibleEmbedder(line)
    """

    def __init__(
        self,
        provider: Provider,
        *,
        backoff: Backoff = BACKOFF,
        max_bytes: int = 64 * 1024 * 1024,
        random_fraction: Callable[[], float] = random.random,
    ) -> None:
        self.provider = provider
        self._key = valid_key(provider)
        self._backoff, self._max_bytes, self._random_fraction = backoff, max_bytes, random_fraction
        self._tickets = itertools.count()
        self._states: dict[asyncio.AbstractEventLoop, _LoopState] = {}

    async def get(self, path: str, *, into: BinaryIO | None = None) -> ProviderResponse:
        """`into`: a file that gets the body in place of the answer."""
        return await self.post(path, None, into=into)

    async def post(
        self,
        path: str,
        body: bytes | None,
        *,
        timeout: float | None = None,
        content_type: str = JSON_TYPE,
        repeatable: bool = True,
        into: BinaryIO | None = None,
    ) -> ProviderResponse:
        """
        Send until there is an answer, the provider refuses, the attempts are used up or the time is over.

        Two clocks: `queue_timeout` runs in line, before the first attempt and after every 429; the deadline runs
        elsewhere. A retry keeps its ticket, so it goes before later calls. Raises TimeFault, ForeignFault or its
        subclass Rejected. A request that is not `repeatable` is sent again only after a 429.
        """
        loop = asyncio.get_running_loop()
        gate, transport = self._state(loop)
        ticket = next(self._tickets)
        patience = await self._enter(gate, ticket, self.provider.queue_timeout)
        started = loop.time()
        in_line = 0.0  # since then
        end = started + (self.provider.deadline if timeout is None else timeout)
        send = partial(transport.send, path, body, content_type=content_type, into=into)
        for attempt in itertools.count(1):
            outcome, wait = await self._attempt(gate, send, attempt, end, lines=body is None)
            now = loop.time()
            seconds = now - started - in_line
            if isinstance(outcome, HttpAnswer) and outcome.ok:
                return ProviderResponse(outcome.body, seconds, attempt)
            throttled = throttles(outcome)
            room = patience if throttled else end - now
            final = not (repeatable or throttled) or attempt > self.provider.max_retries
            if final or wait >= room:
                raise fault(self.provider, self._key, outcome, attempts=attempt, seconds=seconds)
            log.info(
                "provider %s, attempt %d: %s; next attempt in %.2f s",
                self.provider.name,
                attempt,
                _short_outcome(outcome),
                wait,
            )
            if throttled:  # it waits at the closed gate, where its ticket puts it first
                patience = await self._enter(gate, ticket, patience)
                in_line += loop.time() - now
                end += loop.time() - now
            elif not await self._wait_to_retry(gate, ticket, wait, end):
                raise fault(
                    self.provider,
                    self._key,
                    TimedOut(seconds + end - now),
                    attempts=1,
                    seconds=seconds + end - now,
                )
        raise AssertionError("counting does not end")

    async def close(self) -> None:
        """Close this event loop's connections."""
        state = self._states.pop(asyncio.get_running_loop(), None)
        if state is not None:
            await state.transport.close()

    def _state(self, loop: asyncio.AbstractEventLoop) -> _LoopState:
        state = self._states.get(loop)
        if state is None:
            for old in [other for other in self._states if other.is_closed()]:
                del self._states[old]
            per_minute = self.provider.requests_per_minute
            ceiling = RequestRate(self.provider.max_concurrency, per_minute / 60 if per_minute else math.inf)
            gate = AdaptiveLimiter(ceiling)
            GATES.add(self.provider.name, gate)
            state = _LoopState(gate, load_transport()(self.provider, self._max_bytes))
            self._states[loop] = state
        return state

    async def _attempt(
        self,
        gate: AdaptiveLimiter,
        send: Callable[[], Awaitable[Outcome]],
        attempt: int,
        end: float,
        *,
        lines: bool,
    ) -> tuple[Outcome, float]:
        """
        The outcome, and the wait before another attempt. The limiter adapts before its slot is released.

        `lines`: a file whose lines may have errors of their own.
        """
        loop = asyncio.get_running_loop()
        sent = loop.time()
        try:
            outcome = await self._try(send, limit=min(self.provider.timeout, end - sent), lines=lines)
            wait = self._wait(outcome, attempt)
            if throttles(outcome):  # a wait beyond the queue timeout does not close the gate
                short = wait < self.provider.queue_timeout
                gate.on_throttle(sent_at=sent, until=loop.time() + wait if short else sent)
            elif isinstance(outcome, HttpAnswer) and outcome.ok:
                gate.on_success()
        finally:
            gate.leave()
        return outcome, wait

    async def _try(self, send: Callable[[], Awaitable[Outcome]], *, limit: float, lines: bool) -> Outcome:
        try:
            async with asyncio.timeout(limit):
                outcome = await send()
        except TimeoutError:
            return TimedOut(limit)
        return unwrap_error(outcome) if isinstance(outcome, HttpAnswer) and not lines else outcome

    def _wait(self, outcome: Outcome, attempt: int) -> float:
        """Seconds until the next attempt; infinite: do not retry."""
        if not may_pass(outcome) or (
            isinstance(outcome, HttpAnswer) and outcome.status == 429 and lacks_credit(outcome)
        ):
            return math.inf
        asked = retry_after(outcome.headers, datetime.now(UTC)) if isinstance(outcome, HttpAnswer) else None
        return pause(
            attempt, retry_after=asked, backoff=self._backoff, random_fraction=self._random_fraction()
        )

    async def _enter(self, gate: AdaptiveLimiter, ticket: int, timeout: float) -> float:
        """Wait for a slot and return the remaining queue time; a TimeFault if none is left."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(timeout):
                await gate.enter(ticket)
        except TimeoutError:
            raise queue_timeout_fault(self.provider) from None
        return timeout - (loop.time() - began)

    async def _wait_to_retry(self, gate: AdaptiveLimiter, ticket: int, wait: float, end: float) -> bool:
        """Wait, then queue again; False if the deadline comes first."""
        try:
            async with asyncio.timeout_at(end):
                await asyncio.sleep(wait)
                await gate.enter(ticket)
        except TimeoutError:
            return False
        return True


def _short_outcome(outcome: Outcome) -> str:
    return str(outcome.status) if isinstance(outcome, HttpAnswer) else type(outcome).__name__.lower()


def load_transport() -> Callable[[Provider, int], Transport]:
    """The transport's class, whose arguments are a provider and the most bytes of an answer."""
    require("a model", "judges", package="aiohttp")
    from assay.backends.models.transport_aiohttp import AiohttpTransport  # deferred import: an extra

    return AiohttpTransport
