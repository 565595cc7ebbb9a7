"""
What the agents of a scope remember across runs (openwop-contract §13.7): an append-only journal, read as of a moment.

The rows are documents of the tenant, by scope, reference and moment. They are written in the transaction of the step
that made them.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct

from assay.ports import Clock, PutDocument, Store
from assay.protocol.agents import MemoryEntry
from assay.protocol.redaction import redact_text
from assay.runs.log_reader import read_documents
from assay.workflow.state.effects import stable_id

KIND = "memory"
LONGEST_REF = 200


class MemoryWrite(Struct, frozen=True, kw_only=True):
    """One write, with the run and the step that made it."""

    entry: MemoryEntry
    run: str
    step: int
    at: datetime


class AsOf(Struct, frozen=True, kw_only=True):
    """A reader: a run, before one of its steps, at a moment. Later writes of other runs are not visible."""

    run: str
    step: int
    at: datetime


def entries_as_of(rows: Iterable[MemoryWrite], as_of: AsOf) -> list[MemoryEntry]:
    """The entries that are visible from there. Expiry is decided by that moment, not by the present."""
    seen = [
        row.entry
        for row in rows
        if (row.step < as_of.step if row.run == as_of.run else row.at <= as_of.at)
        and not expired(row.entry, as_of.at)
    ]
    return list({entry.id: entry for entry in seen}.values())


def expired(entry: MemoryEntry, at: datetime) -> bool:
    return isinstance(entry.expiresAt, str) and datetime.fromisoformat(entry.expiresAt) <= at


class JournalMemory:
    """A Memory over the journal. Reads are as of its view. Writes wait in `written` until the step is recorded."""

    def __init__(self, store: Store, tenant: str, path: tuple[str, str], as_of: AsOf, clock: Clock) -> None:
        self._store, self._tenant, self._path, self._as_of, self._clock = store, tenant, path, as_of, clock
        self._entries: Sequence[MemoryEntry] | None = None
        self.written: list[MemoryEntry] = []

    async def list(self, *, tag: str | None = None, limit: int = 100) -> list[MemoryEntry]:
        return [entry for entry in await self._all() if tag is None or tag in entry.tags][: max(0, limit)]

    async def get(self, id: str) -> MemoryEntry | None:
        return next((entry for entry in await self._all() if entry.id == id), None)

    async def write(self, content: str, *, tags: Sequence[str] = (), ttl: float | None = None) -> MemoryEntry:
        now = self._clock.now()
        entry = MemoryEntry(
            id=stable_id("mem", self._as_of.run, self._as_of.step, len(self.written)),
            content=redact_text(content),
            tags=tuple(redact_text(tag) for tag in tags),
            createdAt=_stamp(now),
            expiresAt=UNSET if ttl is None else _stamp(now + timedelta(seconds=ttl)),
        )
        self.written.append(entry)
        return entry

    async def _all(self) -> Sequence[MemoryEntry]:
        if self._entries is None:
            self._entries = entries_as_of(
                await read_writes(self._store, self._tenant, self._path), self._as_of
            )
        return self._entries


def live_memory(store: Store, clock: Clock, tenant: str, agent_id: str) -> JournalMemory:
    """The memory of an agent outside workflows, as of now. A write stays in `written`; the journal does not change."""
    view = AsOf(run=f"shadow-{uuid4().hex}", step=0, at=clock.now())
    return JournalMemory(store, tenant, ("default", f"agent:{agent_id}"), view, clock)


async def read_writes(store: Store, tenant: str, path: tuple[str, str]) -> list[MemoryWrite]:
    """All writes under a reference, in order. A malformed reference, or one of another tenant, has none."""
    documents = read_documents(store, tenant, KIND, prefix=_prefix(*path))
    return [msgspec.json.decode(document.data, type=MemoryWrite) async for document in documents]


def memory_puts(
    tenant: str, path: tuple[str, str], run: str, step: int, entries: Iterable[Any], at: datetime
) -> list[PutDocument]:
    """The documents for the writes of one step."""
    changes: list[PutDocument] = []
    for number, one in enumerate(entries):
        row = MemoryWrite(entry=msgspec.convert(one, MemoryEntry), run=run, step=step, at=at)
        key = f"{_prefix(*path)}{_stamp(at)}/{run}/{step:06}/{number:04}"
        changes.append(
            PutDocument(tenant=tenant, kind=KIND, key=key, data=msgspec.json.encode(row), version=None)
        )
    return changes


def _prefix(scope: str, ref: str) -> str:
    """Scope and reference may be any text; their digests are short and safe."""
    return f"{stable_id('scope', scope)}/{stable_id('ref', ref[:LONGEST_REF])}/"


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
