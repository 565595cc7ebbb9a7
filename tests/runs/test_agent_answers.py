"""What agents answered while their judges wait: who has it, who may write it, and when it is gone, in every store."""

import pytest

from assay.backends.stores.open import open_store
from assay.errors import Conflict
from assay.ports import CreateRun, EvidenceChunk, RunUpdate, Transaction
from assay.ports.continued_runs import SOURCE
from assay.ports.kinds import unit_holder
from assay.runs.agent_answers import ANSWERS, REQUEST, AgentAnswers, answers_of
from assay.runs.erasure import erase_run

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(address):
    store = await open_store(address)
    yield store
    await store.close()


async def started(store, run, source=None, request=b"the request", **update):
    """A run that one process has."""
    opens = CreateRun(tenant="t", kind="k", holder="one", seconds=30)
    metadata = {} if source is None else {SOURCE: source}
    asked = [EvidenceChunk(kind=REQUEST, data=request)]
    entry = RunUpdate(run=run, opens=opens, status="running", metadata=metadata, evidence=asked)
    await store.commit(Transaction(entries=[entry]))
    unit_holder.set("one")
    return await store.run(run)


async def kept(store, run, *units):
    answers = await answers_of(store, run, keeps=True)
    for unit in units:
        await answers.keep(unit, f"{unit} of {run.id}".encode())
    return answers


async def left(store):
    return [one.key for one in await store.document_infos("t", ANSWERS)]


async def test_an_answer_is_there_after_a_restart_until_its_unit_is_recorded(store):
    run = await started(store, "run-1")
    await started(store, "run-10")  # is no part of it
    await kept(store, await store.run("run-10"), 3)
    await kept(store, run, 0, 11)
    answers = await answers_of(store, run, keeps=False)  # it goes on, without batches
    assert [await answers.read(answers.key(unit)) for unit in (0, 11, 3)] == [
        b"0 of run-1",
        b"11 of run-1",
        None,
    ]
    assert not answers.is_inherited(answers.key(0))
    await store.commit(Transaction(documents=[*answers.forget(0), *answers.forget(3)]))
    assert await left(store) == ["run-1/11", "run-10/3"]


async def test_an_answer_that_is_recorded_again_replaces_the_first(store):
    run = await started(store, "run")
    answers = await kept(store, run, 5, 5)
    assert await left(store) == ["run/5"]
    await store.commit(Transaction(documents=answers.forget(5)))
    assert await left(store) == []


@pytest.mark.parametrize(("request_", "units"), [(b"the request", {1, 2, 3}), (b"another", {3})])
async def test_a_run_has_the_answers_of_those_that_it_continues_and_that_asked_the_same(
    store, request_, units
):
    first = await started(store, "first", request=request_)
    second = await started(store, "second", "first", request=request_)
    third = await started(store, "third", "second")
    await kept(store, first, 1, 2)
    await kept(store, second, 2)
    await kept(store, third, 3)
    answers = await answers_of(store, third, keeps=True)
    assert {unit for unit in range(5) if answers.key(unit)} == units
    assert answers.key(3) == "third/3"
    if 2 in units:
        assert await answers.read(answers.key(2)) == b"2 of second", "of the newest"
        assert answers.is_inherited(answers.key(2))
        await store.commit(Transaction(documents=answers.forget(1)))
        assert await left(store) == ["first/2", "second/2", "third/3"]


async def test_only_who_has_the_lease_records_an_answer(store):
    """A process that had paused adds none to a run that another one has, or that has ended."""
    run = await started(store, "run")
    answers = AgentAnswers(store, "run", "t", keeps=True)
    unit_holder.set("another")
    with pytest.raises(Conflict) as lost:
        await answers.keep(1, b"late")
    assert lost.value.reason == "lease"
    unit_holder.set("one")
    await store.commit(Transaction(entries=[RunUpdate(run=run.id, status="completed")]))
    with pytest.raises(Conflict) as ended:
        await answers.keep(1, b"late")
    assert ended.value.reason == "closed"
    assert await left(store) == []


async def test_erasing_a_run_deletes_its_answers(store):
    run = await started(store, "run")
    await kept(store, run, *range(120))
    await store.commit(Transaction(entries=[RunUpdate(run="run", status="cancelled")]))
    await erase_run(store, await store.run("run"))
    assert await left(store) == []
