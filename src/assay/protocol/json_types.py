"""Type guards and small helpers for JSON values."""

import sys
from collections.abc import Mapping
from typing import Any, TypeGuard

JSON = dict[str, Any]
# an integer with at most as many digits is in the range of a double
LARGEST_DIGITS = sys.float_info.max_10_exp
BEYOND_DOUBLES = f"a number beyond {sys.float_info.max:.1e}, the range of a score"


def is_object(value: Any) -> TypeGuard[JSON]:
    return isinstance(value, dict)


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    # the first test is faster and almost always sufficient
    return type(value) is dict or isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_finite(value: Any) -> bool:
    """Whether every float is finite, as in JSON. It does not recurse, and accepts values that contain themselves."""
    stack: list[Any] = [value]
    seen: dict[int, Any] = {}  # references, so that no id is reused
    while stack:
        part = stack.pop()
        if isinstance(part, float):
            if part - part != 0:
                return False
        elif id(part) in seen:
            continue
        elif is_mapping(part):
            seen[id(part)] = part
            stack.extend(part.values())
        elif is_list(part) or isinstance(part, tuple):
            seen[id(part)] = part  # pyright: ignore[reportUnknownArgumentType]
            stack.extend(part)  # pyright: ignore[reportUnknownArgumentType]
    return True


def beyond_doubles(members: Mapping[str, Any]) -> str | None:
    """The name of a member that is an integer beyond the range of a double, which no mean can count; or None."""
    return next(
        (name for name, one in members.items() if isinstance(one, int) and abs(one) > sys.float_info.max),
        None,
    )


def preview(value: Any, limit: int = 40) -> str:
    """A value for a message: a short text or number as it is, the kind of anything else."""
    if isinstance(value, str):
        return repr(value) if len(value) <= limit else f"{value[:limit]!r}…"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return repr(value) if value.bit_length() <= 128 else "a number of many digits"
    return f"a list of {len(value)}" if is_list(value) else kind_of(value)


def kind_of(value: Any) -> str:
    names: dict[Any, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return "null" if value is None else names.get(type(value), type(value).__name__)


def depth(document: Any) -> int:
    """The nesting depth of objects and lists, without recursion."""
    level: list[Any] = [document] if isinstance(document, _CONTAINERS) else []
    deep = 0
    while level:
        deep += 1
        level = _children(level)
    return deep


def is_deeper(document: Any, limit: int) -> bool:
    """Whether the nesting depth of a decoded JSON value exceeds the limit."""
    level: list[Any] = [document] if isinstance(document, _CONTAINERS) else []
    for _ in range(limit):
        level = _children(level)
        if not level:
            return False
    return bool(level)


_CONTAINERS: Any = (dict, list)


def _children(level: list[Any]) -> list[Any]:
    """The objects and lists one level deeper. Written for speed: a request may contain a million of them."""
    return [
        part
        for whole in level
        for part in (whole.values() if isinstance(whole, dict) else whole)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(part, _CONTAINERS)
    ]


def base_of(value: Any) -> Any:
    """For an encoder: a value of a str, float or int subclass as its base type."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int):
        return int.__int__(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
