"""An embedder behind an endpoint with OpenAI's embeddings protocol (FEP 2.3.6, `semantic_similarity`)."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from assay.backends.embedders.cached import shares, sum_known
from assay.backends.models.completions import decode_answer
from assay.backends.models.key_scrubbing import content_key, without_key
from assay.backends.models.prices import TokenCounts, cost, need_prices
from assay.backends.models.provider_client import ProviderClient, ProviderResponse
from assay.backends.models.transport import to_json
from assay.errors import Fault, ForeignFault
from assay.ports import Embeddings
from assay.protocol.agents import MAX_TOKENS

PATH = "/embeddings"


class Batching(msgspec.Struct, frozen=True, kw_only=True):
    """Texts that arrive within `window` seconds share a request, up to a number of texts and characters."""

    window: float = 0.005
    texts: int = 256
    characters: int = 200_000


BATCHING = Batching()


class _Part(NamedTuple):
    """One text's share of a request."""

    vector: tuple[float, ...]
    model: str
    tokens: int | None
    cost_usd: float | None
    delivered: ProviderResponse


class _PendingBatch(NamedTuple):
    """The texts of the next request, each with its waiting callers."""

    loop: asyncio.AbstractEventLoop
    model: str
    dimensions: int | None
    texts: dict[str, asyncio.Future[_Part]]


class OpenAICompatibleEmbedder:
    """
    Merges calls made at about the same time. A text that several want is sent once, and the first of them pays.

    Tokens and cost of a merged request are shared out by the length of the texts; their sum is what the provider said.
    """

    def __init__(self, line: ProviderClient, *, batching: Batching = BATCHING) -> None:
        need_prices(line.provider)
        self._line, self._batching = line, batching
        self._piles: dict[tuple[Any, ...], _PendingBatch] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def embed(self, texts: Sequence[str], *, model: str, dimensions: int | None = None) -> Embeddings:
        loop = asyncio.get_running_loop()
        pile = self._join_batch(_PendingBatch(loop, model, dimensions, {}))
        waiting: dict[str, asyncio.Future[_Part]] = {}
        mine: set[str] = set()
        for text in dict.fromkeys(texts):
            if text not in pile.texts:
                pile.texts[text] = loop.create_future()
                mine.add(text)
            waiting[text] = pile.texts[text]
        if waiting:
            # not gather: a caller that gives up may not cancel a batch of others
            await asyncio.wait(waiting.values())
        parts = {text: future.result() for text, future in waiting.items()}
        paid = [parts[text] for text in mine]
        tokens = sum_known([part.tokens for part in paid])
        return Embeddings(
            vectors=tuple(parts[text].vector for text in texts),
            model=next((part.model for part in parts.values()), model),
            provider=self._line.provider.name,
            tokens=None if tokens is None else int(tokens),
            cost_usd=sum_known([part.cost_usd for part in paid]),
            seconds=max((part.delivered.seconds for part in parts.values()), default=0.0),
            attempts=max((part.delivered.attempts for part in parts.values()), default=1),
        )

    async def close(self) -> None:
        for task in list(self._sending):
            if task.get_loop() is asyncio.get_running_loop():
                task.cancel()
        await self._line.close()

    def _join_batch(self, new: _PendingBatch) -> _PendingBatch:
        """The open batch for these; a new one is sent when its window ends."""
        key = new[:3]
        pile = self._piles.get(key)
        if pile is None:
            pile = self._piles[key] = new
            new.loop.call_later(self._batching.window, self._dispatch, key)
        return pile

    def _dispatch(self, key: tuple[Any, ...]) -> None:
        pile = self._piles.pop(key)
        for texts in batches(pile.texts, self._batching):
            task = pile.loop.create_task(self._send(pile, texts))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, batch: _PendingBatch, texts: list[str]) -> None:
        waiting = [batch.texts[text] for text in texts]
        try:
            parts = await self._ask(texts, batch.model, batch.dimensions)
        except Fault as fault:
            for future in waiting:
                future.set_exception(fault)
                future.exception()  # retrieved, even if the caller was cancelled
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
        else:
            for future, part in zip(waiting, parts, strict=True):
                future.set_result(part)

    async def _ask(self, texts: list[str], model: str, dimensions: int | None) -> list[_Part]:
        body: dict[str, Any] = {"model": model, "input": texts, "encoding_format": "float"}
        if dimensions is not None:
            body["dimensions"] = dimensions
        delivered = await self._line.post(PATH, to_json(body))
        answer = self._read(delivered.body, len(texts))
        provider = self._line.provider
        model_name = without_key(answer.model, content_key(provider))
        names = (model_name, model) if model_name else (model,)
        used = answer.usage.prompt_tokens if answer.usage else None
        used = None if used is not None and used > MAX_TOKENS else used
        tokens = shares(used, texts)
        return [
            _Part(
                tuple(each.embedding), names[0], part, cost(provider, names, TokenCounts(part, 0)), delivered
            )
            for each, part in zip(answer.data, tokens, strict=True)
        ]

    def _read(self, body: bytes, count: int) -> "_Response":
        who = f"provider {self._line.provider.name!r}"
        answer = decode_answer(self._line.provider, body, _response, "embeddings")
        answer.data.sort(key=lambda each: each.index)
        if [each.index for each in answer.data] != list(range(count)):
            raise ForeignFault(f"{who} sent {len(answer.data)} vectors for {count} texts")
        if len({len(each.embedding) for each in answer.data}) != 1:
            raise ForeignFault(f"{who} sent vectors of different lengths")
        if not all(math.isfinite(number) for each in answer.data for number in each.embedding):
            raise ForeignFault(f"{who} sent a vector with a value that is not a finite number")
        return answer


def batches(texts: Iterable[str], limit: Batching) -> Iterable[list[str]]:
    """Split in order, each part within the limit. A text above the limit goes alone."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == limit.texts or size + len(text) > limit.characters):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


class _Vector(msgspec.Struct):
    index: int
    embedding: Annotated[list[float], msgspec.Meta(min_length=1)]


class _TokenUsage(msgspec.Struct):
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _Response(msgspec.Struct):
    data: list[_Vector]
    model: str | None = None
    usage: _TokenUsage | None = None


_response = msgspec.json.Decoder(_Response)
