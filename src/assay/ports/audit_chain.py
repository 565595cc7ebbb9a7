"""The hash chain of the audit log: the digest of a line covers the line before it, so a change breaks it."""

import hashlib
from datetime import datetime
from typing import Final

import msgspec

from assay.ports.audit import AuditEntry, AuditPayload, AuditRecord, LaneHead

START: Final = bytes(32)  # the previous digest of a log's first line
_encode = msgspec.json.Encoder().encode


def link(previous: bytes, data: bytes) -> bytes:
    """
    The digest of a line: SHA-256 over the previous line's digest and the line's own bytes.

    The first line of a lane follows the first line of the lane before.
    """
    return hashlib.sha256(previous + data).digest()


def next_record(head: LaneHead, at: datetime, line: AuditEntry) -> AuditRecord:
    """The next line of a lane."""
    payload = AuditPayload(
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
    data = _encode(payload)
    return AuditRecord(
        tenant=line.tenant,
        at=at,
        lane=head.lane,
        number=head.lines,
        data=data,
        digest=link(head.digest, data),
    )


def next_head(head: LaneHead, last: AuditRecord) -> LaneHead:
    """The head of the lane after that line."""
    root = last.digest if last.number == 0 else head.root
    return LaneHead(tenant=head.tenant, lane=head.lane, lines=last.number + 1, digest=last.digest, root=root)
