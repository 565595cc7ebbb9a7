"""
What happened in a run of OpenWOP, as it is stored (contract §4, §5; the design's three drawers).

A Fact is an event before it has a sequence. Its payload is a closed type; what an open type may carry as content goes beside it, into evidence
under the event's id, and is filled in when the owner reads. `split` gives both drawers, `joined` puts them together again.
"""

import os
import random
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

CONTENT = "content"  # the kind of evidence in which it lies
CANCELLED = (
    "run.cancelled"  # why somebody stopped a run lies under this key: it is said before there is an event
)


class EventRecord(Struct, frozen=True, kw_only=True):
    """The `data` of an event: the envelope but for what the store knows, and the payload."""

    eventId: str  # noqa: N815  # the wire's names
    payload: msgspec.Raw
    nodeId: str | UnsetType = UNSET  # noqa: N815
    causationId: str | UnsetType = UNSET  # noqa: N815
    beside: bool | UnsetType = UNSET  # there is content under its id


# seeded by the system, and again in a child: asking the system for every id costs more than all the rest
_chance = random.Random()  # noqa: S311  # an id is no secret
os.register_at_fork(after_in_child=_chance.seed)


def new_event_id() -> str:
    return f"ev-{_chance.getrandbits(96):024x}"


def new_invocation_id() -> str:
    return f"inv-{_chance.getrandbits(96):024x}"


class PendingEvent(Struct, frozen=True, kw_only=True):
    """One thing that happened. `payload` is one of `protocol.events`; `content` members join it on the owner's read."""

    type: str
    payload: Struct
    content: dict[str, Any] = {}
    node_id: str | None = None
    causation_id: str | None = None
    id: str = msgspec.field(default_factory=new_event_id)


def stored(fact: PendingEvent) -> bytes:
    """What the store keeps of it in the log: never content."""
    return msgspec.json.encode(
        EventRecord(
            eventId=fact.id,
            payload=msgspec.Raw(msgspec.json.encode(fact.payload)),
            nodeId=fact.node_id or UNSET,
            causationId=fact.causation_id or UNSET,
            beside=bool(fact.content) or UNSET,
        )
    )


def read_stored(data: bytes) -> EventRecord:
    return _read(data)


def content_key(type: str, known: EventRecord) -> str | None:
    """Under which key the content of an event lies, if it has any."""
    if type == CANCELLED:
        return CANCELLED
    return known.eventId if known.beside is True else None


def envelope(
    run: str, type: str, at: datetime, sequence: int, data: bytes, content: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A RunEventDoc (contract §4.1); with its content only for its owner."""
    known = _read(data)
    payload = msgspec.json.decode(known.payload)
    document: dict[str, Any] = {
        "eventId": known.eventId,
        "runId": run,
        "type": type,
        "payload": payload | content if content else payload,
        "timestamp": at.isoformat().replace("+00:00", "Z"),
        "sequence": sequence,
    }
    if known.nodeId is not UNSET:
        document["nodeId"] = known.nodeId
    if known.causationId is not UNSET:
        document["causationId"] = known.causationId
    return document


_read = msgspec.json.Decoder(EventRecord).decode
