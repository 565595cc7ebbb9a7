"""What msgspec has against a value, in our words: its place, what was expected, and of a choice what there is to choose from."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from math import isinf
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, UnsetType, inspect

from assay.errors import Problem
from assay.protocol.json_types import is_list, is_object, shown

_CHOICE = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field ")
_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_SHOWN = 40  # characters of a value that is none of them
_MOST = 1_000  # problems of one value
_BEYOND = ("Number out of range", "Integer value out of range")  # what msgspec calls it
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|(-?\d[\d.eE+-]*+)', re.DOTALL)  # of JSON: a string, or a number
_READ = 1 << 20  # bytes in which a number is looked for
_DIGITS = 4_300  # of a whole number, as Python reads it
_NUMBER = f"expected a number within ±1.8e308 and of at most {_DIGITS} digits"
Hook = Callable[[type, Any], Any] | None  # what msgspec calls for types of our own


def place_in(wrong: msgspec.ValidationError) -> str:
    """msgspec's own place, `$.arguments`, as ours: `.arguments`."""
    return _cut(wrong)[1].rpartition("$")[2]


def message_of(wrong: msgspec.ValidationError, kind: Any = Any, *, got: bool = True) -> str:
    """
    Without its place. `kind` is what the value was to be; where it may be a secret, `got` is left out.

        expected one of POST, GET, got 'PUT'
    """
    message, place = _cut(wrong)
    if message in _BEYOND:
        return f"{_NUMBER}, got one beyond it"
    if (choice := _CHOICE.fullmatch(message)) is None:
        said = message.replace("Expected", "expected").replace("Object", "an object")
        members = _members(kind, place) if _UNKNOWN.match(message) else ()
        return f"{said}; it may have {', '.join(members)}" if members else said
    there = _choices(kind, place)
    wanted = f"expected one of {', '.join(there)}" if there else "expected another value"
    return f"{wanted}, got {_shortened(choice[1])}" if got else wanted


def is_beyond(wrong: Exception) -> bool:
    """Whether a number was too large to be read."""
    return isinstance(wrong, msgspec.ValidationError) and _cut(wrong)[0] in _BEYOND


def beyond(text: bytes) -> str:
    """The message for JSON that holds a number too large to be read: what was expected, and that number."""
    for found in _TOKEN.finditer(text[:_READ]):
        if found[1] and _too_large(found[1]):
            return f"{_NUMBER}, got {_shortened(found[1].decode())}"
    return f"{_NUMBER}, got one beyond it"


def _too_large(number: bytes) -> bool:
    digits = number.removeprefix(b"-")
    if digits.isdigit():
        return len(digits) > _DIGITS
    try:
        return isinf(float(number))
    except ValueError:  # it is not whole
        return False


def problems_in(value: Any, kind: Any, place: str = "", hook: Hook = None) -> list[Problem]:
    """
    Everything that keeps a JSON value from being of this type, each with its own place; msgspec stops at the first.

    Only for what may be shown again: it says what came.
    """
    return list(islice(_misfits(value, kind, place, hook), _MOST))


def _misfits(value: Any, kind: Any, place: str, hook: Hook) -> Iterator[Problem]:
    if _core(kind) is Raw:
        return
    try:
        msgspec.convert(value, kind, dec_hook=hook)
    except msgspec.ValidationError as wrong:
        first = Problem(_joined(place, place_in(wrong)), message_of(wrong, kind))
    else:
        return
    some = False
    for problem in _inner(value, _core(kind), place, hook):
        some = True
        yield problem
    if some or "`raw`" in first.message:  # nothing that was decoded is a Raw
        return
    came = first.place == place and ", got" not in first.message
    yield Problem(first.place, f"{first.message}, got {shown(value)}") if came else first


def _inner(value: Any, kind: Any, place: str, hook: Hook) -> Iterator[Problem]:
    """What is wrong with the members of an object, or with the items of a list."""
    if is_list(value) and get_origin(kind) in (list, tuple):
        item = get_args(kind)[0]
        for at, one in enumerate(value):
            yield from _misfits(one, item, f"{place}[{at}]", hook)
    elif is_object(value) and isinstance(kind, type) and issubclass(kind, Struct):
        yield from _members_of(value, kind, place, hook)


def _members_of(value: dict[str, Any], kind: type[Struct], place: str, hook: Hook) -> Iterator[Problem]:
    config = kind.__struct_config__
    if config.tag is not None:
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    if config.forbid_unknown_fields:
        for name in value:
            if name not in fields:
                said = f"no such member; there are {', '.join(fields)}"
                yield Problem(_joined(place, f".{name[:100]}"), said)
    for name, field in fields.items():
        if name in value:
            yield from _misfits(value[name], field.type, _joined(place, f".{name}"), hook)
        elif field.required:
            yield Problem(_joined(place, f".{name}"), f"expected {_noun(field.type)}, got nothing")


def _joined(place: str, more: str) -> str:
    return place + more if place else more.removeprefix(".")


def _core(kind: Any) -> Any:
    """Without what is said about it, and of what may be absent or null, what it is otherwise, if that is one thing."""
    if get_origin(kind) is Annotated:
        return _core(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        parts = [one for one in get_args(kind) if one not in (UnsetType, type(None))]
        return _core(parts[0]) if len(parts) == 1 else kind
    return kind


def _noun(kind: Any) -> str:
    kind = _core(kind)
    nouns: dict[Any, str] = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}
    nouns |= {list: "a list", tuple: "a list", dict: "an object"}
    return nouns.get(kind, nouns.get(get_origin(kind), "a value"))


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
