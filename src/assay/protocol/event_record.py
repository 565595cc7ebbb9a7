"""
Stored events of OpenWOP runs (openwop-contract §4, §5).

A PendingEvent is an event before it has a sequence. Its payload is a closed type without content. Content is stored as
evidence under the event's id, and is merged into the payload when the owner reads the event.
"""

import os
import random
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

CONTENT = "content"  # the kind of evidence
CANCELLED = "run.cancelled"  # the key of a cancellation's reason, which is stored before the event exists


class EventRecord(Struct, frozen=True, kw_only=True):
    """The `data` of a stored event: payload and envelope, without the members that the store has as columns."""

    eventId: str  # noqa: N815  # the wire's names
    payload: msgspec.Raw
    nodeId: str | UnsetType = UNSET  # noqa: N815
    causationId: str | UnsetType = UNSET  # noqa: N815
    beside: bool | UnsetType = UNSET  # content is stored under its id


# Seeded by the system, and again in a child process: reading system randomness for every id is slow.
_chance = random.Random()  # noqa: S311  # an id is not a secret
os.register_at_fork(after_in_child=_chance.seed)


def new_event_id() -> str:
    return f"ev-{_chance.getrandbits(96):024x}"


def new_invocation_id() -> str:
    return f"inv-{_chance.getrandbits(96):024x}"


class PendingEvent(Struct, frozen=True, kw_only=True):
    """An event to be written. `payload` is a type of `protocol.events`; `content` is added when the owner reads it."""

    type: str
    payload: Struct
    content: dict[str, Any] = {}
    node_id: str | None = None
    causation_id: str | None = None
    id: str = msgspec.field(default_factory=new_event_id)


def encode_event(fact: PendingEvent) -> bytes:
    """Encode the event for the log, without its content."""
    return msgspec.json.encode(
        EventRecord(
            eventId=fact.id,
            payload=msgspec.Raw(msgspec.json.encode(fact.payload)),
            nodeId=fact.node_id or UNSET,
            causationId=fact.causation_id or UNSET,
            beside=bool(fact.content) or UNSET,
        )
    )


def decode_event(data: bytes) -> EventRecord:
    return _decode(data)


def content_key(type: str, record: EventRecord) -> str | None:
    """The evidence key of an event's content, if it has any."""
    if type == CANCELLED:
        return CANCELLED
    return record.eventId if record.beside is True else None


def envelope(
    run: str, type: str, at: datetime, sequence: int, data: bytes, content: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A RunEventDoc (openwop-contract §4.1). Only the owner gets the content."""
    record = _decode(data)
    payload = msgspec.json.decode(record.payload)
    document: dict[str, Any] = {
        "eventId": record.eventId,
        "runId": run,
        "type": type,
        "payload": payload | content if content else payload,
        "timestamp": at.isoformat().replace("+00:00", "Z"),
        "sequence": sequence,
    }
    if record.nodeId is not UNSET:
        document["nodeId"] = record.nodeId
    if record.causationId is not UNSET:
        document["causationId"] = record.causationId
    return document


_decode = msgspec.json.Decoder(EventRecord).decode
