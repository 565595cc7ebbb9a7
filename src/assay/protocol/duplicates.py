"""
Members that occur twice in an object of a JSON text. A decoder keeps the last one and says nothing.

The text is compared with what its decoded value encodes to. Only a text that may have a duplicate is read again, member
by member. That takes half the time of decoding. Of a long stream of lines, all in its first part are looked at, and
then one in sixteen: a program that writes a member twice does so in every line.
"""

import json
from typing import Any

import msgspec

from assay.protocol.json_types import is_list

TWICE = "this member is there twice, so its value is not clear"
ALL_UNTIL = 1024 * 1024  # bytes of a stream in which every line is looked at
SKIPPED = 0xF000  # bits of the offset of a line; after that, a line is looked at if they are 0: 4 of 64 KiB
_encode = msgspec.json.Encoder().encode


def is_sampled(end: int) -> bool:
    """
    Whether a line that ends at this offset of a stream is looked at. With several processes the offsets are the same.
    """
    return end <= ALL_UNTIL or not end & SKIPPED


def duplicate_member(text: bytes, value: Any) -> str | None:
    """
    The path of the first member that an object of this text has twice, such as `output.value.score`; None if there is
    none.
    """
    encoded = _encode(value)
    if encoded == text:
        return None
    # a colon is a member, or is in a string, where it may be escaped
    if text.count(b":") == encoded.count(b":") and b"\\u003" not in text:
        return None
    try:
        return _path(json.loads(text, object_pairs_hook=_Members))
    except (ValueError, RecursionError):
        return None  # too deep for this reader: the limit of the depth refuses it


class _Members(list[tuple[str, Any]]):
    """The members of an object, in order."""


def _path(value: Any) -> str | None:
    if isinstance(value, _Members):
        names = set[str]()
        for name, member in value:
            if name in names:
                return name
            names.add(name)
            if (inner := _path(member)) is not None:
                return f"{name}.{inner}" if not inner.startswith("[") else f"{name}{inner}"
    elif is_list(value):
        for at, item in enumerate(value):
            if (inner := _path(item)) is not None:
                return f"[{at}].{inner}" if not inner.startswith("[") else f"[{at}]{inner}"
    return None
