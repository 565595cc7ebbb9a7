"""Caches vectors on disk, one entry per text, so that only new texts are sent (FEP 2.3.6, `semantic_similarity`)."""

import asyncio
from collections.abc import Sequence

import msgspec

from assay.backends.models.cached import DiskCache, key_of
from assay.ports import Embedder, Embeddings, Provider


class _CachedVector(msgspec.Struct, frozen=True):
    vector: tuple[float, ...]
    model: str
    tokens: int | None
    cost_usd: float | None


class CachedEmbedder:
    """
    An Embedder before which a cache stands.

    `cached` says that nothing was sent, and then it cost 0.0; `saved_usd` is what the texts that were not sent cost
    once.
    """

    def __init__(self, inner: Embedder, cache: DiskCache, provider: Provider) -> None:
        self._inner, self._cache, self._provider = inner, cache, provider

    async def embed(self, texts: Sequence[str], *, model: str, dimensions: int | None = None) -> Embeddings:
        keys = {
            text: key_of("vector", self._provider, model=model, dimensions=dimensions, text=text)
            for text in texts
        }
        entries = await asyncio.gather(*(self._cache.get(key, _CachedVector) for key in keys.values()))
        kept = {text: entry for text, entry in zip(keys, entries, strict=True) if entry is not None}
        saved = sum_known([entry.cost_usd for entry in kept.values()]) if kept else None
        new = [text for text in keys if text not in kept]
        if not new:
            vectors = tuple(kept[text].vector for text in texts)
            model = kept[texts[0]].model if texts else model
            tokens = sum_known([entry.tokens for entry in kept.values()])
            return Embeddings(
                vectors=vectors,
                model=model,
                provider=self._provider.name,
                tokens=None if tokens is None else int(tokens),
                cost_usd=0.0,
                saved_usd=saved,
                cached=True,
            )
        sent = await self._inner.embed(new, model=model, dimensions=dimensions)
        fresh = _split(new, sent)
        await asyncio.gather(*(self._cache.put(keys[text], entry) for text, entry in fresh.items()))
        known = kept | fresh
        return msgspec.structs.replace(
            sent, vectors=tuple(known[text].vector for text in texts), saved_usd=saved
        )

    async def close(self) -> None:
        await self._inner.close()


def _split(texts: list[str], embeddings: Embeddings) -> dict[str, _CachedVector]:
    tokens = shares(embeddings.tokens, texts)
    costs = [
        None
        if embeddings.cost_usd is None or part is None
        else embeddings.cost_usd * part / (embeddings.tokens or 1)
        for part in tokens
    ]
    return {
        text: _CachedVector(vector, embeddings.model, part, cost)
        for text, vector, part, cost in zip(texts, embeddings.vectors, tokens, costs, strict=True)
    }


# Divides the tokens of a shared request among its texts, by their lengths. The parts add up to the total.


def shares(total: int | None, texts: Sequence[str]) -> list[int | None]:
    """
    Each text's part of the tokens; unknown if the total is.

        shares(10, ["abc", "a"]) == [6, 4]
    """
    if total is None:
        return [None] * len(texts)
    whole = sum(len(text) + 1 for text in texts)
    parts: list[int | None] = []
    length = given = 0
    for text in texts:
        length += len(text) + 1
        parts.append(total * length // whole - given)
        given = total * length // whole
    return parts


def sum_known(parts: Sequence[float | None]) -> float | None:
    """The sum; None if any part is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
