"""Embedders against a real local provider, and the one that needs none (FEP 2.3.6, FEP-24)."""

import asyncio
import logging
import math
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from assay.backends.embedders import wordllama
from assay.backends.embedders.cached import CachedEmbedder, shares, sum_known
from assay.backends.embedders.openai_compatible import Batching, OpenAICompatibleEmbedder, batches
from assay.backends.embedders.wordllama import MODEL, WordLlamaEmbedder
from assay.backends.models.cached import DiskCache
from assay.backends.models.openai_compatible import OpenAICompatibleModel
from assay.backends.models.provider_client import ProviderClient
from assay.backends.models.provider_faults import Backoff
from assay.errors import ForeignFault, TimeFault, UsageError, ValueFault
from assay.ports import CompletionRequest, Message, Prices, Provider, Secret
from support.models.provider_server import DIMENSIONS, ProviderServer, place

pytestmark = pytest.mark.anyio

CANARY = "sk-canary-7d1f9b3e5a"


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture
def server():
    with ProviderServer() as server:
        yield server


@asynccontextmanager
async def embedder(server, *, batching=Batching(), **more: Any):  # noqa: B008
    known: dict[str, Any] = {"name": "local", "base_url": server.base_url, "api_key": Secret(CANARY)}
    known |= {"timeout": 30.0, "deadline": 60.0, "prices": Prices(input=1_000_000)}
    line = ProviderClient(Provider(**{**known, **more}), backoff=Backoff(base=0.002), max_bytes=1_000_000)
    embedder = OpenAICompatibleEmbedder(line, batching=batching)
    yield embedder
    await embedder.close()


async def test_vectors_come_in_the_order_of_their_texts(server):
    async with embedder(server) as space:
        embedded = await space.embed(["one", "two words", "one"], model="reversed")
    assert embedded.vectors == tuple(tuple(place(text, DIMENSIONS)) for text in ("one", "two words", "one"))
    assert (embedded.model, embedded.provider, embedded.tokens, embedded.cost_usd) == (
        "reversed",
        "local",
        3,
        3.0,
    )
    assert server.seen[0].body["input"] == ["one", "two words"]  # the same text once


async def test_dimensions_are_sent(server):
    async with embedder(server) as space:
        embedded = await space.embed(["one"], model="ok", dimensions=8)
    assert len(embedded.vectors[0]) == server.seen[0].body["dimensions"] == 8


async def test_no_texts_send_no_request(server):
    async with embedder(server) as space:
        assert (await space.embed([], model="ok")).vectors == ()
    assert server.seen == []


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("script", "options", "fault", "recoverable", "says"),
    [
        ("429", {}, ForeignFault, True, "answered 429"),
        ("500", {}, ForeignFault, True, "answered 500"),
        ("drop", {}, ForeignFault, True, "could not be reached 2 times"),
        ("hang", {"timeout": 0.05}, TimeFault, True, "gave no answer"),
        ("drip", {"deadline": 0.1}, TimeFault, True, "gave no answer"),
        ("401", {}, ForeignFault, False, "check its api_key"),
        ("404", {}, ForeignFault, False, "check its base_url"),
        ("leak:400", {}, ForeignFault, False, "answered 400"),
        ("page", {}, ForeignFault, False, "answered 200 without embeddings"),
        ("short", {}, ForeignFault, False, "sent 1 vectors for 2 texts"),
        ("ragged", {}, ForeignFault, False, "sent vectors of different lengths"),
        ("flood", {}, ForeignFault, False, "sent more than"),
    ],
)
async def test_a_failure_is_a_fault_that_is_transient_or_not(
    server, script, options, fault, recoverable, says
):
    async with embedder(server, max_retries=1, **options) as space:
        with pytest.raises(fault) as raised:
            await space.embed(["one", "two"], model=script)
    assert says in str(raised.value)
    assert raised.value.recoverable is recoverable
    assert CANARY[:12] not in repr(raised.value)


async def test_a_transient_failure_is_retried(server):
    async with embedder(server) as space:
        assert (await space.embed(["one"], model="500,429:0.01,ok")).attempts == 3


# batching


async def test_calls_at_the_same_time_are_one_request_and_share_what_it_cost(server):
    async with embedder(server) as space:
        calls = [space.embed([f"text number {n}", "the reference"], model="ok") for n in range(50)]
        embedded = await asyncio.gather(*calls)
    assert len(server.seen) == 1
    assert len(server.seen[0].body["input"]) == 51
    assert sum(one.tokens or 0 for one in embedded) == 50 * 3 + 2  # as the provider counts, no token twice
    assert sum(one.cost_usd or 0 for one in embedded) == 152.0
    assert all(one.vectors[1] == embedded[0].vectors[1] for one in embedded)


async def test_only_calls_that_fit_together_are_merged(server):
    async with embedder(server) as space:
        await asyncio.gather(
            space.embed(["one"], model="ok"),
            space.embed(["two"], model="also"),
            space.embed(["three"], model="ok", dimensions=4),
            space.embed(["four"], model="ok"),
        )
    assert sorted(sorted(seen.body["input"]) for seen in server.seen) == [["four", "one"], ["three"], ["two"]]


async def test_a_cancelled_caller_does_not_cancel_the_shared_request(server):
    async with embedder(server) as space:
        gone = asyncio.create_task(space.embed(["shared", "gone"], model="slow:0.05"))
        stays = asyncio.create_task(space.embed(["shared"], model="slow:0.05"))
        await asyncio.sleep(0.02)
        gone.cancel()
        assert len((await stays).vectors) == 1


async def test_a_failure_without_a_waiter_is_not_logged(server):
    async with embedder(server) as space:
        gone = asyncio.create_task(space.embed(["one"], model="400"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0.1)


async def test_close_ends_requests_in_flight(server):
    async with embedder(server) as space:
        waiting = asyncio.create_task(space.embed(["one"], model="hang"))
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize(
    ("texts", "limit", "expected"),
    [
        ([], {}, []),
        (["a", "b", "c"], {"texts": 2}, [["a", "b"], ["c"]]),
        (["aaa", "bb", "c"], {"characters": 4}, [["aaa"], ["bb", "c"]]),
        (["aaaaaaaaa", "b"], {"characters": 4}, [["aaaaaaaaa"], ["b"]]),  # too long by itself: alone
    ],
)
def test_texts_are_divided_by_number_and_size(texts, limit, expected):
    assert list(batches(texts, Batching(**limit))) == expected


@pytest.mark.parametrize(
    ("total", "texts", "parts"),
    [
        (10, ["abc", "a"], [6, 4]),
        (1, ["a", "b", "c"], [0, 0, 1]),
        (7, [""], [7]),
        (0, ["a", "b"], [0, 0]),
        (None, ["a", "b"], [None, None]),
        (5, [], []),
    ],
)
def test_shares_of_a_cost_sum_to_it(total, texts, parts):
    assert shares(total, texts) == parts


@pytest.mark.parametrize(("parts", "sum_"), [([1, 2], 3), ([], 0), ([1, None], None)])
def test_sum_known_is_unknown_if_a_part_is(parts, sum_):
    assert sum_known(parts) == sum_


async def test_model_and_embedder_of_a_provider_share_one_queue(server):
    line = ProviderClient(
        Provider(name="local", base_url=server.base_url, max_concurrency=1),
        backoff=Backoff(base=0.01),
    )
    judge, space = OpenAICompatibleModel(line), OpenAICompatibleEmbedder(line)
    question = CompletionRequest(messages=(Message("user", "?"),), model="slow:0.02")
    await asyncio.gather(judge.complete(question), space.embed(["one"], model="slow:0.02"))
    await line.close()
    assert server.most_at_once == 1
    assert server.connections == 1


# the cache


async def test_only_new_texts_are_sent(server, tmp_path):
    async with embedder(server) as space:
        where = space._line.provider
        cached = CachedEmbedder(space, DiskCache(tmp_path), where)
        first = await cached.embed(["one two", "three"], model="ok")
        mixed = await cached.embed(["three", "four", "three"], model="ok")
        again = await cached.embed(["four", "one two"], model="ok")
    assert [seen.body["input"] for seen in server.seen] == [["one two", "three"], ["four"]]
    assert (first.cached, first.cost_usd, first.saved_usd) == (False, 3.0, None)
    assert (mixed.cached, mixed.cost_usd, mixed.saved_usd) == (False, 1.0, 2.0)  # of 3.0, by length
    assert (again.cached, again.cost_usd, again.saved_usd) == (True, 0.0, 2.0)
    assert (again.model, again.provider, again.tokens) == ("ok", "local", 2)
    assert again.vectors == tuple(tuple(place(text, DIMENSIONS)) for text in ("four", "one two"))


@pytest.mark.parametrize("change", [{"model": "also"}, {"dimensions": 8}])
async def test_whatever_changes_the_vector_changes_the_key(server, tmp_path, change):
    ask: dict[str, Any] = {"model": "ok", **change}
    async with embedder(server) as space:
        cached = CachedEmbedder(space, DiskCache(tmp_path), space._line.provider)
        await cached.embed(["one"], model="ok")
        assert not (await cached.embed(["one"], **ask)).cached


async def test_a_corrupt_vector_is_a_miss(server, tmp_path):
    async with embedder(server) as space:
        cached = CachedEmbedder(space, DiskCache(tmp_path), space._line.provider)
        await cached.embed(["one"], model="ok")
        for entry in tmp_path.rglob("*.json"):
            entry.write_text('{"vector": ["x"]}')
        assert not (await cached.embed(["one"], model="ok")).cached


# wordllama


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


async def test_wordllama_tells_near_from_far():
    space = WordLlamaEmbedder()
    embedded = await space.embed(
        ["The cat sat on the mat.", "A kitten rests on a rug.", "Interest rates rose in March."],
        model="wordllama",
    )
    cat, kitten, rates = embedded.vectors
    assert cosine(cat, kitten) > cosine(cat, rates) + 0.1
    assert (embedded.model, embedded.provider, embedded.cost_usd, len(cat)) == (MODEL, "wordllama", 0.0, 256)
    assert embedded.tokens


async def test_wordllama_cannot_tell_a_claim_from_its_denial():
    """Said in the documents; when this fails, they have become better than their name."""
    embedded = await WordLlamaEmbedder().embed(["The drug is safe.", "The drug is not safe."], model=MODEL)
    assert cosine(*embedded.vectors) > 0.8


async def test_the_vector_of_a_long_text_is_that_of_wordllama():
    texts = ["", "one", "日本", "a longer text, with more words. " * 400]
    embedded = await WordLlamaEmbedder().embed(texts, model=MODEL)
    own = wordllama._load().embed(texts, batch_size=1)
    assert np.allclose(np.array(embedded.vectors), own, atol=1e-4)
    assert not any(embedded.vectors[0])  # no token, no direction


@pytest.mark.parametrize("dimensions", [64, 128, 256])
async def test_a_shorter_vector_is_the_start_of_the_long_one(dimensions):
    space = WordLlamaEmbedder()
    whole, short = [
        await space.embed(["some text"], model=MODEL, dimensions=size) for size in (None, dimensions)
    ]
    assert short.vectors[0] == pytest.approx(whole.vectors[0][:dimensions])


@pytest.mark.parametrize(
    "options", [{"model": "text-embedding-3-small"}, {"model": MODEL, "dimensions": 100}]
)
async def test_unknown_models_and_dimensions_are_refused(options):
    with pytest.raises(ValueFault, match="wordllama has no"):
        await WordLlamaEmbedder().embed(["one"], **options)


async def test_wordllama_loads_once_offline_and_keeps_the_log_unchanged(monkeypatch):
    def no_network(*_):
        raise AssertionError("somebody went out")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    wordllama._read.cache_clear()
    before = (logging.getLogger().handlers[:], logging.getLogger().level)
    embedded = await asyncio.gather(
        *(WordLlamaEmbedder().embed([str(n) * 9000], model=MODEL) for n in range(8))
    )
    assert len(embedded) == 8
    assert wordllama._read.cache_info().misses == 1
    assert (logging.getLogger().handlers, logging.getLogger().level) == before


def test_a_fresh_process_stays_offline_and_quiet():
    code = """
import asyncio, logging, socket
def no(*_): raise SystemExit("somebody went out")
socket.socket.connect = no; socket.getaddrinfo = no
from assay.backends.embedders.wordllama import WordLlamaEmbedder, MODEL
asyncio.run(WordLlamaEmbedder().embed(["one"], model=MODEL))
logging.getLogger("anybody").info("not configured")
print(logging.getLogger().handlers)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)


@pytest.mark.parametrize(
    ("missing", "build", "words", "extra"),
    [
        ("wordllama", WordLlamaEmbedder, "semantic similarity needs wordllama", "similarity"),
        (
            "genai_prices",
            lambda: OpenAICompatibleEmbedder(ProviderClient(Provider(name="x"))),
            "the price of a model needs genai-prices",
            "judges",
        ),
        (
            "genai_prices",
            lambda: OpenAICompatibleModel(ProviderClient(Provider(name="x"))),
            "the price of a model needs genai-prices",
            "judges",
        ),
    ],
)
def test_a_missing_extra_names_the_command_that_installs_it(monkeypatch, missing, build, words, extra):
    monkeypatch.setattr("assay.extras.find_spec", lambda name: None if name == missing else True)
    with pytest.raises(UsageError) as refused:
        build()
    lines = f"pip install 'openassay[{extra}]' (in a clone: pip install -e '.[{extra}]')"
    assert str(refused.value) == f"{words}: {lines}"


async def test_a_long_text_is_embedded_by_a_process_that_can_be_killed(monkeypatch):
    space = WordLlamaEmbedder()
    text = "The quick brown fox jumps over the lazy dog. " * 2_000
    assert len(text) > wordllama.LONG
    here = wordllama._embed([text], 64)
    embedded = await space.embed([text], dimensions=64)
    assert (embedded.vectors, embedded.tokens) == here
    monkeypatch.setattr(wordllama, "SECONDS", 0.05)
    with pytest.raises(TimeFault, match=r"no answer within 0\.05 s"):
        await space.embed([text * 20])
