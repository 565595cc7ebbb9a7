"""Judges in batches of a provider, by both protocols: answers, failures, restarts, money."""

import asyncio
import hashlib
import json
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.backends.models.batches import answer_file
from assay.backends.models.batches.answer_file import AnswerFile
from assay.backends.models.batches.journal import FileJournal, Journals, OrphanAnswers, StoreJournal
from assay.backends.models.prices import BATCH_SHARE
from assay.backends.providers import ConfiguredProviders
from assay.backends.stores.open import open_store
from assay.errors import CostReached, Fault
from assay.ports import (
    CompletionRequest,
    CreateRun,
    Message,
    Prices,
    Provider,
    RunUpdate,
    Secret,
    Transaction,
)
from assay.ports.batches import BATCHES, BatchBudget, BatchOptions, BatchResponse, OpenBatch
from assay.runs.erasure import erase_run
from support.models.batch_server import Batch, BatchServer

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "required": ["passed"],
    "properties": {"passed": {"type": "boolean"}},
    "additionalProperties": False,
}
KINDS = ["openai_compatible", "anthropic"]


@pytest.fixture
def server():
    with BatchServer() as server:
        yield server


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def provider(server, kind: str, **more: Any) -> Provider:
    known: dict[str, Any] = {"name": "judges", "kind": kind, "base_url": server.base_url, "max_retries": 2}
    known |= {
        "api_key": Secret("sk-canary-7d1f9b3e5a"),
        "batch_poll": 0.01,
        "prices": Prices(input=1e6, output=0),
    }
    return Provider(**{**known, **more})


@asynccontextmanager
async def batched(server, kind, folder: Path, *, budget=None, single_after=None, journals=None, **more: Any):
    options = BatchOptions(
        journals=journals or Journals(folder), budget=budget or BatchBudget(), single_after=single_after
    )
    providers = ConfiguredProviders({"judges": provider(server, kind, **more)}, batch=options)
    try:
        yield providers.model(None, {"model": "m"})
    finally:
        await providers.close()


def ask(chosen: CompletionRequest, prompt: str, **more: Any) -> CompletionRequest:
    how: dict[str, Any] = {"messages": (Message("user", prompt),), "schema": SCHEMA, "may_wait": True}
    return msgspec.structs.replace(chosen, **{**how, **more})


async def answers(server, kind, folder, prompts, **more: Any) -> list[Any]:
    """The reply to each prompt, or the fault."""
    async with batched(server, kind, folder, **more) as (model, chosen):
        calls = [model.complete(ask(chosen, prompt)) for prompt in prompts]
        return await asyncio.gather(*calls, return_exceptions=True)


PROMPTS = [f"prompt {at}" for at in range(6)]
ALL = [{"passed": True}] * 6


@pytest.mark.parametrize(
    ("script", "batches", "attempts"),
    [
        (["ok"], 1, {1}),
        (["shuffled"], 1, {1}),
        (["doubled"], 1, {1}),  # the first answer of a line counts
        (["malformed"], 1, {1}),
        (["busy"], 1, {1}),
        (["expired", "ok"], 2, {1, 2}),  # what was not answered goes into another batch
        (["flaky", "ok"], 2, {1, 2}),
        (["flaky", "flaky", "ok"], 3, {1, 2, 3}),
        (["lost", "ok"], 1, {1}),  # the provider has it: it is not paid twice
        (["unavailable", "ok"], 1, {1}),
    ],
)
async def test_every_call_has_its_answer_and_is_paid_once(server, kind, tmp_path, script, batches, attempts):
    server.script = script
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert {reply.attempts for reply in replies} == attempts
    assert all(reply.batch for reply in replies)
    assert len(server.batches) == batches
    assert sorted(server.paid) == PROMPTS
    assert not server.singles
    assert list(tmp_path.iterdir()) == []  # nothing is open


FILES = {  # the end of a path, and how often it is away: a POST that makes a batch is not repeated by itself
    "openai_compatible": (("/files", 3), ("/content", 3)),
    "anthropic": (("/messages/batches", 1), ("/results", 3)),
}


@pytest.mark.parametrize("step", [0, 1], ids=["upload", "download"])
async def test_a_file_that_cannot_be_sent_or_fetched_for_a_while_is_paid_once(server, kind, tmp_path, step):
    """A request is repeated once, and then once more as a whole."""
    server.failing = dict([FILES[kind][step]])
    replies = await answers(server, kind, tmp_path, PROMPTS, max_retries=1)
    assert [reply.value for reply in replies] == ALL, replies
    assert set(server.failing.values()) == {0}
    assert sorted(server.paid) == PROMPTS
    assert len(server.batches) == 1
    assert list(tmp_path.iterdir()) == []


async def test_requests_that_can_never_be_sent_are_faults_and_nothing_is_open(server, kind, tmp_path):
    server.failing = {FILES[kind][0][0]: 10_000}
    replies = await answers(server, kind, tmp_path, PROMPTS, max_retries=1)
    assert all(isinstance(reply, Fault) and reply.recoverable for reply in replies)
    assert all("answered 503" in str(reply) for reply in replies)
    assert not server.batches
    server.failing = {}
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert sorted(server.paid) == PROMPTS


@pytest.mark.parametrize("script", ["expired ok", "busy shuffled"])
async def test_a_slow_provider_is_asked_until_it_ends(server, kind, tmp_path, script):
    """Each batch ends at its eighth look; of some it answers a part."""
    server.script, server.looks = [script] if "busy" in script else script.split(), 8
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert sorted(server.paid) == PROMPTS
    assert all(one.looks >= 8 for one in server.batches)


@pytest.mark.parametrize(
    ("script", "faults", "message", "recoverable"),
    [
        (["refused"], 3, "answered 400 (Bad Request)", False),
        (["expired"], 1, "ended 3 batches without an answer to this call", True),
        (["flaky"], 1, "answered 500 (Internal Server Error) 3 times", True),
    ],
)
async def test_a_line_that_fails_is_a_fault_of_its_call(
    server, kind, tmp_path, script, faults, message, recoverable
):
    server.script = script
    replies = await answers(server, kind, tmp_path, PROMPTS)
    failed = [reply for reply in replies if isinstance(reply, Fault)]
    assert len(failed) == faults
    assert message in str(failed[0])
    assert failed[0].recoverable is recoverable
    assert all(reply.value == {"passed": True} for reply in replies if not isinstance(reply, Fault))


async def test_a_batch_that_is_refused_says_why(server, tmp_path):
    server.script = ["failed"]
    replies = await answers(server, "openai_compatible", tmp_path, PROMPTS)
    assert {str(reply) for reply in replies} == {"provider 'judges' refused a batch: the file is not valid"}
    server.script = ["ok"]
    replies = await answers(server, "openai_compatible", tmp_path, PROMPTS)  # it is not followed again
    assert [reply.value for reply in replies] == ALL


async def test_answers_beyond_the_limit_are_refused_and_not_asked_again(server, kind, tmp_path, monkeypatch):
    monkeypatch.setattr("assay.backends.models.batches.open.LARGEST", 1_000)
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert {str(reply) for reply in replies} == {"provider 'judges' sent more than 1000 bytes in one answer"}
    assert len(server.batches) == 1


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_a_file_of_answers_that_is_cut_off_is_read_again(server, kind, tmp_path, packed):
    server.cut, server.packed = 1, packed
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert len(server.batches) == 1


def test_of_a_file_of_answers_one_line_is_in_memory(monkeypatch):
    """Lines that are no answer, or longer than the answer to a single call may be, count as not answered."""
    monkeypatch.setattr(answer_file, "LONGEST_LINE", 20)
    file = AnswerFile(lambda line: (line[:1].decode(), BatchResponse(200, line)) if line.strip() else None)
    file._file.write(b"a: first\n\nb: " + b"x" * 50 + b"\na: second\nc: the last")
    file._index()
    assert file.ids() == {"a", "c"}
    assert [file.get(id) for id in "abc"] == [
        BatchResponse(200, b"a: first\n"),
        None,
        BatchResponse(200, b"c: the last"),
    ]
    file.close()


async def test_an_endpoint_without_structured_output_gets_the_schema_in_the_prompt(server, tmp_path):
    server.script = ["plain"]
    replies = await answers(server, "openai_compatible", tmp_path, PROMPTS)
    assert [(reply.value, reply.structured) for reply in replies] == [({"passed": True}, False)] * 6


async def test_calls_that_may_not_wait_are_single_calls(server, kind, tmp_path):
    async with batched(server, kind, tmp_path) as (model, chosen):
        reply = await model.complete(ask(chosen, "now", may_wait=False))
    assert (reply.value, reply.batch) == ({"passed": True}, False)
    assert server.singles == ["now"]
    assert not server.batches


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
REPLIES = st.one_of(
    st.fixed_dictionaries({"passed": st.booleans()}),
    st.fixed_dictionaries({"passed": TEXTS}),
    st.sampled_from(['{"passed": true, "passed": false}', '{"passed": tr', "prose", '{"score": NaN}']),
)


@pytest.mark.parametrize("protocol", KINDS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    replies=st.dictionaries(TEXTS, REPLIES, min_size=1, max_size=6),
    script=st.sampled_from(["ok", "shuffled doubled"]),
)
def test_an_answer_is_that_of_a_single_call_at_the_tariff_of_batches(
    server, tmp_path, protocol, replies, script
):
    server.script, server.answer = [script], lambda asked: replies[asked["messages"][-1]["content"] if isinstance(asked["messages"][-1]["content"], str) else asked["messages"][-1]["content"][-1]["text"]]  # fmt: skip
    server.batches.clear()

    async def both() -> list[tuple[Any, Any]]:
        async with batched(server, protocol, tmp_path) as (model, chosen):
            batch = await asyncio.gather(*(model.complete(ask(chosen, text)) for text in replies))
            single = [await model.complete(ask(chosen, text, may_wait=False)) for text in replies]
        return list(zip(batch, single, strict=True))

    for batch, single in asyncio.run(both()):
        assert batch.cost_usd == pytest.approx(single.cost_usd * BATCH_SHARE)
        same = {"cost_usd": None, "seconds": 0.0, "batch": False}
        assert msgspec.structs.replace(batch, **same) == msgspec.structs.replace(single, **same)


async def test_batches_are_bounded_and_have_one_model(server, kind, tmp_path):
    async with batched(server, kind, tmp_path, batch_requests=4) as (model, chosen):
        asked = [ask(chosen, prompt, model=name) for prompt in PROMPTS for name in ("m", "n")]
        await asyncio.gather(*(model.complete(one) for one in asked))
    assert sorted(len(one.lines) for one in server.batches) == [2, 2, 4, 4]
    assert all(len({body["model"] for _, body in one.lines}) == 1 for one in server.batches)


async def test_equal_calls_have_an_answer_each(server, kind, tmp_path):
    replies = await answers(server, kind, tmp_path, ["the same"] * 5)
    assert [reply.value for reply in replies] == ALL[:5]
    assert server.paid == ["the same"] * 5


# money


async def test_an_estimate_bounds_what_is_submitted_and_the_truth_what_follows(server, kind, tmp_path):
    """A prompt costs 1 dollar, as its two words are two tokens at half price, and a body of 300 bytes is estimated dearer."""
    budget = BatchBudget(ceiling=3.0)
    replies = await answers(server, kind, tmp_path, PROMPTS, budget=budget)
    assert sum(isinstance(reply, CostReached) for reply in replies) == 3
    assert (budget.spent, budget.reserved) == (3.0, 0.0)
    assert len(server.paid) == 3


async def test_an_unknown_price_bounds_nothing(server, kind, tmp_path):
    replies = await answers(server, kind, tmp_path, PROMPTS, budget=BatchBudget(ceiling=0.1), prices=None)
    assert [(reply.value, reply.cost_usd) for reply in replies] == [({"passed": True}, None)] * 6


# instead of a batch


async def test_calls_that_waited_long_enough_become_single_calls(server, kind, tmp_path):
    """The batch is cancelled first, and what it answered is taken: nothing is paid twice."""
    server.script = ["hold"]
    replies = await answers(server, kind, tmp_path, PROMPTS, single_after=0.0)
    assert [reply.value for reply in replies] == ALL
    assert [reply.batch for reply in replies] == [True] * 3 + [False] * 3
    assert sorted(server.paid + server.singles) == PROMPTS
    assert server.batches[0].cancelled


async def test_without_batches_the_fallback_is_single_calls(server, kind, tmp_path):
    server.script = ["unavailable"] * 9
    replies = await answers(server, kind, tmp_path, PROMPTS, single_after=60.0)
    assert [(reply.value, reply.batch) for reply in replies] == [({"passed": True}, False)] * 6


# restarts


async def left(server, kind, folder, prompts) -> None:
    """A run that ends while its batch is under way."""
    async with batched(server, kind, folder) as (model, chosen):
        calls = [asyncio.ensure_future(model.complete(ask(chosen, prompt))) for prompt in prompts]
        await asyncio.to_thread(server.submitted.wait, 60)
        while not any(one.looks for one in server.batches):  # noqa: ASYNC110  # the server is another thread
            await asyncio.sleep(0.005)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_run_that_ends_early_cancels_its_batch_and_the_next_takes_what_was_answered(
    server, kind, tmp_path
):
    server.script = ["hold", "ok"]
    await left(server, kind, tmp_path, PROMPTS)
    assert server.batches[0].cancelled
    (journal,) = tmp_path.iterdir()
    assert journal.stat().st_mode & 0o777 == 0o600
    assert "prompt" not in journal.read_text()
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert sorted(server.paid) == PROMPTS
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "not recorded"])
async def test_a_batch_of_a_dead_process_is_taken_over(server, kind, tmp_path, monkeypatch, recorded):
    """Also one that was submitted and whose id was not recorded: the provider is asked for it."""
    server.script = ["hold", "ok"]
    with monkeypatch.context() as patch:
        patch.setattr(BatchServer, "_end", lambda self, batch: None)  # no cancelling: the process was killed
        await left(server, kind, tmp_path, PROMPTS)
    server.batches[0].cancelled = False
    server.release.set()
    if not recorded:
        (journal,) = tmp_path.iterdir()
        journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0] + b'{"name": "cut off')
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert len(server.batches) == 1
    assert sorted(server.paid) == PROMPTS
    assert list(tmp_path.iterdir()) == []


async def test_a_batch_that_a_restart_found_is_cancelled_with_its_run(server, kind, tmp_path, monkeypatch):
    """The process that submitted it died before it had its id."""
    server.script = ["hold", "ok"]
    with monkeypatch.context() as patch:
        patch.setattr(BatchServer, "_end", lambda self, batch: None)
        await left(server, kind, tmp_path, PROMPTS)
    server.batches[0].cancelled = False
    (journal,) = tmp_path.iterdir()
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    server.batches[0].looks = 0
    await left(server, kind, tmp_path, PROMPTS)
    assert server.batches[0].cancelled
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert sorted(server.paid) == PROMPTS


async def test_a_batch_that_may_be_of_another_process_is_not_cancelled(server, kind, tmp_path):
    """Anthropic lists batches without their names, and another process has just submitted as many calls."""
    server.script = ["lost hold", "ok"]
    asked = {"messages": [{"role": "user", "content": "x"}]}
    theirs = Batch("batch_theirs", "hold", [(f"theirs-{at}", asked) for at in range(6)])
    server.on_request = lambda when, method, path: (
        server.batches.append(theirs) if "limit=" in path and theirs not in server.batches else None
    )
    await left(server, kind, tmp_path, PROMPTS)
    assert not theirs.cancelled
    assert server.batches[0].cancelled == (kind == "openai_compatible"), "which has names"
    server.release.set()
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert sorted(one for one in server.paid if one != "x") == PROMPTS


async def test_a_batch_that_the_provider_never_got_is_submitted(server, kind, tmp_path):
    await write_intent(server, kind, tmp_path)
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert list(tmp_path.iterdir()) == []


async def write_intent(server, kind, folder) -> None:
    whose = f"judges\0{kind}\0{server.base_url}".encode()
    journal = FileJournal(folder, hashlib.sha256(whose).hexdigest()[:16])
    await journal.open()
    await journal.write(OpenBatch(name="gone", requests=["x-0"], at=time.time()))
    await journal.close()


# the journal


async def test_a_journal_of_a_living_process_is_not_taken_over(tmp_path):
    first, other, second, third = (FileJournal(tmp_path, name) for name in "pqpp")
    assert await first.open() == []
    assert await first.write(OpenBatch(name="one", requests=["a-0"], at=2e9))
    assert (await other.open(), await second.open()) == ([], [])
    await first.close()
    assert [one.name for one in await third.open()] == ["one"]
    for journal in (other, second, third):
        await journal.close()
    assert len(list(tmp_path.iterdir())) == 1


async def test_old_and_closed_batches_are_forgotten(tmp_path):
    first, second = FileJournal(tmp_path, "p"), FileJournal(tmp_path, "p")
    await first.open()
    await first.write(OpenBatch(name="old", requests=[], at=1.0))
    await first.write(OpenBatch(name="closed", requests=[], at=2e9))
    await first.write(OpenBatch(name="closed", requests=[], at=2e9, closed=True))
    await first.close()
    assert await second.open() == []
    await second.close()


async def opened(address, run, *sources):
    """A store, and the run there; each of `sources` is continued by the one before it."""
    store = await open_store(address)
    chain = [run, *sources, None]
    for one, source in pairwise(chain):
        if await store.run(one) is None:
            opens = CreateRun(tenant="t", kind="k")
            metadata = {} if source is None else {"sourceRunId": source}
            await store.commit(Transaction(entries=[RunUpdate(run=one, opens=opens, metadata=metadata)]))
    return store, await store.run(run)


async def test_the_batches_of_a_run_are_in_its_store(address):
    """Who continues the run has them. A process that had paused learns of it at its next write."""
    store, run = await opened(address, "run", "source")
    source = await store.run("source")
    first, second, third = (StoreJournal(store, one, "p") for one in (source, run, run))
    others = StoreJournal(store, source, "q"), StoreJournal(store, source, "p")
    assert await first.open() == []
    one, two = (OpenBatch(name=name, requests=["a-0"], at=time.time()) for name in ("one", "two"))
    assert await first.write(one)
    one.id = "batch_1"
    assert await first.write(one)
    assert await first.write(two)
    assert [(batch.name, batch.id) for batch in await second.open()] == [("one", "batch_1"), ("two", "")]
    assert not await first.write(one), "another process has it"
    assert [await journal.open() for journal in others] == [[], []]
    two.closed = True
    assert await second.write(two)
    assert [batch.name for batch in await third.open()] == ["one"]
    assert not await second.write(one)
    await store.close()


async def test_erasing_a_run_deletes_the_batches_of_its_judges(address):
    store, run = await opened(address, "run")
    journal = StoreJournal(store, run, "p")
    await journal.write(OpenBatch(name="one", requests=["a-0"], at=time.time()))
    await store.commit(Transaction(entries=[RunUpdate(run="run", status="completed")]))
    await erase_run(store, await store.run("run"))
    assert await store.documents("t", BATCHES) == []
    await store.close()


async def test_a_note_that_cannot_be_written_is_a_fault_and_nothing_is_submitted(server, kind, tmp_path):
    (tmp_path / "file").touch()
    replies = await answers(server, kind, tmp_path / "file", PROMPTS)
    assert {str(reply) for reply in replies} == {f"a batch cannot be noted in {tmp_path}/file: File exists"}
    assert not server.batches


async def test_a_batch_that_nobody_can_say_was_submitted_is_looked_for_by_the_next_run(
    server, kind, tmp_path
):
    """The answer to its submission got lost, and the provider does not list its batches."""
    server.script = ["lost", "ok"]
    server.on_request = lambda when, method, path: not (method == "GET" and "limit=" in path)
    replies = await answers(server, kind, tmp_path, PROMPTS, max_retries=1)
    assert all(isinstance(reply, Fault) and reply.recoverable for reply in replies)
    server.on_request = lambda when, method, path: True
    replies = await answers(server, kind, tmp_path, PROMPTS)
    assert [reply.value for reply in replies] == ALL
    assert len(server.batches) == 1
    assert sorted(server.paid) == PROMPTS


def test_the_last_of_equal_requests_is_taken_first():
    """Results are written in order: those before it may have one."""
    batch = OpenBatch(name="one", requests=["a-0", "b-0", "a-1"], at=2e9)
    orphans = OrphanAnswers([batch])
    assert [orphans.take("a") for _ in range(3)] == [(batch, "a-1"), (batch, "a-0"), None]
    assert json.loads(msgspec.json.encode(batch))["requests"] == ["a-0", "b-0", "a-1"]
