"""Follows a run's events from a sequence number on, live until the last."""

from collections.abc import AsyncIterator

from assay.ports import CLOSED, Event, Store
from assay.runs.paging import read_events

PATIENCE = 15.0


async def follow(
    store: Store, run: str, *, after: int = -1, tenant: str | None = None
) -> AsyncIterator[Event | None]:
    """
    Each event once, in order. While nothing happens, None every 15 seconds, so that the caller can send a keep-alive.
    """
    while True:
        current = await store.run(run, tenant=tenant)
        if current is None:
            return
        async for event in read_events(store, run, after=after):
            yield event
            after = event.sequence
        if current.status in CLOSED and current.events <= after + 1:
            return
        if not await store.wait_for_events(run, after=after, timeout=PATIENCE):
            yield None
