"""A run's log as its owner reads it: RunEventDocs with their content (openwop-contract §4.1)."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from assay.ports import Event, Store
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
