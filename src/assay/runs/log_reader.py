"""A run's log as its owner reads it: RunEventDocs with their content (openwop-contract §4.1)."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from assay.ports import CLOSED, Document, Event, EvidenceChunk, Store
from assay.protocol.event_record import CONTENT, content_key, decode_event, envelope

PAGE = 500
Doc = dict[str, Any]


async def read_page(store: Store, run: str, *, after: int = -1, limit: int = PAGE) -> list[Doc]:
    """The next events as documents. Continue after the sequence of the last one until the page is empty."""
    return await with_content(store, run, await store.events(run, after=after, limit=limit))


async def with_content(store: Store, run: str, events: Sequence[Event]) -> list[Doc]:
    """These events with their content. Erased content is absent."""
    keys = [content_key(event.type, decode_event(event.data)) for event in events]
    beside = await store.contents(run, CONTENT, [key for key in keys if key]) if any(keys) else {}
    return [
        envelope(
            run,
            event.type,
            event.at,
            event.sequence,
            event.data,
            msgspec.json.decode(beside[key]) if key and key in beside else None,
        )
        for event, key in zip(events, keys, strict=True)
    ]


async def all_events(store: Store, run: str) -> AsyncIterator[Doc]:
    """Every event, in order."""
    after = -1
    while page := await read_page(store, run, after=after):
        for document in page:
            yield document
        after = page[-1]["sequence"]


# Follows a run's events from a sequence number on, live until the last.

PATIENCE = 15.0


async def follow(
    store: Store, run: str, *, after: int = -1, tenant: str | None = None
) -> AsyncIterator[Event | None]:
    """Each event once, in order. While nothing happens, None every 15 seconds, for the caller's keep-alive."""
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


# Iterators over what a store gives page by page. None of them holds more than one page.

EVENTS = DOCUMENTS = 1_000  # in a page
CHUNKS = 50


async def read_events(store: Store, run: str, *, after: int = -1) -> AsyncIterator[Event]:
    """The recorded events of a run that follow sequence number `after`, in order."""
    while page := await store.events(run, after=after, limit=EVENTS):
        for event in page:
            yield event
        after = page[-1].sequence


async def read_chunks(
    store: Store, run: str, kind: str, *, start: int = 0, stop: int | None = None, limit: int = CHUNKS
) -> AsyncIterator[EvidenceChunk]:
    """The evidence of one kind, from item `start` up to `stop`. `limit`: chunks of a page, 1 if they are large."""
    while page := await store.chunks(run, kind, start=start, stop=stop, limit=limit):
        for chunk in page:
            yield chunk
        start = page[-1].last + 1
        if stop is not None and start >= stop:
            return


async def read_documents(
    store: Store, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = DOCUMENTS
) -> AsyncIterator[Document]:
    """The tenant's documents of one kind with the prefix and after `after`, by key. `limit`: the size of a page."""
    while page := await store.documents(tenant, kind, prefix=prefix, after=after, limit=limit):
        for document in page:
            yield document
        after = page[-1].key
