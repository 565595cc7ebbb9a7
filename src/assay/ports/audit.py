"""Who is at it, and the lines of the audit log: what was done by whom to what, each bound to the one before (FEP 6.4)."""

import hashlib
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Final, Protocol

import msgspec

from assay.protocol.redaction import redacted_text

HOST: Final = "host"  # who is at it where nobody has come through a door: the operator's own command, or the host itself
START: Final = bytes(32)  # what the first line of a log is bound to


class Actor(msgspec.Struct, frozen=True):
    """For whom this task works: a principal's id, and the number of the request."""

    who: str = HOST
    request: str = ""


ANONYMOUS: Final = Actor()
acting: ContextVar[Actor] = ContextVar("acting", default=ANONYMOUS)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody did something, or was refused. Ids and names of ours, never content."""

    tenant: str
    who: str
    action: str
    what: str = ""  # a run, a key
    outcome: str = "ok"  # or the code of the refusal
    request: str = ""


def audit_entry(tenant: str, action: str, what: str = "", outcome: str = "ok") -> AuditEntry:
    """By whoever this task works for. What was asked for may be anything, also a key that somebody put in its place."""
    now, what = acting.get(), redacted_text(what)
    return AuditEntry(
        tenant=tenant, who=now.who, action=action, what=what, outcome=outcome, request=now.request
    )


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """
    A line as it is kept: in a lane of its tenant, at a number, bound to the line before it.

    A lane is what one process writes, so that no two of them wait for each other.
    """

    tenant: str
    at: datetime
    lane: int
    number: int
    data: bytes  # JSON: all of it, with its place
    digest: bytes


class LaneHead(msgspec.Struct, frozen=True, kw_only=True):
    """How far a lane goes, kept apart from its lines: how many there are, the last one's digest, and the first one's."""

    tenant: str
    lane: int
    lines: int
    digest: bytes
    root: bytes


class AuditLog(Protocol):
    """Part of a store: lines are written with a Batch, and read here."""

    async def audit(
        self, tenant: str | None = None, *, following: AuditRecord | None = None, limit: int = 1000
    ) -> list[AuditRecord]:
        """The audit log of a tenant, or of all, by time."""
        ...

    async def heads(self, tenant: str | None = None) -> Sequence[LaneHead]:
        """How far the lanes of it go."""
        ...

    async def misfits(self, tenant: str | None = None) -> int:
        """How many rows of it hold what is neither a line nor a head, and were not written by a store."""
        ...


class AuditPayload(AuditEntry, frozen=True, kw_only=True):
    """A line with its place: what its digest is made of."""

    at: datetime
    lane: int
    number: int


def link(before: bytes, data: bytes) -> bytes:
    """The digest of a line: SHA-256 over that of the one before and its own bytes. The first of a lane is bound to the first of the lane before."""
    return hashlib.sha256(before + data).digest()


_encode = msgspec.json.Encoder().encode


def extended(head: LaneHead, at: datetime, line: AuditEntry) -> AuditRecord:
    """The next line of a lane."""
    placed = AuditPayload(
        tenant=line.tenant,
        who=line.who,
        action=line.action,
        what=line.what,
        outcome=line.outcome,
        request=line.request,
        at=at,
        lane=head.lane,
        number=head.lines,
    )
    data = _encode(placed)
    return AuditRecord(
        tenant=line.tenant,
        at=at,
        lane=head.lane,
        number=head.lines,
        data=data,
        digest=link(head.digest, data),
    )


def after(head: LaneHead, last: AuditRecord) -> LaneHead:
    root = last.digest if last.number == 0 else head.root
    return LaneHead(tenant=head.tenant, lane=head.lane, lines=last.number + 1, digest=last.digest, root=root)
