"""
Which tenants send traces to which projects, and the window that is open for each: documents of the host.

The document of a project changes in the transaction that creates a window, so two processes cannot open two windows.
"""

from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from assay.errors import Conflict
from assay.ports import Document, PutDocument, Store, Transaction
from assay.runs.log_reader import read_documents

HOST, KIND = "", "trace-project"


class ProjectEntry(Struct, frozen=True, kw_only=True):
    """`run` is the newest window; `digest` that of the settings with which the newest server started."""

    tenant: str
    project: str
    digest: str
    run: str = ""


_decode = msgspec.json.Decoder(ProjectEntry).decode


def entry_key(tenant: str, project: str) -> str:
    return f"{tenant}/{project}"


async def read_entry(store: Store, tenant: str, project: str) -> ProjectEntry | None:
    found = await store.document(HOST, KIND, entry_key(tenant, project))
    return None if found is None else _decode(found.data)


async def read_entries(store: Store) -> AsyncIterator[tuple[Document, ProjectEntry]]:
    async for document in read_documents(store, HOST, KIND):
        yield document, _decode(document.data)


def put_entry(entry: ProjectEntry, version: int | None) -> PutDocument:
    key = entry_key(entry.tenant, entry.project)
    return PutDocument(tenant=HOST, kind=KIND, key=key, data=msgspec.json.encode(entry), version=version)


async def write_entry(store: Store, entry: ProjectEntry, version: int) -> bool:
    """Write it over this version; False: another process has changed it."""
    try:
        await store.commit(Transaction(documents=[put_entry(entry, version)]))
    except Conflict:
        return False
    return True
