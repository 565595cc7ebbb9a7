"""Waits for people have deadlines. Runs that wait longer are ended, page by page."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

import msgspec

from assay.concurrency.event_loop import run_guarded
from assay.errors import Conflict, EnvironmentFailure, Unavailable
from assay.ports import Run, RunQuery, Store

PAGE = 200
SECONDS = 5.0  # between two looks


async def expire_runs(
    store: Store,
    query: RunQuery,
    now: datetime,
    deadline: Callable[[Run], datetime | None],
    expire: Callable[[Run], Awaitable[None]],
) -> int:
    """
    End the runs whose deadline has passed; return how many.

    An answer at the last moment is a conflict. An error of one run does not stop the others.
    """
    count, before = 0, None
    while True:
        runs = await store.runs(msgspec.structs.replace(query, before=before, limit=PAGE))
        for run in runs:
            due = deadline(run)
            if due is not None and due <= now:
                trouble = await run_guarded("expiry", expire(run), Conflict, EnvironmentFailure)
                count += trouble is None
        if len(runs) < PAGE:
            return count
        before = (runs[-1].created, runs[-1].id)


async def expire_loop(expire_waits: Callable[[], Awaitable[int]]) -> None:
    """Call `expire_waits` as long as this host runs; a database that is away may come back."""
    while True:
        await asyncio.sleep(SECONDS)
        await run_guarded("expiry", expire_waits(), EnvironmentFailure, Unavailable)
