"""The methods that both forms of the SQL store have: what is asked and changed with the statements they share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from assay.backends.stores.records import queries, record_writer, run_lists
from assay.backends.stores.records.notifier import RunNotifier, RunPosition
from assay.backends.stores.records.queries import Database
from assay.backends.stores.records.transactions import Changes
from assay.ports import (
    CLOSED,
    CaseBlock,
    CaseTotals,
    ChunkInfo,
    Document,
    DocumentInfo,
    Event,
    EvidenceChunk,
    Run,
    RunGroup,
    RunQuery,
    RunStatus,
    store_patience,
)

T = TypeVar("T")


class RecordStore(ABC):
    def __init__(self) -> None:
        self._notifier = RunNotifier(self._positions)

    @abstractmethod
    async def ask(self, question: Callable[[Database], T], *, snapshot: bool = False) -> T:
        """Read. `snapshot`: all statements of the question see one state of the database."""

    @abstractmethod
    async def change(self, statement: Callable[[Database, datetime], T]) -> T:
        """Write in a transaction; the statement gets its time."""

    async def run(self, run: str, *, tenant: str | None = None) -> Run | None:
        if "\0" in run:  # no name holds one, and PostgreSQL cannot even be asked
            return None
        found = await self.ask(lambda db: queries.find_runs(db, [run]))
        return found[0] if found and tenant in (None, found[0].tenant) else None

    async def runs(self, query: RunQuery) -> list[Run]:
        return await self.ask(lambda db: run_lists.list_runs(db, query), snapshot=True)

    async def find(self, runs: Sequence[str], *, tenant: str) -> list[Run]:
        ids = [run for run in runs if "\0" not in run]
        found = await self.ask(lambda db: queries.find_runs(db, ids))
        return [run for run in found if run.tenant == tenant]

    async def count_runs(self, query: RunQuery) -> dict[tuple[str, RunStatus], int]:
        return await self.ask(lambda db: run_lists.count_runs(db, query))

    async def group_runs(self, query: RunQuery) -> list[RunGroup]:
        return await self.ask(lambda db: run_lists.group_runs(db, query), snapshot=True)

    async def case_blocks(
        self, run: str, *, start: int = 0, limit: int = 500, holding: str = ""
    ) -> list[CaseBlock]:
        return await self.ask(lambda db: queries.list_blocks(db, run, start, limit, holding))

    async def case_totals(self, runs: Sequence[str]) -> dict[str, CaseTotals]:
        return await self.ask(lambda db: queries.sum_blocks(db, runs))

    async def events(self, run: str, *, after: int = -1, limit: int = 1000) -> list[Event]:
        return await self.ask(lambda db: queries.list_events(db, run, after, limit))

    async def wait_for_events(self, run: str, *, after: int, timeout: float) -> bool:
        return await self._notifier.wait(run, after, timeout)

    async def chunk_infos(
        self, run: str, kind: str, *, after: ChunkInfo | None = None, limit: int = 1000
    ) -> list[ChunkInfo]:
        return await self.ask(lambda db: queries.list_chunk_infos(db, run, kind, after, limit))

    async def chunks(
        self, run: str, kind: str, *, key: str = "", start: int = 0, stop: int | None = None, limit: int = 4
    ) -> list[EvidenceChunk]:
        return await self.ask(lambda db: queries.list_chunks(db, run, kind, key, start, stop, limit))

    async def contents(self, run: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        return await self.ask(lambda db: queries.list_contents(db, run, kind, keys))

    async def document(self, tenant: str, kind: str, key: str) -> Document | None:
        if "\0" in key:
            return None
        found = await self.ask(lambda db: queries.find_documents(db, [(tenant, kind, key)]))
        return found[0] if found else None

    async def documents(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[Document]:
        if "\0" in prefix:
            return []
        first = after.partition("\0")[0]  # nothing lies between the two
        return await self.ask(lambda db: queries.list_documents(db, tenant, kind, prefix, first, limit))

    async def document_infos(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[DocumentInfo]:
        return await self.ask(lambda db: queries.list_document_infos(db, tenant, kind, prefix, after, limit))

    async def find_documents(self, tenant: str, kind: str, keys: Sequence[str]) -> list[Document]:
        names = [(tenant, kind, key) for key in sorted(set(keys))]
        return await self.ask(lambda db: queries.find_documents(db, names)) if names else []

    async def measure_documents(self, tenant: str, kind: str, *, prefix: str = "") -> tuple[int, int]:
        return await self.ask(lambda db: queries.measure_documents(db, tenant, kind, prefix))

    async def claim(self, run: str, holder: str, *, seconds: float) -> Run | None:
        return await self.change(lambda db, now: record_writer.claim(db, run, holder, now, seconds))

    async def adopt(
        self, holder: str, *, seconds: float, limit: int = 10, max_takeovers: int | None = None
    ) -> list[Run]:
        def adopt_runs(db: Database, now: datetime) -> list[Run]:
            lost = queries.lost_runs(db, holder, now, limit, max_takeovers)
            return record_writer.claim_all(db, lost, holder, now, seconds)

        return await self.change(adopt_runs)

    async def renew(self, holder: str, *, seconds: float) -> dict[str, RunStatus]:
        return await self.change(lambda db, now: record_writer.renew(db, holder, now, seconds))

    async def release(self, run: str, holder: str) -> None:
        await self.change(lambda db, now: record_writer.release(db, run, holder, now))

    async def forgive(self, run: str, holder: str) -> None:
        await self.change(lambda db, now: record_writer.forgive(db, run, holder, now))

    def _notify(self, changes: Changes) -> None:
        for run in changes.runs.values():
            self._notifier.notify(run.id, RunPosition(run.events, run.status in CLOSED))

    async def _positions(self, runs: Sequence[str]) -> dict[str, RunPosition]:
        store_patience.set(None)  # the notifier's task began in a request and outlives it
        return await self.ask(lambda db: queries.positions(db, runs))
