"""A model whose calls wait for a batch. What is sent and how it is read are those of a single call."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Protocol

import msgspec

from assay.backends.models.batches.collector import BatchCollector, SingleCall
from assay.backends.models.key_scrubbing import valid_key
from assay.backends.models.prices import TokenCounts, cost
from assay.backends.models.provider_client import ProviderResponse
from assay.backends.models.provider_faults import Rejected, fault, may_pass
from assay.backends.models.transport import HttpAnswer
from assay.errors import CostReached, Fault, ForeignFault
from assay.ports import Completion, CompletionRequest, Provider
from assay.ports.batches import BatchOptions, BatchProvider, BatchResponse

BYTES_PER_TOKEN = 3  # of an estimate; few texts have fewer
OUTPUT_TOKENS = 500  # of an estimate, if the caller sets no limit


class BatchableModel(Protocol):
    """A model that can say what it sends, and read what comes back."""

    async def complete(self, request: CompletionRequest) -> Completion: ...

    async def close(self) -> None: ...

    def structures(self, ask: CompletionRequest) -> bool: ...

    def encode(self, ask: CompletionRequest, *, structured: bool) -> bytes: ...

    def read(
        self, ask: CompletionRequest, response: ProviderResponse, *, structured: bool, batch: bool = False
    ) -> Completion: ...


class BatchedModel:
    """
    Requests that may wait go into batches; all others are single calls. A request whose answer is missing, or failed in
    a way that may pass, goes into another batch, as often as a single call is repeated.
    """

    def __init__(
        self,
        inner: BatchableModel,
        provider: Provider,
        backend: Callable[[], BatchProvider],
        options: BatchOptions,
        close_backend: Callable[[], Awaitable[None]],
    ) -> None:
        self._close_backend = close_backend
        self._inner, self._provider, self._backend, self._options = inner, provider, backend, options
        self._key = valid_key(provider)
        self._collectors: dict[asyncio.AbstractEventLoop, BatchCollector] = {}

    async def complete(self, request: CompletionRequest) -> Completion:
        if not request.may_wait:
            return await self._inner.complete(request)
        try:
            return await self._complete(request)
        except SingleCall:
            return await self._single(request)
        except CostReached:
            raise
        except Fault:
            if self._options.single_after is None:
                raise
            return await self._single(request)  # whatever is wrong with the batches

    async def close(self) -> None:
        collector = self._collectors.pop(asyncio.get_running_loop(), None)
        if collector is not None:
            await collector.close()
        await self._close_backend()
        await self._inner.close()

    async def _single(self, request: CompletionRequest) -> Completion:
        reply = await self._inner.complete(request)
        self._options.budget.charge(reply.cost_usd or 0.0)
        return reply

    async def _complete(self, request: CompletionRequest) -> Completion:
        collector, loop = self._collector(), asyncio.get_running_loop()
        structured = self._inner.structures(request)
        began = loop.time()
        for attempt in count(1):
            body = self._inner.encode(request, structured=structured)
            estimate = self._estimate(request, body)
            paid = 0.0
            try:
                answer = await collector.ask(request.model, body, estimate)
                seconds = loop.time() - began
                if answer is not None and 200 <= answer.status < 300:
                    response = ProviderResponse(answer.body, seconds, attempt)
                    reply = self._inner.read(request, response, structured=structured, batch=True)
                    paid = reply.cost_usd or 0.0
                    return msgspec.structs.replace(reply, batch=True)
            finally:
                collector.settle(estimate, paid)
            failure = self._failure(answer, attempt, seconds)
            if isinstance(failure, Rejected) and failure.schema and structured:
                structured = False
            elif attempt > self._provider.max_retries or not failure.recoverable:
                raise failure
        raise AssertionError("counting does not end")

    def _failure(self, answer: BatchResponse | None, attempts: int, seconds: float) -> Fault:
        who = f"provider {self._provider.name!r}"
        if answer is None:
            often = "a batch" if attempts == 1 else f"{attempts} batches"
            return ForeignFault(f"{who} ended {often} without an answer to this call", recoverable=True)
        outcome = HttpAnswer(answer.status, {}, answer.body)
        failure = fault(self._provider, self._key, outcome, attempts=attempts, seconds=seconds)
        failure.recoverable = may_pass(outcome)
        return failure

    def _estimate(self, request: CompletionRequest, body: bytes) -> float:
        """US dollars that an answer may cost; 0 if the price is unknown, as an unknown cost counts for no limit."""
        limit = request.parameters.get("max_tokens", request.parameters.get("max_completion_tokens"))
        written = limit if isinstance(limit, int) and limit > 0 else OUTPUT_TOKENS
        usage = TokenCounts(len(body) // BYTES_PER_TOKEN, written)
        return cost(self._provider, (request.model,), usage, batch=True) or 0.0

    def _collector(self) -> BatchCollector:
        loop = asyncio.get_running_loop()
        found = self._collectors.get(loop)
        if found is None:
            found = self._collectors[loop] = BatchCollector(self._backend(), self._provider, self._options)
        return found
