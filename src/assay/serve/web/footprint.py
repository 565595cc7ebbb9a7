"""What a text takes in memory once it is decoded, estimated without decoding it (decision 0038)."""

from assay.errors import InvalidRequest, Problem

STRUCTURE = b'[{",'  # what a list, an object, a string and a further value begin with, or end with
EACH = 64  # bytes for each of these: an object of one member has three
FIELD = b"\n"  # what each value in a list and each member of an object begins with in protobuf
EACH_FIELD = 160
SMALL = 16 * 1024  # bytes that are not worth a count
MOST = 48  # bytes that a byte of a small text may become
SLICE = 1 << 20  # bytes that are counted in one go
_WIDE = (
    b"\xf0",
    b"\xf1",
    b"\xf2",
    b"\xf3",
    b"\xf4",
    b"\\ud",
    b"\\uD",
)  # what is beyond the first 65,536 characters


class Footprint:
    """Of a JSON text that comes in parts."""

    __slots__ = ("_size", "_width")

    def __init__(self) -> None:
        self._size, self._width = 0, 1

    def more(self, part: bytes) -> int:
        """So many bytes more with this part: the text itself, its characters, and the values it has."""
        width = max(self._width, width_of(part))
        grown = len(part) * (1 + width) + self._size * (width - self._width) + EACH * elements(part)
        self._size += len(part)
        self._width = width
        return grown


def elements(text: bytes) -> int:
    """How many brackets, quotes and commas a JSON text has: at least as many as it has values."""
    return len(text) - len(text.translate(None, STRUCTURE))


def width_of(text: bytes) -> int:
    """Bytes of a character, in a string that has any of these: one beyond the usual makes all of them as wide."""
    if text.isascii() and b"\\u" not in text:
        return 1
    return 4 if any(mark in text for mark in _WIDE) else 2


def footprint(text: bytes) -> int:
    """Of a JSON text that is whole."""
    return MOST * len(text) if len(text) <= SMALL else Footprint().more(text)


def message_footprint(data: bytes) -> int:
    """Of a message of protobuf. A slice at a time: other threads have their turn in between."""
    if len(data) <= SMALL:
        return MOST * len(data)
    fields = sum(data[at : at + SLICE].count(FIELD) for at in range(0, len(data), SLICE))
    return 2 * len(data) + EACH_FIELD * fields


def bounded(text: bytes, most: int, place: str = "") -> None:
    """What has more elements is not decoded: that would keep all others from Python until it is done."""
    if len(text) > most and elements(text) > most:
        said = f"more than {most} brackets, quotes and commas, which is the limit (ASSAY_MAX_ELEMENTS)"
        raise InvalidRequest(Problem(place, said))
