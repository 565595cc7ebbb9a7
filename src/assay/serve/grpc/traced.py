"""
What lies where in a message that was read (decision 2), as a function that reads others like it.

What is the same in all of them, and what has the same length, is cut up in one go. Where a text may have any length, so have
the messages around it, and each says how long it is in its head (`heads.py`).
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from assay.serve.grpc import unpacked
from assay.serve.grpc.heads import Heads, Steps, head_of
from assay.serve.grpc.packed import sized
from assay.serve.grpc.unpacked import Part, parts

_EXACT = float(unpacked.EXACT)  # which is quicker to compare a float with
_HEADS, _PIECES = 16, 512  # of a shape, at most
Made = tuple[dict[str, Any], bytes]  # a document, and what results say of it
Read = Callable[[bytes, int, int], Made | None]


class Same(NamedTuple):
    said: bytes


class Leaf(NamedTuple):
    """A value of a fixed length, by its format and its name."""

    form: str
    name: str


class Head(NamedTuple):
    """Of a text or a message of any length, by the number of its piece."""

    steps: Steps
    number: int


class Text(NamedTuple):
    """Of any length, after its head."""

    head: int
    name: str


class End(NamedTuple):
    """Of a message of any length."""

    head: int


class Mark(NamedTuple):
    """A place that is looked at again."""

    name: str


Piece = Same | Leaf | Head | Text | End | Mark


class Shape(NamedTuple):
    """What such messages have in common, and what reads them: nothing, if it is another."""

    kind: tuple[Piece, ...]
    lengths: list[int]
    free: set[int]
    deep: int
    read: Read


class Trace:
    """One message, member by member. Of the texts in it those that are `free` have any length; that is all of them, if nobody knows."""

    def __init__(self, data: bytes, place: Part, free: set[int] | None = None) -> None:
        self.place, self.free = place, free
        self.lengths: list[int] = []
        self.deep = self._level = 1
        self.pieces: list[Piece] = []
        self._data = data
        self._sizes: dict[int, int] = {}  # of heads, as they are here
        self._said, self._about = "", ""

    @property
    def handy(self) -> bool:
        """Not so large that it costs more than it is worth."""
        return len(self._sizes) <= _HEADS and len(self.pieces) <= _PIECES

    def case(self, at: int, end: int) -> None:
        names = {0x0A: "id", 0x12: "input", 0x1A: "expected", 0x22: "metadata"}
        said = self._fields(names, at, end)
        about = "data[at:after_id]" if "id" in said else "b''"
        if "metadata" in said:
            about += " + b'\\x12' + data[before_metadata + 1 : end]"
        self._said, self._about = _literal({"id": "''"} | said), about

    def output(self, at: int, end: int) -> None:
        said = self._fields({0x0A: "value", 0x12: "metadata", 0x1A: "id"}, at, end)
        about = "b'\\x1a' + data[before_metadata + 1 : after_metadata]" if "metadata" in said else "b''"
        self._said, self._about = _literal(said), about

    def _fields(self, names: dict[int, str], at: int, end: int) -> dict[str, str]:
        said: dict[str, str] = {}
        for tag, start, stop in parts(self._data, at, end):
            name = names[tag]
            how = {"id": self._text, "metadata": self._struct}.get(name, self._either)
            self.pieces.append(Mark(f"before_{name}"))
            said[name] = how(start, stop, ((bytes((tag,)), b""),))[0]
            self.pieces.append(Mark(f"after_{name}"))
        return said

    def shape(self, kind: tuple[Piece, ...]) -> Shape:
        """Of what was gone through."""
        lines = _Lines(self._about, self._sizes)
        for piece in self.pieces:
            lines.add(piece)
        source = lines.source(self._said, self._about)
        exec(source, lines.scope)  # noqa: S102  # written here, names of members as literals
        return Shape(kind, self.lengths, self.free or set(), self.deep, lines.scope["read"])

    def _either(self, at: int, end: int, steps: Steps) -> tuple[str, int | None]:
        """An InputValue or an OutputValue."""
        ((kind, start, stop),) = parts(self._data, at, end)
        how = {unpacked.STRING: self._text, unpacked.OBJECT: self._struct}.get(kind, self._value)
        return how(start, stop, (*steps, (bytes((kind,)), b"")))

    def _struct(self, at: int, end: int, steps: Steps) -> tuple[str, int | None]:
        said: dict[str, str] = {}

        def member(start: int, stop: int) -> int | None:
            (_, first, last), (_, one, two) = parts(self._data, start, stop)
            name = self._data[first:last]
            entry = (b"\x0a", sized(b"\x0a", name)), (b"\x12", b"")
            said[name.decode()], long = self._value(one, two, entry)
            return long

        long = self._inside(at, end, steps, member)
        return _literal(said), long

    def _list(self, at: int, end: int, steps: Steps) -> tuple[str, int | None]:
        said: list[str] = []

        def item(start: int, stop: int) -> int | None:
            value, long = self._value(start, stop, ((b"\x0a", b""),))
            said.append(value)
            return long

        long = self._inside(at, end, steps, item)
        return f"[{', '.join(said)}]", long

    def _inside(self, at: int, end: int, steps: Steps, each: Callable[[int, int], int | None]) -> int | None:
        """An object or a list; how long it is, with its head, if that is always the same."""
        self._level += 1
        self.deep = max(self.deep, self._level)
        number = self._place()
        sizes = [each(start, stop) for _, start, stop in parts(self._data, at, end)]
        self._level -= 1
        fixed = [one for one in sizes if one is not None]
        if len(fixed) < len(sizes):
            self._head(number, steps, end - at)
            self.pieces.append(End(number))
            return None
        head = head_of(steps, sum(fixed))
        self.pieces[number] = Same(head)
        return len(head) + sum(fixed)

    def _value(self, at: int, end: int, steps: Steps) -> tuple[str, int | None]:
        kind = self._data[at] if at < end else unpacked.NULL
        if kind in (unpacked.NULL, unpacked.BOOL, unpacked.NUMBER):
            return self._scalar(kind, at, end, steps)
        ((_, start, stop),) = parts(self._data, at, end)
        how = {unpacked.TEXT: self._text, unpacked.STRUCT: self._struct}.get(kind, self._list)
        return how(start, stop, (*steps, (bytes((kind,)), b"")))

    def _scalar(self, kind: int, at: int, end: int, steps: Steps) -> tuple[str, int]:
        head = head_of(steps, end - at)
        long = len(head) + end - at
        if kind == unpacked.NULL:
            self.pieces.append(Same(head + self._data[at:end]))
            return "None", long
        name = f"x{len(self.pieces)}"
        self.pieces += (
            Same(head + self._data[at : at + 1]),
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
            number = self._place()
            self._head(number, steps, long)
            self.pieces.append(Text(number, name))
            return f"{name}.decode()", None
        head = head_of(steps, long)
        self.pieces += (Same(head), Leaf(f"{long}s", name))
        return f"{name}.decode()", len(head) + long

    def _place(self) -> int:
        """For a head, which is known when all is that it stands before."""
        self.pieces.append(Same(b""))
        return len(self.pieces) - 1

    def _head(self, number: int, steps: Steps, long: int) -> None:
        self.pieces[number] = Head(steps, number)
        self._sizes[number] = len(head_of(steps, long))


class _Lines:
    """A function that goes through a message from its beginning to its end; `p` is how far it has come."""

    def __init__(self, marks: str, sizes: dict[int, int]) -> None:
        self.scope: dict[str, Any] = {"far": unpacked.far}
        self._lines, self._marks, self._sizes = ["p = at"], marks, sizes
        self._same: list[bytes] = [b""]
        self._leaves: list[Leaf] = []
        self._gone = 0  # bytes that were looked at behind `p`
        self._heads: list[Head] = []

    def source(self, said: str, about: str) -> str:
        self._flush()
        self._lines += ["if p != end: return None", f"return {said}, {about}"]
        return "\n    ".join(["def read(data, at, end):", *self._lines])

    def add(self, piece: Piece) -> None:
        if isinstance(piece, Head):
            self._cut()
            self._heads.append(piece)
            return
        if isinstance(piece, Text):
            self._flush(piece)
            return
        if self._heads and not (isinstance(piece, Mark) and piece.name not in self._marks):
            self._flush()
        if isinstance(piece, Same):
            self._same[-1] += piece.said
            self._gone += len(piece.said)
        elif isinstance(piece, Leaf):
            self._leaves.append(piece)
            self._same.append(b"")
            self._gone += Struct(f"<{piece.form}").size
        elif isinstance(piece, End):
            self._lines.append(f"if p + {self._gone} != end{piece.head}: return None")
        elif piece.name in self._marks:
            self._lines.append(f"{piece.name} = p + {self._gone}")

    def _flush(self, text: Text | None = None) -> None:
        """Heads that follow one another, and the text behind the last."""
        self._cut()
        if not self._heads:
            return
        number, wide = self._heads[0].number, sum(self._sizes[head.number] for head in self._heads)
        heads = Heads([head.steps for head in self._heads])
        self.scope |= {f"known{number}": heads.known.get, f"heads{number}": heads.read}
        ends = ", ".join(f"end{head.number}" for head in self._heads)
        self._lines += [
            f"found = known{number}(data[p : p + {wide}]) or heads{number}(data, p)",
            "if found is None: return None",
            f"long, {ends} = found",
            *(f"end{head.number} += p" for head in self._heads),
            "p += long",
        ]
        if text is not None:
            self._lines += [f"{text.name} = data[p : end{text.head}]", f"p = end{text.head}"]
        self._heads = []

    def _cut(self) -> None:
        """What is the same, and what has the same length."""
        if not self._gone:
            return
        many, number = self._gone, len(self._lines)
        self._lines.append(f"if p + {many} > end: return None")
        if self._leaves:
            forms = [f"{len(same)}s{leaf.form}" for same, leaf in zip(self._same, self._leaves, strict=False)]
            cut = Struct(f"<{''.join(forms)}{len(self._same[-1])}s").unpack_from
            self.scope |= {f"cut{number}": cut, f"same{number}": tuple(self._same)}
            self._lines += [
                f"found = cut{number}(data, p)",
                f"if found[::2] != same{number}: return None",
                f"[{', '.join(leaf.name for leaf in self._leaves)}] = found[1::2]",
            ]
        else:
            self._lines.append(f"if data[p : p + {many}] != {self._same[0]!r}: return None")
        self._lines.append(f"p += {many}")
        self._same, self._leaves, self._gone = [b""], [], 0


def _literal(said: dict[str, str]) -> str:
    return f"{{{', '.join(f'{name!r}: {value}' for name, value in said.items())}}}"
