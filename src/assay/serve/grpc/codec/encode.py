"""
From JSON to the wire (decision 2): the bytes of Struct, Value and ListValue.

An int that no double has is refused, and so is what is nested deeper than clients read: neither is changed.
"""

from struct import Struct
from typing import Any

from assay.errors import NotRepresentable
from assay.protocol.json_types import is_list, is_object
from assay.serve.grpc.codec.decode import EXACT

DEEPEST = 30  # objects and lists inside one another: three messages each, and clients read a hundred
_double = Struct("<d").pack
_TRUE, _FALSE, _NULL = b"\x20\x01", b"\x20\x00", b"\x08\x00"


_ENDS = [bytes((low,)) for low in range(128)] + [  # seven bits, or two times seven, after which no more come
    bytes((low | 128, high)) for high in range(1, 128) for low in range(128)
]
_GO_ON = [
    bytes((low | 128, high | 128)) for high in range(128) for low in range(128)
]  # and after which more do


def varint(number: int) -> bytes:
    """A varint."""
    if number < 1 << 14:
        return _ENDS[number]
    if number < 1 << 28:
        return _GO_ON[number & 0x3FFF] + _ENDS[number >> 14]
    return _GO_ON[number & 0x3FFF] + varint(number >> 14)


def length_delimited(tag: bytes, body: bytes) -> bytes:
    """A field that is a text or a message."""
    return b"".join((tag, varint(len(body)), body))


def varint_field(tag: bytes, number: int) -> bytes:
    """A field that is a number above 0; 0 is not written."""
    return tag + varint(number) if number else b""


def struct(document: dict[str, Any], deep: int = 1) -> bytes:
    """A google.protobuf.Struct."""
    return b"".join([map_entry(key.encode(), value(one, deep)) for key, one in document.items()])


def map_entry(key: bytes, packed: bytes) -> bytes:
    """One member of a Struct."""
    inner = b"".join((b"\x0a", varint(len(key)), key, b"\x12", varint(len(packed)), packed))
    return b"".join((b"\x0a", varint(len(inner)), inner))


def value(said: Any, deep: int = 0) -> bytes:
    """A google.protobuf.Value, inside so many others."""
    if type(said) is str:
        return text(said.encode())
    if said is True:
        return _TRUE
    if said is False:
        return _FALSE
    if said is None:
        return _NULL
    if type(said) is int:
        if not -EXACT <= said <= EXACT:
            raise NotRepresentable(
                f"the number {said} does not fit a double, and gRPC has no other; REST says it"
            )
        return b"\x11" + _double(said)
    if type(said) is float:
        return b"\x11" + _double(said)
    if deep >= DEEPEST:
        raise NotRepresentable(f"nested more than {DEEPEST} deep, which is too deep for gRPC; REST says it")
    if is_object(said):
        return length_delimited(b"\x2a", struct(said, deep + 1))
    assert is_list(said)
    return length_delimited(
        b"\x32", b"".join([length_delimited(b"\x0a", value(one, deep + 1)) for one in said])
    )


def text(said: bytes) -> bytes:
    """A Value that is a text, in UTF-8."""
    return b"".join((b"\x1a", varint(len(said)), said))
