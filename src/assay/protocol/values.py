"""What JSON has: objects and lists, told apart so that a type checker believes it."""

from collections.abc import Mapping
from typing import Any, TypeGuard

JSON = dict[str, Any]


def is_object(value: Any) -> TypeGuard[JSON]:
    return isinstance(value, dict)


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return type(value) is dict or isinstance(value, Mapping)  # the first is all but always enough, and quick


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_finite(value: Any) -> bool:
    """Whether every float in it is a number that JSON can write; however deep, without recursion, also of what holds itself."""
    stack: list[Any] = [value]
    seen: dict[int, Any] = {}  # kept, so that no other takes its number
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


def is_deeper(document: Any, most: int) -> bool:
    """Whether more than so many objects and lists stand inside one another, in what was read from JSON."""
    level: list[Any] = [document] if is_object(document) or is_list(document) else []
    for _ in range(most):
        inner = (one.values() if is_object(one) else one for one in level)
        level = [one for some in inner for one in some if is_object(one) or is_list(one)]
        if not level:
            return False
    return bool(level)


def base_of(value: Any) -> Any:
    """For an encoder: the text or number that a value of a kind of its own is."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int):
        return int.__int__(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
