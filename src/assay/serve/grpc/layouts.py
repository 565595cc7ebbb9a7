"""
Messages that are alike but for their values (decision 2): where the values lie is found out once.

The cases of a request mostly have the same members, and those of one length have them at the same places. Of such a length a
layout is learned: what lies between the values must be what it was, and then all of them are read in one go. Anything else is
read member by member, which finds the same.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from assay.serve.grpc import unpacked
from assay.serve.grpc.unpacked import parts

_LEAST, _MOST = 32, 4_096  # bytes of a message that a layout is worth its while for
_OFTEN, _SHARE = (
    8,
    8,
)  # it is learned when so many were read, and they are such a part of all that begin like it
_MANY = 32  # are learned in all: to learn one costs as much as to read a few


class Layout(NamedTuple):
    """How to cut such a message up, what lies between its values, and what it is with them."""

    cut: Callable[[bytes, int], tuple[Any, ...]]
    between: tuple[bytes, ...]
    made: Callable[..., dict[str, Any]]


class Layouts:
    """Those of one request, by length and by how such messages begin."""

    def __init__(self) -> None:
        self._known: dict[int, Layout] = {}
        self._seen: dict[int, int] = {}
        self._heads: dict[bytes, unpacked.Head] = {}
        self._left = _MANY

    def struct(self, data: bytes, at: int, end: int) -> dict[str, Any]:
        """A google.protobuf.Struct."""
        if not _LEAST < end - at < _MOST:
            return unpacked.struct(data, at, end, self._heads, self.struct)
        sort = (end - at) << 8 | data[at + 4]
        layout = self._known.get(sort)
        if layout is not None:
            found = layout.cut(data, at)
            if found[::2] == layout.between:
                return layout.made(*found[1::2])
            del self._known[sort]
        document = unpacked.struct(data, at, end, self._heads, self.struct)
        if self._left and self._often(sort, ~data[at + 4] << 16):
            self._learn(sort, Trace(data, at).struct, at, end)
        return document

    def case(self, data: bytes, at: int, end: int) -> dict[str, Any] | None:
        """The document of a TestCase like others before; of any other, nothing."""
        layout = self._known.get(at - end)
        if layout is not None:
            found = layout.cut(data, at)
            if found[::2] == layout.between:
                return layout.made(*found[1::2])
            del self._known[at - end]
        return None

    def read(self, data: bytes, at: int, end: int) -> bool:
        """One was read, and was of the usual kind: whether it is known from now on."""
        if not self._left or end - at >= _MOST or not self._often(at - end, 0):
            return False
        self._learn(at - end, Trace(data, at).case, at, end)
        return True

    def _often(self, sort: int, alike: int) -> bool:
        all = self._seen[alike] = self._seen.get(alike, 0) + 1
        seen = self._seen[sort] = self._seen.get(sort, 0) + 1
        return seen >= _OFTEN and seen * _SHARE >= all

    def _learn(self, sort: int, trace: Callable[[int, int], Layout], at: int, end: int) -> None:
        self._known[sort] = trace(at, end)
        self._seen[sort] = 0
        self._left -= 1


class Trace:
    """What lies where in a message that was read: as the form that cuts it up, and as an expression."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._start, self._at = data, at, at
        self._form, self._names = ["<"], list[str]()

    def struct(self, at: int, end: int) -> Layout:
        return self._layout(self._struct(at, end), end)

    def case(self, at: int, end: int) -> Layout:
        said = {"id": "''"}
        for tag, start, stop in parts(self._data, at, end):
            if tag == 0x0A:
                said["id"] = self._text(start, stop)
            elif tag == 0x22:
                said["metadata"] = self._struct(start, stop)
            else:
                ((kind, *inside),) = parts(self._data, start, stop)
                form = {unpacked.STRING: self._text, unpacked.OBJECT: self._struct}.get(kind, self._value)
                said["input" if tag == 0x12 else "expected"] = form(*inside)
        source = ", ".join(f"{name!r}: {value}" for name, value in said.items())
        return self._layout(f"{{{source}}}", end)

    def _layout(self, source: str, end: int) -> Layout:
        cut = Struct("".join((*self._form, f"{end - self._at}s"))).unpack_from
        return Layout(cut, cut(self._data, self._start)[::2], _made(", ".join(self._names), source))

    def _struct(self, at: int, end: int) -> str:
        members: list[str] = []
        for _, start, stop in parts(self._data, at, end):
            (_, *key), (_, *value) = parts(self._data, start, stop)
            members.append(f"{self._data[slice(*key)].decode()!r}: {self._value(*value)}")
        return f"{{{', '.join(members)}}}"

    def _value(self, at: int, end: int) -> str:
        kind = self._data[at] if at < end else unpacked.NULL
        if kind == unpacked.NULL:
            return "None"
        if kind == unpacked.BOOL:
            return f"BOOLS[{self._leaf(at + 1, end, 'B')}]"
        if kind == unpacked.NUMBER:
            name = self._leaf(at + 1, end, "d")
            near = f"int({name}) if {name}.is_integer() else {name}"
            return f"(({near}) if -EXACT <= {name} <= EXACT else far({name}))"
        ((_, start, stop),) = parts(self._data, at, end)
        if kind == unpacked.TEXT:
            return self._text(start, stop)
        if kind == unpacked.STRUCT:
            return self._struct(start, stop)
        return f"[{', '.join(self._value(one, two) for _, one, two in parts(self._data, start, stop))}]"

    def _text(self, start: int, stop: int) -> str:
        return f"{self._leaf(start, stop, f'{stop - start}s')}.decode()"

    def _leaf(self, start: int, stop: int, form: str) -> str:
        self._form.append(f"{start - self._at}s{form}")
        self._at = stop
        self._names.append(f"v{len(self._names)}")
        return self._names[-1]


_SCOPE = {"BOOLS": (False, True), "EXACT": unpacked.EXACT, "far": unpacked.far, "int": int}


@lru_cache(maxsize=256)
def _made(names: str, source: str) -> Callable[..., dict[str, Any]]:
    """Of the values, the whole; for all lengths the same."""
    return eval(f"lambda {names}: {source}", {"__builtins__": {}, **_SCOPE})  # noqa: S307  # written above, texts as literals
