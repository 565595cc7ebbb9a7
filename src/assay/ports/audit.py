"""The audit log (FEP 6.4): entries of who did what; and the actor of the current task."""

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Final, Protocol

import msgspec

from assay.protocol.redaction import redact_text

HOST: Final = "host"  # the actor without a credential: the operator's command, or the host itself


class AuditActor(msgspec.Struct, frozen=True):
    """The principal that the current task works for, and its request id."""

    who: str = HOST
    request: str = ""


ANONYMOUS: Final = AuditActor()
acting: ContextVar[AuditActor] = ContextVar("acting", default=ANONYMOUS)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action of an actor, or its refusal. It holds ids and assay's own names, never content."""

    tenant: str
    who: str
    action: str
    what: str = ""  # a run, a key
    outcome: str = "ok"  # or the code of the refusal
    request: str = ""


def audit_entry(tenant: str, action: str, subject: str = "", outcome: str = "ok") -> AuditEntry:
    """An entry by the current actor. `subject` is redacted: a request may contain a key by mistake."""
    now, subject = acting.get(), redact_text(subject)
    return AuditEntry(
        tenant=tenant, who=now.who, action=action, what=subject, outcome=outcome, request=now.request
    )


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """
    A stored entry: its lane, its number in the lane, and a digest that covers the line before it.

    Each process writes a lane of its own, so that processes do not wait for each other.
    """

    tenant: str
    at: datetime
    lane: int
    number: int
    data: bytes  # an AuditPayload as JSON
    digest: bytes


class LaneHead(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a lane, stored apart from its lines: their number, the last digest, and the first (`root`)."""

    tenant: str
    lane: int
    lines: int
    digest: bytes
    root: bytes


class AuditLog(Protocol):
    """The part of a store that reads the audit log. A Transaction writes it."""

    async def audit(
        self, tenant: str | None = None, *, following: AuditRecord | None = None, limit: int = 1000
    ) -> list[AuditRecord]:
        """A page of the log of one tenant or all, in the order of time."""
        ...

    async def heads(self, tenant: str | None = None) -> Sequence[LaneHead]:
        """The ends of the lanes."""
        ...

    async def misfits(self, tenant: str | None = None) -> int:
        """The number of rows that are neither a valid line nor a valid head: no store has written them."""
        ...


class AuditPayload(AuditEntry, frozen=True, kw_only=True):
    """An entry with its position; the digest is made of this."""

    at: datetime
    lane: int
    number: int
