"""
Traces the layout of one message (FEP-2) and turns it into a function that reads others of the same shape.

Bytes that are the same in all of them, and values of fixed length, are unpacked in one step. A text of variable length
makes the messages around it variable too; each has its length in a prefix (`length_prefixes.py`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from assay.serve.grpc.codec import decode as unpacked
from assay.serve.grpc.codec.decode import Span, fields
from assay.serve.grpc.codec.encode import length_delimited
from assay.serve.grpc.codec.length_prefixes import Steps, prefix_of
from assay.serve.grpc.codec.shape_source import (
    End,
    Leaf,
    LengthPrefix,
    Mark,
    Same,
    SourceLines,
    SourcePart,
    TextField,
)

_EXACT = float(unpacked.EXACT)  # comparing a float with a float is faster
_HEADS, _PIECES = 16, 512  # limits of a shape
Made = tuple[dict[str, Any], bytes]  # a document, and its part of every check result
Read = Callable[[bytes, int, int], Made | None]


class Shape(NamedTuple):
    """The layout of such messages, and the function that reads them; it returns None for another message."""

    kind: tuple[SourcePart, ...]
    lengths: list[int]
    free: set[int]
    depth: int
    read: Read


class Trace:
    """
    The layout of one message, member by member. Texts with an index in `free` have variable length; None: all texts do.
    """

    def __init__(self, data: bytes, span: Span, free: set[int] | None = None) -> None:
        self.span, self.free = span, free
        self.lengths: list[int] = []
        self.depth = self._level = 1
        self.pieces: list[SourcePart] = []
        self._data = data
        self._sizes: dict[int, int] = {}  # of the prefixes in this message
        self._document, self._metadata = "", ""

    @property
    def is_small(self) -> bool:
        """Whether the generated function stays small enough to be worth it."""
        return len(self._sizes) <= _HEADS and len(self.pieces) <= _PIECES

    def case(self, start: int, end: int) -> None:
        names = {0x0A: "id", 0x12: "input", 0x1A: "expected", 0x22: "metadata"}
        members = self._fields(names, start, end)
        about = "data[at:after_id]" if "id" in members else "b''"
        if "metadata" in members:
            about += " + b'\\x12' + data[before_metadata + 1 : end]"
        self._document, self._metadata = _literal({"id": "''"} | members), about

    def output(self, start: int, end: int) -> None:
        members = self._fields({0x0A: "value", 0x12: "metadata", 0x1A: "id"}, start, end)
        about = "b'\\x1a' + data[before_metadata + 1 : after_metadata]" if "metadata" in members else "b''"
        self._document, self._metadata = _literal(members), about

    def _fields(self, names: dict[int, str], offset: int, end: int) -> dict[str, str]:
        members: dict[str, str] = {}
        for tag, start, stop in fields(self._data, offset, end):
            name = names[tag]
            how = {"id": self._text, "metadata": self._struct}.get(name, self._oneof)
            self.pieces.append(Mark(f"before_{name}"))
            members[name] = how(start, stop, ((bytes((tag,)), b""),))[0]
            self.pieces.append(Mark(f"after_{name}"))
        return members

    def shape(self, kind: tuple[SourcePart, ...]) -> Shape:
        """The shape of the traced message."""
        lines = SourceLines(self._metadata, self._sizes)
        for piece in self.pieces:
            lines.add(piece)
        source = lines.source(self._document, self._metadata)
        exec(source, lines.scope)  # noqa: S102  # the source is generated here; names of members are literals
        return Shape(kind, self.lengths, self.free or set(), self.depth, lines.scope["read"])

    def _oneof(self, offset: int, end: int, steps: Steps) -> tuple[str, int | None]:
        """An InputValue or an OutputValue."""
        ((kind, start, stop),) = fields(self._data, offset, end)
        how = {unpacked.STRING: self._text, unpacked.OBJECT: self._struct}.get(kind, self._value)
        return how(start, stop, (*steps, (bytes((kind,)), b"")))

    def _struct(self, offset: int, end: int, steps: Steps) -> tuple[str, int | None]:
        members: dict[str, str] = {}

        def member(start: int, stop: int) -> int | None:
            (_, first, last), (_, one, two) = fields(self._data, start, stop)
            name = self._data[first:last]
            entry = (b"\x0a", length_delimited(b"\x0a", name)), (b"\x12", b"")
            members[name.decode()], long = self._value(one, two, entry)
            return long

        long = self._members(offset, end, steps, member)
        return _literal(members), long

    def _list(self, offset: int, end: int, steps: Steps) -> tuple[str, int | None]:
        members: list[str] = []

        def item(start: int, stop: int) -> int | None:
            value, long = self._value(start, stop, ((b"\x0a", b""),))
            members.append(value)
            return long

        long = self._members(offset, end, steps, item)
        return f"[{', '.join(members)}]", long

    def _members(
        self, offset: int, end: int, steps: Steps, read_member: Callable[[int, int], int | None]
    ) -> int | None:
        """An object or a list; its length with its prefix, or None if that varies."""
        self._level += 1
        self.depth = max(self.depth, self._level)
        number = self._reserve()
        sizes = [read_member(start, stop) for _, start, stop in fields(self._data, offset, end)]
        self._level -= 1
        fixed = [one for one in sizes if one is not None]
        if len(fixed) < len(sizes):
            self._add_prefix(number, steps, end - offset)
            self.pieces.append(End(number))
            return None
        head = prefix_of(steps, sum(fixed))
        self.pieces[number] = Same(head)
        return len(head) + sum(fixed)

    def _value(self, offset: int, end: int, steps: Steps) -> tuple[str, int | None]:
        kind = self._data[offset] if offset < end else unpacked.NULL
        if kind in (unpacked.NULL, unpacked.BOOL, unpacked.NUMBER):
            return self._scalar(kind, offset, end, steps)
        ((_, start, stop),) = fields(self._data, offset, end)
        how = {unpacked.TEXT: self._text, unpacked.STRUCT: self._struct}.get(kind, self._list)
        return how(start, stop, (*steps, (bytes((kind,)), b"")))

    def _scalar(self, kind: int, start: int, end: int, steps: Steps) -> tuple[str, int]:
        head = prefix_of(steps, end - start)
        long = len(head) + end - start
        if kind == unpacked.NULL:
            self.pieces.append(Same(head + self._data[start:end]))
            return "None", long
        name = f"x{len(self.pieces)}"
        self.pieces += (
            Same(head + self._data[start : start + 1]),
            Leaf("B" if kind == unpacked.BOOL else "d", name),
        )
        if kind == unpacked.BOOL:
            return f"(False, True)[{name}]", long
        near = f"int({name}) if {name}.is_integer() else {name}"
        return f"(({near}) if {-_EXACT} <= {name} <= {_EXACT} else far({name}))", long

    def _text(self, start: int, stop: int, steps: Steps) -> tuple[str, int | None]:
        which, long = len(self.lengths), stop - start
        name = f"v{which}"
        self.lengths.append(long)
        if self.free is None or which in self.free:
            number = self._reserve()
            self._add_prefix(number, steps, long)
            self.pieces.append(TextField(number, name))
            return f"{name}.decode()", None
        head = prefix_of(steps, long)
        self.pieces += (Same(head), Leaf(f"{long}s", name))
        return f"{name}.decode()", len(head) + long

    def _reserve(self) -> int:
        """Reserve the part of a prefix, which is known only after its content."""
        self.pieces.append(Same(b""))
        return len(self.pieces) - 1

    def _add_prefix(self, number: int, steps: Steps, length: int) -> None:
        self.pieces[number] = LengthPrefix(steps, number)
        self._sizes[number] = len(prefix_of(steps, length))


def _literal(members: dict[str, str]) -> str:
    return f"{{{', '.join(f'{name!r}: {value}' for name, value in members.items())}}}"
