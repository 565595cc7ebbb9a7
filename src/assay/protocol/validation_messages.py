"""Turns msgspec's validation errors into assay's messages: place, expected value, possible choices."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from math import isinf
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, UnsetType, inspect

from assay.errors import MOST_PROBLEMS, Problem
from assay.lazy_pattern import lazy_pattern
from assay.protocol.json_types import is_list, is_object, preview

_CHOICE = lazy_pattern(r"Invalid (?:enum )?value (.*)", re.DOTALL)
_UNKNOWN = lazy_pattern(r"Object contains unknown field ")
_STEP = lazy_pattern(r"\.([^.\[]+)|\[([^\]]*)\]")
_NOUNS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}  # of msgspec's names of types
_TYPES = lazy_pattern(r"(?:(?<=expected )|(?<=, got ))`((?:{0})(?: \| (?:{0}))*)`".format("|".join(_NOUNS)))
_SHOWN = 40  # characters of a value in a message
_OUT_OF_RANGE = ("Number out of range", "Integer value out of range")  # msgspec's messages
# of JSON: a string, or a number
_TOKEN = lazy_pattern(rb'"(?:[^"\\]++|\\.)*+"?|(-?\d[\d.eE+-]*+)', re.DOTALL)
_READ = 1 << 20  # bytes that are searched for the number
_DIGITS = 4_300  # of an integer: Python's limit
_NUMBER = f"expected a number within ±1.8e308 and of at most {_DIGITS} digits"
Hook = Callable[[type, Any], Any] | None  # msgspec's dec_hook for assay's types


def path_in(error: msgspec.ValidationError) -> str:
    """msgspec's place, `$.arguments`, in assay's form: `.arguments`."""
    return _split_message(error)[1].rpartition("$")[2]


def message_of(error: msgspec.ValidationError, kind: Any = Any, *, include_value: bool = True) -> str:
    """
    The message without the place. `kind` is the expected type. Pass `include_value=False` if the value may be a secret.

        expected one of POST, GET, got 'PUT'
    """
    message, place = _split_message(error)
    if message in _OUT_OF_RANGE:
        return f"{_NUMBER}, got one beyond it"
    if (choice := _CHOICE.fullmatch(message)) is None:
        text = message.replace("Expected", "expected").replace("Object", "an object")
        text = _TYPES.sub(_words, text)
        members = _members(kind, place) if _UNKNOWN.match(message) else ()
        return f"{text}; it may have {', '.join(members)}" if members else text
    choices = _choices(kind, place)
    expected = f"expected one of {', '.join(choices)}" if choices else "expected another value"
    return f"{expected}, got {_shorten(choice[1])}" if include_value else expected


def _words(types: re.Match[str]) -> str:
    """`int | float` as `a number`, and `str | null` as `a string or null`."""
    return " or ".join(dict.fromkeys(_NOUNS[name] for name in _names(types[1])))


def _names(types: str) -> list[str]:
    names = types.split(" | ")
    return [name for name in names if name != "int"] if "float" in names else names


def is_number_too_large(error: Exception) -> bool:
    """Whether a number was too large to decode."""
    return isinstance(error, msgspec.ValidationError) and _split_message(error)[0] in _OUT_OF_RANGE


def number_too_large(text: bytes) -> str:
    """The message for JSON with a number that is too large to decode."""
    for token in _TOKEN.finditer(text[:_READ]):
        if token[1] and _too_large(token[1]):
            return f"{_NUMBER}, got {_shorten(token[1].decode())}"
    return f"{_NUMBER}, got one beyond it"


def _too_large(number: bytes) -> bool:
    digits = number.removeprefix(b"-")
    if digits.isdigit():
        return len(digits) > _DIGITS
    try:
        return isinf(float(number))
    except ValueError:  # it is incomplete
        return False


def problems_in(value: Any, kind: Any, path: str = "", hook: Hook = None) -> list[Problem]:
    """
    All problems of a JSON value that is not of this type, with their places. msgspec stops at the first.

    The messages quote the value, so it must not be a secret.
    """
    return list(islice(_problems(value, kind, path, hook), MOST_PROBLEMS))


def _problems(value: Any, kind: Any, path: str, hook: Hook) -> Iterator[Problem]:
    if _core(kind) is Raw:
        return
    try:
        msgspec.convert(value, kind, dec_hook=hook)
    except msgspec.ValidationError as wrong:
        first = Problem(_join(path, path_in(wrong)), message_of(wrong, kind))
    else:
        return
    has_inner = False
    for problem in _inner(value, _core(kind), path, hook):
        has_inner = True
        yield problem
    if has_inner or "`raw`" in first.message:  # a decoded value is never a Raw
        return
    lacks_value = first.place == path and ", got" not in first.message
    yield Problem(first.place, f"{first.message}, got {preview(value)}") if lacks_value else first


def _inner(value: Any, kind: Any, path: str, hook: Hook) -> Iterator[Problem]:
    """The problems of an object's members or a list's items."""
    if is_list(value) and get_origin(kind) in (list, tuple):
        item = get_args(kind)[0]
        for at, part in enumerate(value):
            yield from _problems(part, item, f"{path}[{at}]", hook)
    elif is_object(value) and isinstance(kind, type) and issubclass(kind, Struct):
        yield from _members_of(value, kind, path, hook)


def _members_of(value: dict[str, Any], kind: type[Struct], path: str, hook: Hook) -> Iterator[Problem]:
    config = kind.__struct_config__
    if config.tag is not None:
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    if config.forbid_unknown_fields:
        for name in value:
            if name not in fields:
                message = f"no such member; there are {', '.join(fields)}"
                yield Problem(_join(path, f".{name[:100]}"), message)
    for name, field in fields.items():
        if name in value:
            yield from _problems(value[name], field.type, _join(path, f".{name}"), hook)
        elif field.required:
            yield Problem(_join(path, f".{name}"), f"expected {_noun(field.type)}, got nothing")


def _join(path: str, suffix: str) -> str:
    return path + suffix if path else suffix.removeprefix(".")


def _core(kind: Any) -> Any:
    """The type without annotations, and without null and UNSET if only one type remains."""
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


def _split_message(error: msgspec.ValidationError) -> tuple[str, str]:
    message, at, place = str(error).rpartition(" - at `")
    return (message, place.rstrip("`")) if at else (place, "")


def _shorten(value: str) -> str:
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"


def _members(kind: Any, path: str) -> list[str]:
    """The members of the object at that place, if only one type is possible."""
    objects = [node for node in _types_at(kind, path) if isinstance(node, inspect.StructType)]
    return [field.encode_name for field in objects[0].fields] if len(objects) == 1 else []


def _types_at(kind: Any, path: str) -> list[inspect.Type]:
    """The types possible at that place."""
    nodes = list(_parts(inspect.type_info(kind)))
    for name, _ in _STEP.findall(path.rpartition("$")[2]):
        nodes = [part for node in nodes for inner in _member_types(node, name) for part in _parts(inner)]
    return nodes


def _choices(kind: Any, path: str) -> list[str]:
    """The values of a literal or the tags of a tagged struct; for a union, those of all its parts."""
    nodes = _types_at(kind, path)
    if path.startswith("key`"):
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


def _member_types(node: inspect.Type, name: str) -> Iterator[inspect.Type]:
    """The types of the member of that name; without a name, those of the list's or mapping's items."""
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
