"""
Members that occur twice in an object of a JSON text. A decoder keeps the last one and says nothing.

The text is compared with what its decoded value encodes to. Most texts are equal to it, or have as many colons as it
has: no member was dropped. Only another text is read again, member by member.
"""

import json
from collections.abc import Collection
from typing import Any

import msgspec

from assay.errors import InvalidRequest, Problem
from assay.protocol.json_types import is_list

TWICE = "this member is there twice, so its value is not clear: keep one"
BACKSLASH = ord("\\")
_encode_into = msgspec.json.Encoder().encode_into
_decode = msgspec.json.Decoder().decode


def duplicate_member(text: bytes, value: Any, path: str = "") -> str | None:
    """
    The path of the first member that an object of this text has twice, such as `output.value.score`; None if there is
    none.

    `value`: the text, decoded. `path`: where the text is. Raises RecursionError, as a decoder does, if the text is
    nested too deeply to be read again.
    """
    encoded = bytearray(len(text))
    _encode_into(value, encoded)
    if encoded == text:  # pyright: ignore[reportUnnecessaryComparison]
        return None
    # A colon follows the name of a member or is in a string. Strings keep their colons. A dropped member loses one.
    if text.count(b":") == encoded.count(b":") and (BACKSLASH not in text or b"\\u003" not in text):
        return None
    found = _path(json.loads(text.decode(), object_pairs_hook=_Members))
    return None if found is None else (path + found).removeprefix(".")


def duplicate_in(text: bytes, path: str = "") -> str | None:
    """`duplicate_member` of a text that is not decoded yet. Raises what a decoder raises."""
    return duplicate_member(text, _decode(text), path)


def duplicate_around(text: bytes, parts: Collection[str]) -> str | None:
    """`duplicate_in` of a large object. It does not look into its members `parts`: the caller reads them one by one."""
    names = set[str]()
    for name, member in _outer(text).items():
        if name.text in names:
            return name.text
        names.add(name.text)
        if name.text not in parts and (inner := duplicate_in(bytes(member), name.text)) is not None:
            return inner
    return None


class _Name:
    """The name of a member. No two are equal, so a decoder drops none of them."""

    def __init__(self, text: str) -> None:
        self.text = text


_outer = msgspec.json.Decoder(dict[_Name, msgspec.Raw], dec_hook=lambda _, text: _Name(text)).decode


class _Members(list[tuple[str, Any]]):
    """The members of an object, in order."""


def _path(value: Any) -> str | None:
    """The path of the first member that is there twice: `.value.scores[2].name`."""
    if isinstance(value, _Members):
        names = set[str]()
        for name, member in value:
            if name in names:
                return f".{name}"
            names.add(name)
            if (inner := _path(member)) is not None:
                return f".{name}{inner}"
    elif is_list(value):
        for at, item in enumerate(value):
            if (inner := _path(item)) is not None:
                return f"[{at}]{inner}"
    return None


# The number of values in a JSON text, without decoding it.

STRUCTURE = b'[{",'  # each list, object, string and further value has at least one of these bytes


def elements(text: bytes) -> int:
    """The number of brackets, quotes and commas in a JSON text: an upper bound for its number of values."""
    return len(text) - len(text.translate(None, STRUCTURE))


def check_elements(text: bytes, limit: int, path: str = "", setting: str = "ASSAY_MAX_ELEMENTS") -> None:
    """Refuse a text with more than `limit` elements: decoding it would hold the GIL for too long."""
    if len(text) > limit and elements(text) > limit:
        where = f" ({setting})" if setting else ""
        message = f"more than {limit} brackets, quotes and commas, which is the limit{where}"
        raise InvalidRequest(Problem(path, message))
