"""Estimates how much memory a text takes once it is decoded, without decoding it (ADR-0038)."""

from assay.protocol.duplicates import elements

EACH = 64  # bytes of memory for each element; an object of one member has three
FIELD = b"\n"  # in protobuf, the first byte of each list value and each object member
EACH_FIELD = 160
SMALL = 16 * 1024  # bytes; a smaller text is not worth counting
MAX_FACTOR = 48  # bytes of memory that one byte of a small text may need
SLICE = 1 << 20  # bytes counted in one call
_WIDE = (
    b"\xf0",
    b"\xf1",
    b"\xf2",
    b"\xf3",
    b"\xf4",
    b"\\ud",
    b"\\uD",
)  # marks of characters beyond the first 65,536


class Footprint:
    """The estimate for a JSON text that arrives in parts."""

    __slots__ = ("_size", "_width")

    def __init__(self) -> None:
        self._size, self._width = 0, 1

    def add(self, part: bytes) -> int:
        """How many more bytes this part takes: the text itself, its characters and its values."""
        width = max(self._width, width_of(part))
        grown = len(part) * (1 + width) + self._size * (width - self._width) + EACH * elements(part)
        self._size += len(part)
        self._width = width
        return grown


def width_of(text: bytes) -> int:
    """Bytes per character of a Python string with these characters: one wide character makes all of them wide."""
    if text.isascii() and b"\\u" not in text:
        return 1
    return 4 if any(mark in text for mark in _WIDE) else 2


def footprint(text: bytes) -> int:
    """The estimate for a whole JSON text."""
    return MAX_FACTOR * len(text) if len(text) <= SMALL else Footprint().add(text)


def message_footprint(data: bytes) -> int:
    """The estimate for a protobuf message. It counts slice by slice, so that other threads get the GIL in between."""
    if len(data) <= SMALL:
        return MAX_FACTOR * len(data)
    fields = sum(data[at : at + SLICE].count(FIELD) for at in range(0, len(data), SLICE))
    return 2 * len(data) + EACH_FIELD * fields
