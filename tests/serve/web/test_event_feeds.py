"""Many followers of one run: an event is sent to each, and never to all in one iteration of the event loop."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest

from assay.backends.stores.open import open_store
from assay.ports import CreateRun, Event, RunUpdate, Transaction
from assay.serve.fep.events_feed import Cursor, EvaluationFeeds
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
