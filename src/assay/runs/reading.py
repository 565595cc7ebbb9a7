"""A run's log as its owner reads it: RunEventDocs, with what lies beside an event filled in (contract §4.1)."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from assay.ports import Event, Store
from assay.protocol.facts import CONTENT, beside_key, envelope, read_stored

PAGE = 500
Doc = dict[str, Any]


async def documents(store: Store, run: str, *, after: int = -1, limit: int = PAGE) -> list[Doc]:
    """The next events as documents; go on from the last one's sequence, until none comes."""
    return [await document(store, run, event) for event in await store.events(run, after=after, limit=limit)]


async def document(store: Store, run: str, event: Event) -> Doc:
    """One event. What was erased from beside it is simply absent."""
    content: Doc | None = None
    known = read_stored(event.data)
    if (key := beside_key(event.type, known)) is not None:
        pieces = await store.pieces(run, CONTENT, key=key, limit=1)
        content = msgspec.json.decode(pieces[0].data) if pieces else None
    return envelope(run, event.type, event.at, event.sequence, event.data, content)


async def whole(store: Store, run: str) -> AsyncIterator[Doc]:
    """Every event, in order."""
    after = -1
    while page := await documents(store, run, after=after):
        for one in page:
            yield one
        after = page[-1]["sequence"]
