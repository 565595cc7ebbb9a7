"""Two runs side by side: a pure function of their logs, aligned by sequence (contract §9.1)."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from assay.protocol.canonical import canonical
from assay.protocol.json_types import is_object

Doc = dict[str, Any]


def diff(
    a: str, b: str, of_a: Sequence[Doc], of_b: Sequence[Doc], states: tuple[Doc, Doc], *, in_flight: bool
) -> Doc:
    """
    A RunDiffResponse: where they part, every event that differs, and what came out different.

    An event is its sequence, type and payload; ids, causes and clocks are not compared, and an event of its own run that a
    payload points at is compared by its place. `added` is only in b, `removed` only in a.
    """
    events = list(event_diffs(of_a, of_b))
    response: Doc = {
        "a": a,
        "b": b,
        "divergedAtSeq": events[0]["seq"] if events else None,
        "eventDiffs": events,
        "stateDiff": state_diff(*states),
    }
    return response | ({"truncated": True} if in_flight else {})


def event_diffs(of_a: Sequence[Doc], of_b: Sequence[Doc]) -> Iterable[Doc]:
    in_a, in_b = _places(of_a), _places(of_b)
    for seq, (one, two) in enumerate(zip_longest(of_a, of_b)):
        if one is None:
            yield {"seq": seq, "op": "added", "bEvent": _shown(two)}
        elif two is None:
            yield {"seq": seq, "op": "removed", "aEvent": _shown(one)}
        elif _key(one, in_a) != _key(two, in_b):
            yield {"seq": seq, "op": "changed", "aEvent": _shown(one), "bEvent": _shown(two)}


def state_diff(a: Doc, b: Doc) -> Doc:
    """Member by member; of objects on both sides, only the members that differ."""
    found: Doc = {}
    for name in sorted(a.keys() | b.keys()):
        one, two = a.get(name), b.get(name)
        if is_object(one) and is_object(two):
            if inner := _unlike(one, two):
                found[name] = {
                    "a": {k: one[k] for k in inner if k in one},
                    "b": {k: two[k] for k in inner if k in two},
                }
        elif (name in a) != (name in b) or not _same(one, two):
            found[name] = ({"a": one} if name in a else {}) | ({"b": two} if name in b else {})
    return found


def _unlike(one: Doc, two: Doc) -> list[str]:
    """The members of two objects that are not the same in both."""
    return [
        name
        for name in sorted(one.keys() | two.keys())
        if (name in one) != (name in two) or not _same(one[name], two[name])
    ]


def _places(log: Sequence[Doc]) -> dict[str, int]:
    return {event["eventId"]: at for at, event in enumerate(log) if "eventId" in event}


def _key(event: Doc, places: dict[str, int]) -> tuple[str, str]:
    payload = event["payload"]
    if is_object(payload):
        payload = _placed(payload, "target", places)
        if is_object(data := payload.get("data")):
            payload = {**payload, "data": _placed(data, "artifactId", places)}
    return event["type"], canonical(payload)


def _placed(value: Doc, member: str, places: dict[str, int]) -> Doc:
    """With the place of an event instead of its id."""
    said = value.get(member)
    return {**value, member: {"event": places[said]}} if isinstance(said, str) and said in places else value


def _same(one: Any, two: Any) -> bool:
    return canonical(one) == canonical(two)


def _shown(event: Doc) -> Doc:
    return {"type": event["type"], "payload": event["payload"]}
