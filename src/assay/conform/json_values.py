"""Values of JSON that a host sent: their types, whether they are equal, and how a message shows them."""

from typing import Any, TypeGuard

import msgspec

Document = dict[str, Any]
LONGEST = 80  # characters of a value in a message


def is_object(value: Any) -> TypeGuard[Document]:
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def list_in(value: Any, name: str) -> list[Any]:
    """The list under this name, or an empty one."""
    found = value.get(name) if is_object(value) else None
    return found if is_list(found) else []


def object_in(value: Any, name: str) -> Document:
    """The object under this name, or an empty one."""
    found = value.get(name) if is_object(value) else None
    return found if is_object(found) else {}


def objects_in(value: Any, name: str) -> list[Document]:
    """The elements of the list under this name; an empty object for one that is something else."""
    return [one if is_object(one) else {} for one in list_in(value, name)]


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON. true is not 1; 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_object(left) and is_object(right):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if is_list(left) and is_list(right):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def kind_of(value: Any) -> str:
    """The JSON type of a value, with its article."""
    if value is None:
        return "null"
    kinds: list[tuple[type, str]] = [
        (str, "a text"),
        (dict, "an object"),
        (list, "a list"),
        (bool, "a boolean"),
    ]
    return next((name for kind, name in kinds if isinstance(value, kind)), "a number")


def shown(value: Any, longest: int | None = LONGEST) -> str:
    """The JSON of a value, cut."""
    text = msgspec.json.encode(value).decode(errors="replace")
    return text if longest is None or len(text) <= longest else f"{text[: longest - 3]}..."
