"""The audit log (FEP 6.4): verification of its chains, and entries for refusals and reads."""

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from assay.errors import Forbidden, NotFound, Refusal
from assay.errors.storage import Erased
from assay.ports import Principal, Run, Store, Transaction
from assay.ports.audit import AuditPayload, AuditRecord, LaneHead, audit_entry
from assay.ports.audit_chain import START, link

log = logging.getLogger("assay.auth")
PAGE = 1_000
_decode = msgspec.json.Decoder(AuditPayload).decode


async def note_refusal(store: Store, principal: Principal, operation: str, refusal: Refusal) -> None:
    """Record that an authenticated caller was denied. The refusal stands even if the entry cannot be written."""
    if not isinstance(refusal, Forbidden | NotFound):
        return
    try:
        await store.commit(
            Transaction(lines=[audit_entry(principal.tenant, "refused", operation, refusal.code)])
        )
    except Refusal as trouble:
        log.error("a refusal could not be written to the audit log: %s", trouble)


async def audit_read(store: Store, run: Run, *, content: bool = True) -> None:
    """
    Record that a caller reads a run. Call it before anything is shown. Erased: its content is gone.

    Without `content`, the caller reads what stays after an erasure: the log and the scorecard.
    """
    if content and run.erased:
        raise Erased(run.id, run.erased, run.erased_by)
    await store.commit(Transaction(lines=[audit_entry(run.tenant, "run.read", run.id)]))


async def lines(store: Store, tenant: str | None = None) -> AsyncIterator[AuditRecord]:
    """All lines, by tenant and time."""
    following = None
    while page := await store.audit(tenant, following=following, limit=PAGE):
        for record in page:
            yield record
        following = page[-1]


class AuditProblem(NamedTuple):
    tenant: str
    lane: int
    line: int
    message: str

    def document(self) -> dict[str, object]:
        """As `assay admin audit verify --json` writes it."""
        return {"tenant": self.tenant, "lane": self.lane, "line": self.line, "said": self.message}

    def __str__(self) -> str:
        return f"tenant {self.tenant!r}, lane {self.lane}, line {self.line}: {self.message}"


class AuditReport(NamedTuple):
    """The result of a verification: the number of lines, the heads of the lanes, and every problem."""

    lines: int
    heads: list[LaneHead]
    problems: list[AuditProblem]


class LineObserver(Protocol):
    """Gets every line of a verification, so that the log is read once."""

    def add(self, record: AuditRecord) -> None: ...


async def verify(
    store: Store,
    tenant: str | None = None,
    anchors: Iterable[LaneHead] = (),
    observers: Sequence[LineObserver] = (),
) -> AuditReport:
    """
    Verify the log in one pass. It holds one head per lane in memory.

    `anchors` are heads of an earlier verification, stored elsewhere: the lines they cover must still be there.
    """
    heads = list(await store.heads(tenant))
    verifier = _Verifier(heads, anchors)
    async for record in lines(store, tenant):
        verifier.add(record)
        for observer in observers:
            observer.add(record)
    verifier.finish()
    if count := await store.misfits(tenant):
        message = f"{count} rows hold values of a wrong type: assay did not write them"
        verifier.problems.append(AuditProblem(tenant or "", 0, 0, message))
    return AuditReport(verifier.count, heads, verifier.problems)


class _Verifier:
    def __init__(self, heads: list[LaneHead], anchors: Iterable[LaneHead]) -> None:
        self.count = 0
        self.problems: list[AuditProblem] = []
        self._heads = {(head.tenant, head.lane): head for head in heads}
        self._anchors = {(head.tenant, head.lane, head.lines - 1): head.digest for head in anchors}
        self._ends: dict[tuple[str, int], tuple[int, bytes]] = {}  # of each lane: lines so far, last digest

    def add(self, record: AuditRecord) -> None:
        self.count += 1
        lane = record.tenant, record.lane
        number, before = self._ends.get(lane) or (0, self._root_before(record))
        if record.number > number:
            self._report(record, f"lines {number} to {record.number - 1} before it are missing")
        elif record.number < number:
            self._report(record, "it is out of order")
        elif link(before, record.data) != record.digest or not _in_place(record):
            self._report(record, "it was changed")
        head = self._heads.get(lane)
        if record.number == 0 and head is not None and head.lines and head.root != record.digest:
            self._report(record, "the head of its lane names another first line")
        if self._anchors.pop((*lane, record.number), record.digest) != record.digest:
            self._report(record, "it differs from the line that was verified before")
        self._ends[lane] = max(number, record.number + 1), record.digest

    def finish(self) -> None:
        for (tenant, lane), head in self._heads.items():
            number, digest = self._ends.pop((tenant, lane), (0, b""))
            if number < head.lines:
                self.problems.append(
                    AuditProblem(tenant, lane, number, f"the end is cut off: {head.lines} lines were written")
                )
            elif (number, digest) != (head.lines, head.digest):
                self.problems.append(AuditProblem(tenant, lane, number, "it continues beyond its head"))
            if lane and (tenant, lane - 1) not in self._heads:
                self.problems.append(AuditProblem(tenant, lane - 1, 0, "the lane is missing"))
        for tenant, lane in self._ends:
            self.problems.append(AuditProblem(tenant, lane, 0, "the lane has no head"))
        for tenant, lane, number in self._anchors:
            self.problems.append(
                AuditProblem(tenant, lane, number, "it was verified before and is missing now")
            )

    def _root_before(self, record: AuditRecord) -> bytes:
        """The previous digest of a lane's first line."""
        if record.lane == 0:
            return START
        before = self._heads.get((record.tenant, record.lane - 1))
        return before.root if before else b""

    def _report(self, record: AuditRecord, message: str) -> None:
        self.problems.append(AuditProblem(record.tenant, record.lane, record.number, message))


def _in_place(record: AuditRecord) -> bool:
    """Whether the signed position is the row's."""
    try:
        payload = _decode(record.data)
    except msgspec.DecodeError:
        return False
    position = payload.tenant, payload.at, payload.lane, payload.number
    return position == (record.tenant, record.at, record.lane, record.number)
