"""The offline embedder: wordllama, whose weights are in its package (FEP 2.3.6)."""

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from assay.concurrency.threads import in_thread
from assay.concurrency.workers import pool
from assay.concurrency.workers.batch import Batch
from assay.errors import Fault, ValueFault
from assay.extras import require
from assay.ports import Embeddings

MODEL = "wordllama-l2-supercat-256"
NAMES = frozenset({"wordllama", MODEL})
SIZES = (64, 128, 256)  # what it was trained to be cut to
PIECE = 4096  # token vectors held at once: a long text may not fill the memory
SHORT = 8192  # characters that are embedded before a thread would have started
LONG = 65_536  # characters from which on a process that can be killed does it…
SECONDS = 20.0  # …of processor time, for each text

_lock = threading.Lock()


class WordLlamaEmbedder:
    """
    Means of static token vectors: fast, deterministic, offline.

    It knows which words go together, not what a sentence claims: no negation, hardly any order.
    """

    def __init__(self, provider: str = "wordllama") -> None:
        require("semantic similarity", "similarity")
        self._provider = provider

    async def embed(
        self, texts: Sequence[str], *, model: str = MODEL, dimensions: int | None = None
    ) -> Embeddings:
        if model not in NAMES:
            raise ValueFault(f"wordllama has no model {model!r}; it has {', '.join(sorted(NAMES))}")
        if dimensions is not None and dimensions not in SIZES:
            raise ValueFault(f"wordllama has no vectors of {dimensions} dimensions; expected one of {SIZES}")
        started = time.perf_counter()
        long = sum(map(len, texts))
        if long > LONG:
            vectors, tokens = await _embed_elsewhere(texts, dimensions)
        elif not _read.cache_info().currsize or long > SHORT:
            vectors, tokens = await in_thread(lambda: _embed(texts, dimensions))
        else:
            vectors, tokens = _embed(texts, dimensions)
        return Embeddings(
            vectors=vectors,
            model=MODEL,
            provider=self._provider,
            tokens=tokens,
            cost_usd=0.0,  # known, for once
            seconds=time.perf_counter() - started,
        )

    async def close(self) -> None: ...


def _embed(texts: Sequence[str], dimensions: int | None) -> tuple[tuple[tuple[float, ...], ...], int]:
    """
    The mean of each text's token vectors, zeros for a text without any; and how many tokens there were.

    As wordllama's own `embed`, except that it pads every text of a batch to the longest one and holds all of it at
    once.
    """
    model = _load()
    table = model.embedding[:, :dimensions]
    vectors: list[tuple[float, ...]] = []
    tokens = 0
    for text in texts:
        # one by one: encode_batch starts threads of its own, which a later fork complains about
        ids = model.tokenizer.encode(text, add_special_tokens=False).ids
        pieces = (
            table[ids[at : at + PIECE]].sum(axis=0, dtype="float64") for at in range(0, len(ids), PIECE)
        )
        total: Any = sum(pieces, start=table[0].astype("float64") * 0)
        vectors.append(tuple((total / max(1, len(ids))).tolist()))
        tokens += len(ids)
    return tuple(vectors), tokens


async def _embed_elsewhere(
    texts: Sequence[str], dimensions: int | None
) -> tuple[tuple[tuple[float, ...], ...], int]:
    """The same in a worker process, which is killed when its caller is cancelled or its time is over."""
    items = [text.encode("utf-8", "surrogatepass") for text in texts]
    common = msgspec.json.encode(dimensions)
    batch = Batch("assay.backends.embedders.wordllama:task", items, SECONDS, common=common)
    outcomes = await asyncio.wrap_future(pool.submit(batch))
    vectors: list[tuple[float, ...]] = []
    total = 0
    for outcome in outcomes:
        if isinstance(outcome, Fault):
            raise outcome
        vector, tokens = msgspec.msgpack.decode(outcome, type=tuple[tuple[float, ...], int])
        vectors.append(vector)
        total += tokens
    return tuple(vectors), total


def task(common: bytes) -> Callable[[bytes], bytes]:
    """In a worker process: a text's vector and number of tokens."""
    dimensions = msgspec.json.decode(common, type=int | None)

    def run(item: bytes) -> bytes:
        (vector,), tokens = _embed([item.decode("utf-8", "surrogatepass")], dimensions)
        return msgspec.msgpack.encode((vector, tokens))

    return run


def _load() -> Any:
    with _lock:
        return _read()


@functools.cache
def _read() -> Any:
    """Load without a download: `cache_dir` is the package, which contains the tokenizer."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # untyped; and it calls logging.basicConfig, which is undone here
    wordllama: Any = import_module("wordllama")
    root.handlers[:] = handlers
    root.setLevel(level)
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    model.tokenizer.no_padding()
    return model
