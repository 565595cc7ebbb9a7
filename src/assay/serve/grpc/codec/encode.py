"""
Encodes JSON as protobuf (FEP-2): the bytes of Struct, Value and ListValue.

An int that is not a double is refused, and so is a value nested deeper than clients can read: neither is altered.
"""

from struct import Struct
from typing import Any

from assay.errors import NotRepresentable
from assay.protocol.json_types import is_list, is_object
from assay.serve.grpc.codec.decode import EXACT

DEEPEST = 30  # levels of objects and lists; each takes three messages, and clients read a hundred
_double = Struct("<d").pack
_TRUE, _FALSE, _NULL = b"\x20\x01", b"\x20\x00", b"\x08\x00"


_SHORT = [bytes((low,)) for low in range(128)] + [  # varints of one and two bytes
    bytes((low | 128, high)) for high in range(1, 128) for low in range(128)
]
_GO_ON = [
    bytes((low | 128, high | 128)) for high in range(128) for low in range(128)
]  # the first two bytes of a longer varint


def varint(number: int) -> bytes:
    """The varint encoding of a number."""
    if number < 1 << 14:
        return _SHORT[number]
    if number < 1 << 28:
        return _GO_ON[number & 0x3FFF] + _SHORT[number >> 14]
    return _GO_ON[number & 0x3FFF] + varint(number >> 14)


def length_delimited(tag: bytes, body: bytes) -> bytes:
    """A field with a text or a message."""
    return b"".join((tag, varint(len(body)), body))


def varint_field(tag: bytes, number: int) -> bytes:
    """A field with a number; 0 is the default and is not encoded."""
    return tag + varint(number) if number else b""


def struct(document: dict[str, Any], depth: int = 1) -> bytes:
    """A google.protobuf.Struct."""
    return b"".join([map_entry(key.encode(), value(item, depth)) for key, item in document.items()])


def map_entry(key: bytes, value: bytes) -> bytes:
    """One member of a Struct."""
    inner = b"".join((b"\x0a", varint(len(key)), key, b"\x12", varint(len(value)), value))
    return b"".join((b"\x0a", varint(len(inner)), inner))


def value(document: Any, depth: int = 0) -> bytes:
    """A google.protobuf.Value, `depth` levels inside others."""
    if type(document) is str:
        return text(document.encode())
    if document is True:
        return _TRUE
    if document is False:
        return _FALSE
    if document is None:
        return _NULL
    if type(document) is int:
        if not -EXACT <= document <= EXACT:
            raise NotRepresentable(
                f"the number {document} is not a double, and gRPC has no other numbers; use REST"
            )
        return b"\x11" + _double(document)
    if type(document) is float:
        return b"\x11" + _double(document)
    if depth >= DEEPEST:
        raise NotRepresentable(
            f"nested more than {DEEPEST} levels deep, which is too deep for gRPC; use REST"
        )
    if is_object(document):
        return length_delimited(b"\x2a", struct(document, depth + 1))
    assert is_list(document)
    return length_delimited(
        b"\x32", b"".join([length_delimited(b"\x0a", value(item, depth + 1)) for item in document])
    )


def text(utf8: bytes) -> bytes:
    """A Value that is a text, in UTF-8."""
    return b"".join((b"\x1a", varint(len(utf8)), utf8))
