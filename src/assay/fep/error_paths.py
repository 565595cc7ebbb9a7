"""The path of an invalid part inside a value: `.value.scores[2]`."""

from typing import Any

import msgspec

from assay.protocol.json_types import depth, is_finite, is_list, is_mapping

_encode = msgspec.json.Encoder().encode


def join_path(path: str, inner: str) -> str:
    return path + inner if path else inner.removeprefix(".")


def path_of_non_finite(value: Any) -> str | None:
    """The path of the first number that JSON cannot encode, or None."""
    if is_finite(value):
        return None
    path = ""
    while (step := next((one for one in _children(value) if not is_finite(one[1])), None)) is not None:
        path, value = path + step[0], step[1]
    return path


def path_of_unencodable(value: Any) -> str:
    """The path of the innermost part that cannot be encoded as JSON."""
    path = ""
    for _ in range(20):  # a value that contains itself has no innermost part
        step = next((one for one in _children(value) if not _encodable(one[1])), None)
        if step is None:
            break
        path, value = path + step[0], step[1]
    return path


def deepest_path(document: Any, levels: int) -> str:
    """The path, `levels` steps long, to the most deeply nested part."""
    path = ""
    for _ in range(levels):
        parts = _children(document)
        if not parts:
            break
        step, document = max(parts, key=lambda one: depth(one[1]))
        path += step
    return path


def _children(value: Any) -> list[tuple[str, Any]]:
    if is_mapping(value):
        return [(f".{name}", one) for name, one in value.items()]
    if isinstance(value, msgspec.Struct):
        return [(f".{name}", getattr(value, name)) for name in value.__struct_encode_fields__]
    if is_list(value) or isinstance(value, tuple):
        return [(f"[{at}]", one) for at, one in enumerate(value)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return []


def _encodable(value: Any) -> bool:
    try:
        _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    return True
