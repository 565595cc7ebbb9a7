"""The memory of an invocation: its writes are steps."""

from collections.abc import Sequence
from typing import Protocol

from assay.ports.agents import Memory, ToolFailure
from assay.protocol.agents import MemoryEntry, MemoryWriteStep, Step
from assay.protocol.redaction import redact_text

LONGEST_TTL = 3_155_760_000  # seconds; a hundred years


class Record(Protocol):
    """What an invocation does with a write."""

    def check_open(self) -> None: ...

    def note(self, step: Step) -> None: ...


class RecordingMemory:
    """A Memory that records its writes as steps. Secrets are removed before a write is stored."""

    def __init__(self, memory: Memory, ref: str, record: Record) -> None:
        self._inner, self._ref, self._record = memory, ref, record

    async def list(self, *, tag: str | None = None, limit: int = 100) -> list[MemoryEntry]:
        return await self._inner.list(tag=tag, limit=limit)

    async def get(self, id: str) -> MemoryEntry | None:
        return await self._inner.get(id)

    async def write(self, content: str, *, tags: Sequence[str] = (), ttl: float | None = None) -> MemoryEntry:
        self._record.check_open()
        if ttl is not None and not abs(ttl) <= LONGEST_TTL:
            raise ToolFailure(
                "invalid_arguments", f"ttl: expected at most {LONGEST_TTL:,} seconds, got {ttl:g}"
            )
        kept = [redact_text(tag) for tag in tags]
        entry = await self._inner.write(redact_text(content), tags=kept, ttl=ttl)
        self._record.note(MemoryWriteStep(memory_ref=self._ref, memory_id=entry.id, tags=entry.tags))
        return entry
