"""The members of a row: a dot in the name of a column leads into an object."""

from typing import Any

from assay.protocol.json_types import is_object

ABSENT: Any = object()


def find_member(row: dict[str, Any], column: str) -> Any:
    """The value of a column. A dot leads into an object."""
    inside, name = _holder(row, column)
    return inside.get(name, ABSENT) if is_object(inside) else ABSENT


def remove_member(row: dict[str, Any], column: str) -> None:
    inside, name = _holder(row, column)
    if is_object(inside):
        inside.pop(name, None)


def _holder(row: dict[str, Any], column: str) -> tuple[Any, str]:
    """The object that has a column as a member, and the name of the member."""
    if column in row:
        return row, column
    *outer, last = column.split(".")
    inside: Any = row
    for name in outer:
        inside = inside.get(name) if is_object(inside) else None
    return inside, last


def rename_member(members: dict[str, Any], name: str, prefix: str) -> None:
    """Keep a member under another name, such as `case_expected`, because a column that was named takes its place."""
    if name not in members:
        return
    other = f"{prefix}_{name}"
    while other in members:
        other = f"{prefix}_{other}"
    members[other] = members.pop(name)
