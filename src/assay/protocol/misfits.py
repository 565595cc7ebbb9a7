"""What msgspec has against a value, in our words: its place, what was wanted, and of a choice what there is to choose from."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

_CHOICE = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field ")
_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_SHOWN = 40  # characters of a value that is none of them


def place_in(wrong: msgspec.ValidationError) -> str:
    """msgspec's own place, `$.arguments`, as ours: `.arguments`."""
    return _cut(wrong)[1].rpartition("$")[2]


def message_of(wrong: msgspec.ValidationError, kind: Any = Any, *, got: bool = True) -> str:
    """
    Without its place. `kind` is what the value was to be; where it may be a secret, `got` is left out.

        wanted one of POST, GET, got 'PUT'
    """
    message, place = _cut(wrong)
    if (choice := _CHOICE.fullmatch(message)) is None:
        said = message.replace("Expected", "wanted").replace("Object", "an object")
        members = _members(kind, place) if _UNKNOWN.match(message) else ()
        return f"{said}; it may have {', '.join(members)}" if members else said
    there = _choices(kind, place)
    wanted = f"wanted one of {', '.join(there)}" if there else "wanted another value"
    return f"{wanted}, got {_shortened(choice[1])}" if got else wanted


def _cut(wrong: msgspec.ValidationError) -> tuple[str, str]:
    message, at, place = str(wrong).rpartition(" - at `")
    return (message, place.rstrip("`")) if at else (place, "")


def _shortened(value: str) -> str:
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"


def _members(kind: Any, place: str) -> list[str]:
    """Of an object, where it can be no other."""
    objects = [node for node in _at(kind, place) if isinstance(node, inspect.StructType)]
    return [field.encode_name for field in objects[0].fields] if len(objects) == 1 else []


def _at(kind: Any, place: str) -> list[inspect.Type]:
    """What may stand there."""
    nodes = list(_parts(inspect.type_info(kind)))
    for name, _ in _STEP.findall(place.rpartition("$")[2]):
        nodes = [part for node in nodes for inner in _inside(node, name) for part in _parts(inner)]
    return nodes


def _choices(kind: Any, place: str) -> list[str]:
    """Of a literal its values, of a tagged struct its tags; of a union those of all its parts."""
    nodes = _at(kind, place)
    if place.startswith("key`"):
        nodes = [
            part for node in nodes if isinstance(node, inspect.DictType) for part in _parts(node.key_type)
        ]
    values = (node.values for node in nodes if isinstance(node, inspect.LiteralType))
    return list(dict.fromkeys(str(one) for some in values for one in some))


def _parts(node: inspect.Type) -> Iterator[inspect.Type]:
    match node:
        case inspect.UnionType():
            yield from (part for one in node.types for part in _parts(one))
        case inspect.Metadata():
            yield from _parts(node.type)
        case _:
            yield node


def _inside(node: inspect.Type, name: str) -> Iterator[inspect.Type]:
    """What stands in a member of that name, or, without one, in the list or the mapping."""
    match node:
        case inspect.StructType() if name and name == node.tag_field:
            yield inspect.LiteralType((node.tag,))
        case inspect.StructType():
            yield from (field.type for field in node.fields if field.encode_name == name)
        case inspect.DictType() if not name:
            yield node.value_type
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType() if (
            not name
        ):
            yield node.item_type
        case _:
            return
