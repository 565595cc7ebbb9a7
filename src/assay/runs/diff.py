"""Compares the logs of two runs, aligned by sequence number (openwop-contract §9.1). It has no side effect."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from assay.protocol.canonical import canonical
from assay.protocol.json_types import is_object

Doc = dict[str, Any]


def diff(
    a: str,
    b: str,
    events_a: Sequence[Doc],
    events_b: Sequence[Doc],
    states: tuple[Doc, Doc],
    *,
    in_flight: bool,
) -> Doc:
    """
    A RunDiffResponse: the first sequence number that differs, every event that differs, and the differences of the
    final states.

    Events are compared by sequence, type and payload, not by ids, causes or clocks. Where a payload points at an event
    of its own run, the sequence number of that event is compared. `added` is only in b, `removed` only in a.
    """
    events = list(event_diffs(events_a, events_b))
    response: Doc = {
        "a": a,
        "b": b,
        "divergedAtSeq": events[0]["seq"] if events else None,
        "eventDiffs": events,
        "stateDiff": state_diff(*states),
    }
    return response | ({"truncated": True} if in_flight else {})


def event_diffs(events_a: Sequence[Doc], events_b: Sequence[Doc]) -> Iterable[Doc]:
    in_a, in_b = _sequences(events_a), _sequences(events_b)
    for seq, (one, two) in enumerate(zip_longest(events_a, events_b)):
        if one is None:
            yield {"seq": seq, "op": "added", "bEvent": _summary(two)}
        elif two is None:
            yield {"seq": seq, "op": "removed", "aEvent": _summary(one)}
        elif _key(one, in_a) != _key(two, in_b):
            yield {"seq": seq, "op": "changed", "aEvent": _summary(one), "bEvent": _summary(two)}


def state_diff(a: Doc, b: Doc) -> Doc:
    """Member by member; of objects on both sides, only the members that differ."""
    found: Doc = {}
    for name in sorted(a.keys() | b.keys()):
        one, two = a.get(name), b.get(name)
        if is_object(one) and is_object(two):
            if inner := _different(one, two):
                found[name] = {
                    "a": {k: one[k] for k in inner if k in one},
                    "b": {k: two[k] for k in inner if k in two},
                }
        elif (name in a) != (name in b) or not _equal(one, two):
            found[name] = ({"a": one} if name in a else {}) | ({"b": two} if name in b else {})
    return found


def _different(left: Doc, right: Doc) -> list[str]:
    """The names of members that differ."""
    return [
        name
        for name in sorted(left.keys() | right.keys())
        if (name in left) != (name in right) or not _equal(left[name], right[name])
    ]


def _sequences(log: Sequence[Doc]) -> dict[str, int]:
    return {event["eventId"]: at for at, event in enumerate(log) if "eventId" in event}


def _key(event: Doc, sequences: dict[str, int]) -> tuple[str, str]:
    payload = event["payload"]
    if is_object(payload):
        payload = _with_sequence(payload, "target", sequences)
        if is_object(data := payload.get("data")):
            payload = {**payload, "data": _with_sequence(data, "artifactId", sequences)}
    return event["type"], canonical(payload)


def _with_sequence(value: Doc, member: str, sequences: dict[str, int]) -> Doc:
    """With the sequence number of an event instead of its id."""
    id = value.get(member)
    return {**value, member: {"event": sequences[id]}} if isinstance(id, str) and id in sequences else value


def _equal(left: Any, right: Any) -> bool:
    return canonical(left) == canonical(right)


def _summary(event: Doc) -> Doc:
    return {"type": event["type"], "payload": event["payload"]}
