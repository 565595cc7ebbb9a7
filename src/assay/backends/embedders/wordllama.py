"""The Embedder that needs no key and no network: wordllama, whose weights are in its own package (FEP 2.3.6)."""

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from assay.backends.models.wire import need
from assay.errors import ValueFault
from assay.ports import Embedded

MODEL = "wordllama-l2-supercat-256"
NAMES = frozenset({"wordllama", MODEL})
SIZES = (64, 128, 256)  # what it was trained to be cut to
PIECE = 4096  # token vectors held at once: a long text may not fill the memory
SHORT = 8192  # characters that are embedded before a thread would have started

_lock = threading.Lock()


class WordLlamaEmbedder:
    """
    Means of static token vectors: fast, deterministic, offline.

    It knows which words go together, not what a sentence claims: no negation, hardly any order.
    """

    def __init__(self, provider: str = "wordllama") -> None:
        need("wordllama", "similarity")
        self._provider = provider

    async def embed(
        self, texts: Sequence[str], *, model: str = MODEL, dimensions: int | None = None
    ) -> Embedded:
        if model not in NAMES:
            raise ValueFault(f"wordllama has no model {model!r}; it knows {', '.join(sorted(NAMES))}")
        if dimensions is not None and dimensions not in SIZES:
            raise ValueFault(f"wordllama has no vectors of {dimensions} dimensions; it can give {SIZES}")
        started = time.perf_counter()
        if not _read.cache_info().currsize or sum(map(len, texts)) > SHORT:
            vectors, tokens = await asyncio.to_thread(_embed, texts, dimensions)
        else:
            vectors, tokens = _embed(texts, dimensions)
        return Embedded(
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

    As wordllama's own `embed`, except that it pads every text of a batch to the longest one and holds all of it at once.
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


def _load() -> Any:
    with _lock:
        return _read()


@functools.cache
def _read() -> Any:
    """Load without a download: its tokenizer is looked for in `cache_dir`, and lies in the package itself."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    wordllama: Any = import_module(
        "wordllama"
    )  # untyped; and it calls logging.basicConfig, which is undone here
    root.handlers[:] = handlers
    root.setLevel(level)
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    model.tokenizer.no_padding()
    return model
