"""Many followers of one run: an event is sent to each, and never to all in one iteration of the event loop."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import msgspec
import pytest

from assay.backends.stores.open import open_store
from assay.cases.outcomes import RESULTS
from assay.fep.records.run_header import ShardCompleted, lines_chunk
from assay.ports import CreateRun, Event, RunUpdate, Transaction
from assay.protocol.results import EvaluationSummary
from assay.serve.fep.events_feed import BATCH, Cursor, EvaluationFeeds, cursor_of
from assay.serve.openwop.events_feed import RunFeeds

FOLLOWERS = 50
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def update(type, **more):
    return Transaction(
        entries=[RunUpdate(run="r", events=[Event(type, b'{"eventId":"e","payload":{}}', NOW)], **more)]
    )


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["evaluation", "workflow"])
async def test_followers_are_served_one_by_one(kind):
    store = await open_store("memory:")
    await store.commit(update("run.started", opens=CreateRun(tenant="t", kind=kind), status="running"))
    run = await store.run("r")
    assert run is not None
    feeds = EvaluationFeeds(store) if kind == "evaluation" else RunFeeds(store, annotations=False)
    turn, sent, ready = 0, Counter(), asyncio.Semaphore(0)

    async def follow():
        frames = feeds.follow(run, Cursor()) if isinstance(feeds, EvaluationFeeds) else feeds.follow(run, -1)
        await anext(frames)
        ready.release()
        await anext(frames)
        sent[turn] += 1
        await frames.aclose()

    async def turns():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(turns())
    following = [asyncio.create_task(follow()) for _ in range(FOLLOWERS)]
    async with asyncio.timeout(60):
        for _ in following:
            await ready.acquire()
        await store.commit(update("evaluation.progress"))
        await asyncio.gather(*following)
    ticking.cancel()
    assert sent.total() == FOLLOWERS
    assert max(sent.values()) <= 2
    feeds.close()
    await store.close()


CASES, LINE = 30, b'"%b"' % (b"x" * 20_000)


@pytest.fixture
async def finished():
    """A run of two units with 600 kB of results each, and its feeds."""
    store = await open_store("memory:")
    await store.commit(
        update("run.started", opens=CreateRun(tenant="t", kind="evaluation"), status="running")
    )
    for unit in range(2):
        summary = EvaluationSummary(
            total_test_cases=CASES, completed_test_cases=CASES, error_test_cases=0, skipped_test_cases=0
        )
        shard = ShardCompleted(unit=unit, first=unit * CASES, last=(unit + 1) * CASES - 1, summary=summary)
        results = lines_chunk(RESULTS, shard.first, [LINE] * CASES)
        event = Event("evaluation.shard", msgspec.json.encode(shard), NOW)
        await store.commit(Transaction(entries=[RunUpdate(run="r", events=[event], evidence=[results])]))
    await store.commit(update("run.completed", status="completed"))
    run, feeds = await store.run("r"), EvaluationFeeds(store)
    assert run is not None
    yield store, run, feeds
    feeds.close()
    await store.close()


def ids_of(pieces):
    return [line for line in b"".join(pieces).split(b"\n") if line.startswith(b"id: ")]


@pytest.mark.anyio
async def test_a_follower_of_a_long_run_holds_one_piece_of_it(finished):
    """And followers at one position hold the same one."""
    _, run, feeds = finished
    first, second = feeds.follow(run, Cursor()), feeds.follow(run, Cursor())
    async with asyncio.timeout(60):
        for _ in range(3):
            one, other = await anext(first), await anext(second)
            assert one is other
            assert len(one) < BATCH + 2 * len(LINE)
    await first.aclose()
    await second.aclose()
    assert not feeds._feeds
    assert feeds._batches.bytes == 0


@pytest.mark.anyio
@pytest.mark.parametrize("erased", [False, True])
async def test_a_follower_goes_on_after_every_event_that_it_has(finished, erased):
    store, run, feeds = finished
    if erased:
        await store.erase(run.id, kind=RESULTS)
    pieces = [piece async for piece in feeds.follow(run, Cursor())]
    ids = ids_of(pieces)
    assert len(ids) == len(set(ids)) == (4 if erased else 4 + 2 * CASES)
    for at, id in enumerate(ids):
        rest = [piece async for piece in feeds.follow(run, cursor_of(id.removeprefix(b"id: ").decode()))]
        assert ids_of(rest) == ids[at + 1 :]
