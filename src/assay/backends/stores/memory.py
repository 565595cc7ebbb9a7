"""A store in memory: for tests and the library, and as the plain reference for the other stores."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice, takewhile

import msgspec

from assay.backends.stores.records import lease_fencing
from assay.backends.stores.records import transactions as rules
from assay.backends.stores.records.notifier import RunNotifier, RunPosition
from assay.backends.stores.records.run_filter import age, is_beyond, matches, number
from assay.errors import Conflict
from assay.errors.storage import open_runs_refusal
from assay.ports import (
    CLOSED,
    CaseBlock,
    CaseTotals,
    ChunkInfo,
    Clock,
    Document,
    DocumentInfo,
    Event,
    EvidenceChunk,
    ReencryptStep,
    RequireCount,
    Run,
    RunGroup,
    RunQuery,
    RunStatus,
    SystemClock,
    Transaction,
)  # fmt: skip
from assay.ports.audit import AuditEntry, AuditRecord, LaneHead
from assay.ports.audit_chain import START, next_head, next_record
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED
from assay.ports.deletion import Destruction, TenantContent

Place = tuple[str, str, int]  # kind, key, first


class MemoryStore:
    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._runs: dict[str, Run] = {}
        self._events: dict[str, list[Event]] = {}
        self._evidence: dict[str, dict[Place, EvidenceChunk]] = {}
        # the evidence of a run by kind, once it was read
        self._sorted: dict[str, dict[str, list[EvidenceChunk]]] = {}
        self._blocks: dict[str, dict[int, CaseBlock]] = {}
        self._documents: dict[rules.Name, Document] = {}
        self._audit: list[AuditRecord] = []
        self._lane_heads: dict[str, LaneHead] = {}
        self._notifier = RunNotifier(self._positions)

    async def commit(self, batch: Transaction) -> tuple[int, ...]:
        rules.check(batch)
        counts = {one: self._count_documents(one) for one in rules.required_counts([batch])}
        settled = rules.apply(batch, self._runs, self._documents, self._clock.now(), counts)
        self._refuse_taken(settled.pieces)
        self._refuse_taken_blocks(settled.blocks)
        settled.merge_into(self._runs, self._documents)
        for run, sequence, event in settled.events:
            self._events.setdefault(run, []).append(msgspec.structs.replace(event, sequence=sequence))
        for run, piece in settled.pieces:
            self._evidence.setdefault(run, {})[_chunk_key(piece)] = piece
            self._sorted.get(run, {}).pop(piece.kind, None)
        for run, block in settled.blocks:
            self._blocks.setdefault(run, {})[block.first] = block
        for line in settled.lines:
            self._write_line(line)
        for run in settled.runs:
            self._notifier.notify(run, _tally(self._runs[run]))
        return tuple(settled.ends)

    async def run(self, run: str, *, tenant: str | None = None) -> Run | None:
        found = self._runs.get(run)
        return found if found and tenant in (None, found.tenant) else None

    async def runs(self, query: RunQuery) -> list[Run]:
        found = sorted(self._matching(query), key=age, reverse=True)
        if query.order == "created":
            ordered = found[::-1] if query.ascending else found
        else:
            numbers = {run.id: value for run in found if (value := number(run, query)) is not None}
            ordered = sorted(
                (run for run in found if run.id in numbers),
                key=lambda run: (numbers[run.id], *age(run)),
                reverse=not query.ascending,
            ) + [run for run in found if run.id not in numbers]
        if query.beyond is not None:
            ordered = [run for run in ordered if is_beyond(run, query)]
        return ordered[: query.limit]

    async def find(self, runs: Sequence[str], *, tenant: str) -> list[Run]:
        found = [self._runs[run] for run in sorted(set(runs)) if run in self._runs]
        return [run for run in found if run.tenant == tenant]

    async def count_runs(self, query: RunQuery) -> dict[tuple[str, RunStatus], int]:
        return dict(Counter((run.kind, run.status) for run in self._matching(query)))

    async def group_runs(self, query: RunQuery) -> list[RunGroup]:
        groups: dict[tuple[str, str], list[Run]] = {}
        for run in self._matching(query):
            groups.setdefault((run.kind, run.name), []).append(run)
        newest = {key: max(runs, key=age) for key, runs in groups.items()}
        order = sorted(sorted(groups), key=lambda key: newest[key].created, reverse=True)[: query.limit]
        return [RunGroup(kind=key[0], count=len(groups[key]), newest=newest[key].id) for key in order]

    def _count_documents(self, required: RequireCount) -> int:
        place = required.tenant, required.kind
        found = [
            document.version
            for name, document in self._documents.items()
            if name[:2] == place and name[2].startswith(required.prefix)
        ]
        return sum(found) if required.versions else len(found)

    def _matching(self, query: RunQuery) -> list[Run]:
        found = [run for run in self._runs.values() if matches(run, query)]
        if not query.evidence:
            return found
        return [run for run in found if self._evidence.get(run.id) or self._blocks.get(run.id)]

    async def case_blocks(
        self, run: str, *, start: int = 0, limit: int = 500, holding: str = ""
    ) -> list[CaseBlock]:
        blocks = self._blocks.get(run, {})
        found = [blocks[first] for first in sorted(blocks) if blocks[first].last >= start]
        return [block for block in found if not holding or _holds(block, holding)][:limit]

    async def case_totals(self, runs: Sequence[str]) -> dict[str, CaseTotals]:
        found: dict[str, CaseTotals] = {}
        for run in runs:
            if blocks := list(self._blocks.get(run, {}).values()):
                names = CaseTotals.__struct_fields__
                found[run] = CaseTotals(**{name: sum(getattr(one, name) for one in blocks) for name in names})
        return found

    async def events(self, run: str, *, after: int = -1, limit: int = 1000) -> list[Event]:
        start = max(0, after + 1)
        return self._events.get(run, [])[start : start + limit]

    async def wait_for_events(self, run: str, *, after: int, timeout: float) -> bool:
        return await self._notifier.wait(run, after, timeout)

    async def chunk_infos(
        self, run: str, kind: str, *, after: ChunkInfo | None = None, limit: int = 1000
    ) -> list[ChunkInfo]:
        rest = (after.key, after.first) if after else ("", -1)
        found = [piece for piece in self._pieces(run, kind) if (piece.key, piece.first) > rest]
        return [
            ChunkInfo(kind=kind, key=piece.key, first=piece.first, last=piece.last, size=len(piece.data))
            for piece in found[:limit]
        ]

    async def chunks(
        self, run: str, kind: str, *, key: str = "", start: int = 0, stop: int | None = None, limit: int = 4
    ) -> list[EvidenceChunk]:
        pieces = self._pieces(run, kind)
        first = bisect_left(pieces, key, key=_key_of)
        end = math.inf if stop is None else stop
        ours = takewhile(lambda piece: piece.key == key and piece.first < end, islice(pieces, first, None))
        return list(islice((piece for piece in ours if piece.last >= start), limit))

    async def contents(self, run: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        wanted = set(keys)
        found = [piece for piece in self._pieces(run, kind) if piece.key in wanted]
        return {piece.key: piece.data for piece in reversed(found)}

    async def erase(self, *runs: str, kind: str | None = None, limit: int = 500) -> int:
        chosen = [(run, place) for run in runs for place in self._evidence.get(run, {})]
        gone = [(run, place) for run, place in chosen if kind in (None, place[0])][:limit]
        for run, place in gone:
            del self._evidence[run][place]
            self._sorted.pop(run, None)
        if not gone and kind is None:
            return sum(len(self._blocks.pop(run, {})) for run in runs)
        return len(gone)

    async def survey(self, tenant: str) -> TenantContent:
        mine = self._matching(RunQuery(tenant=tenant))
        open_runs = [run.id for run in sorted(mine, key=age) if run.status not in CLOSED]
        return TenantContent(
            runs=len(mine),
            open_runs=open_runs[:5],
            open_count=len(open_runs),
            evidence=len(self._matching(RunQuery(tenant=tenant, evidence=True))),
            documents=dict(Counter(kind for owner, kind, _ in self._documents if owner == tenant)),
        )

    async def retire(self, tenant: str, lines: Sequence[AuditEntry]) -> datetime:
        found = await self.survey(tenant)
        if found.open_count:
            raise open_runs_refusal(tenant, found.open_runs, found.open_count)
        for line in lines:
            self._write_line(line)
        return self._clock.now()

    async def delete_documents(
        self, tenant: str, *, kept: frozenset[str], before: datetime, limit: int = 200
    ) -> int:
        gone = [
            name
            for name, found in self._documents.items()
            if name[0] == tenant and name[1] not in kept and found.updated <= before
        ][:limit]
        for name in gone:
            del self._documents[name]
        return len(gone)

    async def compact(self) -> bool:
        return True

    async def destroy(self, tenant: str, lines: Sequence[AuditEntry]) -> Destruction:
        return Destruction()  # it has no keys

    async def document(self, tenant: str, kind: str, key: str) -> Document | None:
        return self._documents.get((tenant, kind, key))

    async def documents(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[Document]:
        found = [
            document
            for name, document in self._documents.items()
            if name[:2] == (tenant, kind) and name[2].startswith(prefix) and (name[2] > after or not after)
        ]
        return sorted(found, key=lambda document: document.key)[:limit]

    async def document_infos(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[DocumentInfo]:
        found = await self.documents(tenant, kind, prefix=prefix, after=after, limit=limit)
        return [DocumentInfo(one.key, len(one.data)) for one in found]

    async def find_documents(self, tenant: str, kind: str, keys: Sequence[str]) -> list[Document]:
        names = [(tenant, kind, key) for key in sorted(set(keys))]
        return [self._documents[name] for name in names if name in self._documents]

    async def measure_documents(self, tenant: str, kind: str, *, prefix: str = "") -> tuple[int, int]:
        found = await self.documents(tenant, kind, prefix=prefix, limit=len(self._documents))
        return len(found), sum(len(one.data) for one in found)

    async def sweep(self, kind: str, *, before: datetime, limit: int = 1000) -> int:
        old = [
            name for name, found in self._documents.items() if name[1] == kind and found.updated < before
        ][:limit]  # fmt: skip
        for name in old:
            del self._documents[name]
        return len(old)

    async def claim(self, run: str, holder: str, *, seconds: float) -> Run | None:
        found = self._runs.get(run)
        return next(iter(self._claim_all([found] if found else [], holder, seconds)), None)

    async def adopt(
        self, holder: str, *, seconds: float, limit: int = 10, max_takeovers: int | None = None
    ) -> list[Run]:
        now = self._clock.now()
        lost = [
            run
            for run in self._runs.values()
            if run.takeovers != max_takeovers
            and run.holder != holder
            and (lease_fencing.free(run, holder, now) or lease_fencing.lease_ahead(run, holder, now))
        ]
        return self._claim_all(sorted(lost, key=age)[:limit], holder, seconds)

    async def renew(self, holder: str, *, seconds: float) -> dict[str, RunStatus]:
        held = [run for run in self._runs.values() if run.holder == holder]
        return {run.id: run.status for run in self._claim_all(held, holder, seconds)}

    async def release(self, run: str, holder: str) -> None:
        found = self._runs.get(run)
        if found and found.holder == holder:
            self._runs[run] = lease_fencing.release_lease(found)

    async def forgive(self, run: str, holder: str) -> None:
        found = self._runs.get(run)
        if found and (forgiven := lease_fencing.forgive_takeover(found, holder)) is not None:
            self._runs[run] = forgiven

    async def audit(
        self, tenant: str | None = None, *, following: AuditRecord | None = None, limit: int = 1000
    ) -> list[AuditRecord]:
        found = [line for line in self._audit if tenant in (None, line.tenant)]
        rest = [line for line in found if following is None or _audit_order(line) > _audit_order(following)]
        return sorted(rest, key=_audit_order)[:limit]

    async def heads(self, tenant: str | None = None) -> list[LaneHead]:
        return [head for head in self._lane_heads.values() if tenant in (None, head.tenant)]

    async def misfits(self, tenant: str | None = None) -> int:
        return 0

    async def reencrypt(self, cursor: str = "") -> ReencryptStep:
        return ReencryptStep(0, "")  # nothing is on disk

    def _write_line(self, line: AuditEntry) -> None:
        new = LaneHead(tenant=line.tenant, lane=0, lines=0, digest=START, root=b"")
        head = self._lane_heads.get(line.tenant, new)
        written = next_record(head, self._clock.now(), line)
        self._audit.append(written)
        self._lane_heads[line.tenant] = next_head(head, written)

    async def ping(self) -> None:
        """Memory always answers."""

    async def close(self) -> None:
        await self._notifier.close()

    def _pieces(self, run: str, kind: str) -> list[EvidenceChunk]:
        if (kept := self._evidence.get(run)) is None:
            return []
        known = self._sorted.setdefault(run, {})
        if kind not in known:
            known[kind] = [kept[place] for place in sorted(place for place in kept if place[0] == kind)]
        return known[kind]

    def _refuse_taken(self, pieces: Iterable[tuple[str, EvidenceChunk]]) -> None:
        seen: set[tuple[str, Place]] = set()
        for run, piece in pieces:
            place = _chunk_key(piece)
            if (run, place) in seen or place in self._evidence.get(run, {}):
                raise Conflict("exists", f"run {run}", "it has that chunk of evidence already")
            seen.add((run, place))

    def _refuse_taken_blocks(self, blocks: Iterable[tuple[str, CaseBlock]]) -> None:
        seen: set[tuple[str, int]] = set()
        for run, block in blocks:
            if (run, block.first) in seen or block.first in self._blocks.get(run, {}):
                raise Conflict("exists", f"run {run}", "it has that row of cases already")
            seen.add((run, block.first))

    def _claim_all(self, runs: Sequence[Run], holder: str, seconds: float) -> list[Run]:
        """Take the leases of the free runs."""
        now = self._clock.now()
        ahead = [run for run in runs if lease_fencing.lease_ahead(run, holder, now)]
        self._runs.update({run.id: lease_fencing.anchor_lease(run, now) for run in ahead})
        free = [run for run in runs if run not in ahead and lease_fencing.free(run, holder, now)]
        taken = [lease_fencing.take_lease(run, holder, now, seconds) for run in free]
        self._runs.update({run.id: run for run in taken})
        return taken

    async def _positions(self, runs: Sequence[str]) -> dict[str, RunPosition]:
        return {run: _tally(self._runs[run]) for run in runs if run in self._runs}


def _chunk_key(piece: EvidenceChunk) -> Place:
    return piece.kind, piece.key, piece.first


def _key_of(piece: EvidenceChunk) -> str:
    return piece.key


def _tally(run: Run) -> RunPosition:
    return RunPosition(run.events, run.status in CLOSED)


def _holds(block: CaseBlock, outcomes: str) -> bool:
    counts = {
        PASSED: block.passed, FAILED: block.failed, UNGRADED: block.ungraded, ERROR: block.error, SKIPPED: block.skipped
    }  # fmt: skip
    return any(counts[outcome] for outcome in outcomes)


def _audit_order(line: AuditRecord) -> tuple[str, datetime, int, int]:
    return line.tenant, line.at, line.lane, line.number
