"""The audit log (FEP 6.4): whether it is whole, and what is put in it of those who were refused."""

import logging
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import msgspec

from assay.errors import Forbidden, NotFound, Refusal
from assay.ports import Principal, Run, Store, Transaction
from assay.ports.audit import START, AuditPayload, AuditRecord, LaneHead, audit_entry, link

log = logging.getLogger("assay.auth")
PAGE = 1_000
_placed = msgspec.json.Decoder(AuditPayload).decode


async def note_refusal(store: Store, who: Principal, what: str, refusal: Refusal) -> None:
    """That somebody we know wanted what is not theirs. It is refused whether this can be written or not."""
    if not isinstance(refusal, Forbidden | NotFound):
        return
    try:
        await store.commit(Transaction(lines=[audit_entry(who.tenant, "refused", what, refusal.code)]))
    except Refusal as trouble:
        log.error("a refusal could not be put in the audit log: %s", trouble)


async def audit_read(store: Store, run: Run) -> None:
    """Record that a caller reads the content of a run. Call it before the content is shown."""
    await store.commit(Transaction(lines=[audit_entry(run.tenant, "run.read", run.id)]))


async def lines(store: Store, tenant: str | None = None) -> AsyncIterator[AuditRecord]:
    """All of them, by tenant and time."""
    following = None
    while page := await store.audit(tenant, following=following, limit=PAGE):
        for one in page:
            yield one
        following = page[-1]


class AuditProblem(NamedTuple):
    tenant: str
    lane: int
    line: int
    said: str

    def __str__(self) -> str:
        return f"tenant {self.tenant!r}, lane {self.lane}, line {self.line}: {self.said}"


class AuditReport(NamedTuple):
    """What was found: how many lines, how far the lanes go, and all that is wrong."""

    lines: int
    heads: list[LaneHead]
    troubles: list[AuditProblem]


async def verify(store: Store, tenant: str | None = None, known: Iterable[LaneHead] = ()) -> AuditReport:
    """
    Go through the log, holding no more than a head of each lane.

    `known` are heads that were told before and kept elsewhere: what they cover must still be there.
    """
    heads = list(await store.heads(tenant))
    check = _Check(heads, known)
    async for one in lines(store, tenant):
        check.see(one)
    check.end()
    if many := await store.misfits(tenant):
        said = f"{many} rows hold values of another type than the log has: they were not written by assay"
        check.troubles.append(AuditProblem(tenant or "", 0, 0, said))
    return AuditReport(check.many, heads, check.troubles)


class _Check:
    def __init__(self, heads: list[LaneHead], known: Iterable[LaneHead]) -> None:
        self.many = 0
        self.troubles: list[AuditProblem] = []
        self._heads = {(head.tenant, head.lane): head for head in heads}
        self._known = {(head.tenant, head.lane, head.lines - 1): head.digest for head in known}
        self._seen: dict[tuple[str, int], tuple[int, bytes]] = {}  # how many lines, and the last one's digest

    def see(self, one: AuditRecord) -> None:
        self.many += 1
        lane = one.tenant, one.lane
        number, before = self._seen.get(lane) or (0, self._root_before(one))
        if one.number > number:
            self._say(one, f"lines {number} to {one.number - 1} before it are gone")
        elif one.number < number:
            self._say(one, "it is not in its place")
        elif link(before, one.data) != one.digest or not _in_place(one):
            self._say(one, "it was changed")
        wanted = self._known.pop((*lane, one.number), one.digest)
        if wanted != one.digest:
            self._say(one, "it is another than was told before")
        self._seen[lane] = max(number, one.number + 1), one.digest

    def end(self) -> None:
        for (tenant, lane), head in self._heads.items():
            number, digest = self._seen.pop((tenant, lane), (0, b""))
            if number < head.lines:
                self.troubles.append(
                    AuditProblem(tenant, lane, number, f"the end is cut off: {head.lines} lines were written")
                )
            elif (number, digest) != (head.lines, head.digest):
                self.troubles.append(AuditProblem(tenant, lane, number, "it goes on behind its head"))
            if lane and (tenant, lane - 1) not in self._heads:
                self.troubles.append(AuditProblem(tenant, lane - 1, 0, "the lane is gone"))
        for tenant, lane in self._seen:
            self.troubles.append(AuditProblem(tenant, lane, 0, "the lane has no head"))
        for tenant, lane, number in self._known:
            self.troubles.append(AuditProblem(tenant, lane, number, "it was there before, and is gone"))

    def _root_before(self, one: AuditRecord) -> bytes:
        """What the first line of a lane is bound to."""
        if one.lane == 0:
            return START
        before = self._heads.get((one.tenant, one.lane - 1))
        return before.root if before else b""

    def _say(self, one: AuditRecord, said: str) -> None:
        self.troubles.append(AuditProblem(one.tenant, one.lane, one.number, said))


def _in_place(one: AuditRecord) -> bool:
    try:
        told = _placed(one.data)
    except msgspec.DecodeError:
        return False
    return (told.tenant, told.at, told.lane, told.number) == (one.tenant, one.at, one.lane, one.number)
