"""What JSON has: objects and lists, told apart so that a type checker believes it."""

from collections.abc import Mapping
from typing import Any, TypeGuard

JSON = dict[str, Any]


def is_object(value: Any) -> TypeGuard[JSON]:
    return isinstance(value, dict)


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
