"""
What lies where in a message that was read (decision 2): as a pattern for others like it, and as what they are.

A pattern finds the values of a message in one go. Where a text may have any length, so have the messages around it, and each
says how long it is in its head: there heads are found too, and each must be what its length asks for.
"""

import re
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from assay.serve.grpc import unpacked
from assay.serve.grpc.packed import size, sized
from assay.serve.grpc.unpacked import Part, parts

_TEXT = rb"([^\x00-\x08\x0b\x0c\x0e-\x1f]*)"  # what texts mostly are made of; no tag of a Value that is a text is among it
_SIZE = rb"[\x80-\xff]{0,2}[\x00-\x7f]"
_EXACT = float(unpacked.EXACT)  # which is quicker to compare a float with
_KEPT = 256  # heads that are remembered
Step = tuple[bytes, bytes]  # of a head: the tag of a message, and what stands in it before the next
Long = tuple[int, tuple[str, ...]]  # so many bytes, and those that are counted when they are read
Made = tuple[dict[str, Any], bytes]  # a document, and what results say of it
_HEADS, _PIECES = 32, 512  # of a shape, at most
_VALUE: list[Step] = [(b"\x12", b"")]
_ITEM: list[Step] = [(b"\x0a", b"")]


class Shape(NamedTuple):
    """What such messages have in common: what finds their values, and what makes a document of them, or nothing, if it is another."""

    kind: bytes
    pattern: bytes
    lengths: list[int]
    free: set[int]
    deep: int
    find: Callable[[bytes, int, int], re.Match[bytes] | None]
    made: Callable[..., Made | None]


class Heads(dict[int, bytes]):
    """What stands before so many bytes."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    def __missing__(self, long: int) -> bytes:
        if len(self) >= _KEPT:
            self.clear()
        head = self[long] = head_of(self._steps, long)
        return head


def head_of(steps: list[Step], long: int) -> bytes:
    head = b""
    for tag, more in reversed(steps):
        head = more + head
        head = b"".join((tag, size(len(head) + long), head))
    return head


class Trace:
    """One message, member by member. Of the texts in it those that are `free` have any length; that is all of them, if nobody knows."""

    def __init__(self, data: bytes, place: Part, free: set[int] | None = None) -> None:
        self.place, self.free = place, free
        self.lengths: list[int] = []
        self.deep = 1
        self._said, self._about, self._level = "", "", 1
        self._data = data
        self._pieces: list[tuple[bytes, str]] = []
        self._heads: dict[str, list[Step]] = {}
        self._lines: list[str] = []
        self._numbers: list[str] = []

    @property
    def pattern(self) -> bytes:
        return b"".join(piece for piece, _ in self._pieces)

    @property
    def handy(self) -> bool:
        """Not so large that it costs more than it is worth."""
        return len(self._heads) <= _HEADS and len(self._pieces) <= _PIECES

    def case(self, at: int, end: int) -> None:
        said, sizes = {"id": "''"}, {"id": "0", "metadata": "0"}
        for tag, start, stop in parts(self._data, at, end):
            steps = [(bytes((tag,)), b"")]
            name = {0x0A: "id", 0x12: "input", 0x1A: "expected", 0x22: "metadata"}[tag]
            how = {"id": self._text, "metadata": self._struct}.get(name, self._either)
            said[name], long = how(start, stop, steps)
            sizes[name] = _sum(long)
        about = f"data[at : at + {sizes['id']}]"
        if "metadata" in said:
            about += f" + b'\\x12' + data[end - ({sizes['metadata']}) + 1 : end]"
        self._said, self._about = _literal(said), about

    def output(self, at: int, end: int) -> None:
        said, sizes = dict[str, str](), {"id": "0"}
        for tag, start, stop in parts(self._data, at, end):
            steps = [(bytes((tag,)), b"")]
            name = {0x0A: "value", 0x12: "metadata", 0x1A: "id"}[tag]
            how = {"id": self._text, "metadata": self._struct}.get(name, self._either)
            said[name], long = how(start, stop, steps)
            sizes[name] = _sum(long)
        about = "b''"
        if "metadata" in said:
            after = f"end - ({sizes['id']})"
            about = f"b'\\x1a' + data[{after} - ({sizes['metadata']}) + 1 : {after}]"
        self._said, self._about = _literal(said), about

    def shape(self, kind: bytes) -> Shape:
        """Of what was gone through."""
        names = [name for _, name in self._pieces if name]
        lines = [*self._lines]
        if self._numbers:
            given = ", ".join(f"b{name}" for name in self._numbers)
            lines.append(f"[{', '.join(self._numbers)}] = numbers(join(({given},)))")
        lines.append(f"return {self._said}, {self._about}")
        source = "\n    ".join([f"def made(data, at, end, {', '.join(names)}):", *lines])
        scope: dict[str, Any] = {f"of_{name}": Heads(steps) for name, steps in self._heads.items()}
        numbers = Struct(f"<{len(self._numbers)}d").unpack
        scope |= {"far": unpacked.far, "join": b"".join, "numbers": numbers}
        exec(source, scope)  # noqa: S102  # written above, names of members as literals
        find = re.compile(self.pattern, re.DOTALL).fullmatch
        return Shape(kind, self.pattern, self.lengths, self.free or set(), self.deep, find, scope["made"])

    def _either(self, at: int, end: int, steps: list[Step]) -> tuple[str, Long]:
        """An InputValue or an OutputValue."""
        ((kind, start, stop),) = parts(self._data, at, end)
        how = {unpacked.STRING: self._text, unpacked.OBJECT: self._struct}.get(kind, self._value)
        return how(start, stop, [*steps, (bytes((kind,)), b"")])

    def _struct(self, at: int, end: int, steps: list[Step]) -> tuple[str, Long]:
        place, said, many = self._inside(), dict[str, str](), (0, ())
        for _, start, stop in parts(self._data, at, end):
            (_, first, last), (_, one, two) = parts(self._data, start, stop)
            name = self._data[first:last]
            entry = [(b"\x0a", sized(b"\x0a", name)), *_VALUE]
            said[name.decode()], long = self._value(one, two, entry)
            many = _plus(many, long)
        self._level -= 1
        return _literal(said), self._head(place, steps, many)

    def _value(self, at: int, end: int, steps: list[Step]) -> tuple[str, Long]:
        kind = self._data[at] if at < end else unpacked.NULL
        if kind in (unpacked.NULL, unpacked.BOOL, unpacked.NUMBER):
            return self._scalar(kind, at, end, steps)
        ((_, start, stop),) = parts(self._data, at, end)
        steps = [*steps, (bytes((kind,)), b"")]
        if kind == unpacked.TEXT:
            return self._text(start, stop, steps)
        if kind == unpacked.STRUCT:
            return self._struct(start, stop, steps)
        place, said, many = self._inside(), list[str](), (0, ())
        for _, one, two in parts(self._data, start, stop):
            item, long = self._value(one, two, _ITEM)
            said.append(item)
            many = _plus(many, long)
        self._level -= 1
        return f"[{', '.join(said)}]", self._head(place, steps, many)

    def _scalar(self, kind: int, at: int, end: int, steps: list[Step]) -> tuple[str, Long]:
        long = self._head(self._place(), steps, (end - at, ()))
        if kind == unpacked.NULL:
            self._pieces.append((re.escape(self._data[at:end]), ""))
            return "None", long
        name = f"x{len(self._pieces)}"
        if kind == unpacked.BOOL:
            self._pieces.append((rb"\x20([\x00\x01])", name))
            return f"{name} == b'\\x01'", long
        self._pieces.append((rb"\x11(.{8})", f"b{name}"))
        self._numbers.append(name)
        near = f"int({name}) if {name}.is_integer() else {name}"
        return f"(({near}) if {-_EXACT} <= {name} <= {_EXACT} else far({name}))", long

    def _text(self, start: int, stop: int, steps: list[Step]) -> tuple[str, Long]:
        which, long, place = len(self.lengths), stop - start, self._place()
        self.lengths.append(long)
        if self.free is None or which in self.free:
            self._pieces.append((_TEXT, f"v{which}"))
            return f"v{which}.decode()", self._head(place, steps, (0, (f"len(v{which})",)))
        self._pieces.append((b"(.{%d})" % long, f"v{which}"))
        return f"v{which}.decode()", self._head(place, steps, (long, ()))

    def _inside(self) -> int:
        """An object or a list begins."""
        self._level += 1
        self.deep = max(self.deep, self._level)
        return self._place()

    def _place(self) -> int:
        """For a head, which is known when all is that it stands before."""
        self._pieces.append((b"", ""))
        return len(self._pieces) - 1

    def _head(self, place: int, steps: list[Step], long: Long) -> Long:
        """With what stands before it: always the same, or as long as it may be."""
        if not long[1]:
            head = head_of(steps, long[0])
            self._pieces[place] = re.escape(head), ""
            return long[0] + len(head), ()
        name = f"h{place}"
        form = b"".join(re.escape(tag) + _SIZE + re.escape(more) for tag, more in steps)
        self._pieces[place] = b"(" + form + b")", name
        self._heads[name] = steps
        self._lines.append(f"n{name} = {_sum(long)}")
        self._lines.append(f"if {name} != of_{name}[n{name}]: return None")
        return 0, (f"len({name})", f"n{name}")


def _sum(long: Long) -> str:
    return " + ".join((str(long[0]), *long[1]) if long[0] or not long[1] else long[1])


def _plus(one: Long, other: Long) -> Long:
    return one[0] + other[0], (*one[1], *other[1])


def _literal(said: dict[str, str]) -> str:
    return f"{{{', '.join(f'{name!r}: {value}' for name, value in said.items())}}}"
