"""Iterators over what a store gives page by page. None of them holds more than one page."""

from collections.abc import AsyncIterator

from assay.ports import Document, Event, EvidenceChunk, Store

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
    """
    The evidence of one kind, from item `start` up to `stop`. `limit` is the size of a page: 1 where chunks are large.
    """
    while page := await store.chunks(run, kind, start=start, stop=stop, limit=limit):
        for chunk in page:
            yield chunk
        start = page[-1].last + 1
        if stop is not None and start >= stop:
            return


async def read_documents(
    store: Store, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = DOCUMENTS
) -> AsyncIterator[Document]:
    """
    The tenant's documents of one kind whose key has the prefix and follows `after`, by key. `limit` is the size of a
    page.
    """
    while page := await store.documents(tenant, kind, prefix=prefix, after=after, limit=limit):
        for document in page:
            yield document
        after = page[-1].key
