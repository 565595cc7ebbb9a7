"""
What each case answered, by its id, so that repeats of one case are one cluster (decision 46), in flat memory.

Blocks of ids go to a temporary file. Ids that come in their order are all different, and nothing more is to be found out. Else
the blocks are sorted at the end by hashes of 64 bits, which two ids would have to share to be taken for one, and read together,
one range of hashes after the other.
"""

import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import lt
from typing import IO, Any, Literal, NamedTuple

import msgspec

from assay.errors import EnvironmentFailure

BLOCK = 65_536  # pairs held before they are put aside
RANGES = 256  # of hashes, that a sorted block is divided into
STEP = 2**64 // RANGES
LEAST = -(2**63)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode
Order = Literal["text", "length", "none", "unknown"]
Part = tuple[Sequence[int], Sequence[Any]]


class Aside:
    """A temporary file that has no name, once something is put there."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, *data: bytes) -> int:
        """Where it begins."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as this
            start = self._file.seek(0, 2)
            for one in data:
                self._file.write(one)
        except OSError as wrong:
            raise EnvironmentFailure(f"the temporary folder: cannot be written: {wrong.strerror}") from None
        return start

    def get(self, start: int, size: int) -> bytes:
        assert self._file is not None
        try:
            self._file.seek(start)
            return self._file.read(size)
        except OSError as wrong:
            raise EnvironmentFailure(f"the temporary folder: cannot be read: {wrong.strerror}") from None


class Column:
    """Pairs of an id and a number: a whole one of `bits` bits, or without `bits` a float."""

    __slots__ = (
        "_aside",
        "_blocks",
        "_keys",
        "_last",
        "_order",
        "_sorted",
        "_texts",
        "_values",
        "_width",
        "held",
    )

    def __init__(self, aside: Aside, bits: int | None = None) -> None:
        self._aside = aside
        self._width = 8 if bits is None else _width(bits)
        kind = "d" if bits is None else _KINDS.get(self._width)
        self._values: Any = [] if kind is None else array(kind)  # a number that no array holds is in a list
        self._order: Order = "unknown"
        self._last = ""
        self._texts: list[bytes] = []  # ids, as long as they come in order
        self._keys: list[int] = []  # else their hashes
        self.held = 0  # pairs that are not put aside
        self._blocks: list[_Block] = []
        self._sorted: list[
            tuple[int, array[int]]
        ] = []  # where each begins, and where in it a range of hashes does

    @property
    def many(self) -> int:
        return self.held + sum(block.many for block in self._blocks)

    @property
    def aside(self) -> bool:
        """Whether some of it is."""
        return bool(self._blocks)

    @property
    def distinct(self) -> bool:
        """Whether no id came twice, where that can be told from their order, or all are at hand."""
        if self._order != "none":
            return True
        return not self._blocks and len(set(self._keys)) == self.held

    def extend(self, ids: Sequence[str], values: Sequence[Any]) -> None:
        if not ids:
            return
        self._follow(ids)
        if self._order == "none":
            self._keys.extend(map(hash, ids))
        else:
            self._texts.append(_encode(ids))
        kind = self._values
        kind.extend(array(kind.typecode, values) if isinstance(kind, array) else values)
        self.held += len(ids)

    def _follow(self, ids: Sequence[str]) -> None:
        """Whether they still come in order, by their text, or first by their length: `case-2`, `case-10`."""
        if self._order == "none":
            return
        before, self._last = self._last, ids[-1]
        if self._order == "unknown":
            self._order = "text" if _rises(ids) else "length" if _rises(_by_length(ids)) else "none"
        elif self._order == "text":
            self._order = "text" if before < ids[0] and _rises(ids) else "none"
        elif not _rises(_by_length([before, *ids])):
            self._order = "none"
        if self._order == "none":
            self._keys, self._texts = _hashes(self._texts), []

    def spill(self) -> None:
        """Put aside what is held."""
        if self.held:
            texts = b"\n".join(self._texts)
            keys = array("q", self._keys).tobytes()
            start = self._aside.put(texts, keys, self.packed(self._values))
            self._blocks.append(_Block(start, self.held, len(texts)))
            self._texts, self._keys, self._values, self.held = [], [], self._values[:0], 0

    def values(self) -> Iterator[Sequence[Any]]:
        """All numbers, in the order they came, in pieces."""
        for block in self._blocks:
            yield self._values_of(block)
        yield self._values

    def pairs(self) -> Part:
        """Hashes and numbers of a column of which nothing is aside."""
        return self._keys or _hashes(self._texts), self._values

    def sort(self) -> None:
        """Put all of it aside, sorted by hash."""
        self.spill()
        for block in self._blocks[len(self._sorted) :]:
            keys, values = self._keys_of(block), self._values_of(block)
            order = sorted(range(block.many), key=keys.__getitem__)
            ordered = array("q", [keys[at] for at in order])
            bounds = array("L", (bisect_left(ordered, LEAST + at * STEP) for at in range(RANGES)))
            bounds.append(block.many)
            start = self._aside.put(ordered.tobytes(), self.packed([values[at] for at in order]))
            self._sorted.append((start, bounds))

    def part(self, first: int, last: int) -> Part:
        """The pairs of some ranges of hashes, once it is sorted; those of one id in the order they came."""
        keys, values = array("q"), self._values[:0]
        for start, bounds in self._sorted:
            low, many = bounds[first], bounds[last] - bounds[first]
            keys.frombytes(self._aside.get(start + 8 * low, 8 * many))
            after = start + 8 * bounds[RANGES] + self._width * low
            values.extend(self.unpacked(self._aside.get(after, self._width * many)))
        return keys, values

    def _keys_of(self, block: "_Block") -> Sequence[int]:
        if block.texts:
            return _hashes(self._aside.get(block.start, block.texts).split(b"\n"))
        return array("q", self._aside.get(block.start, 8 * block.many))

    def _values_of(self, block: "_Block") -> Sequence[Any]:
        start = block.start + (block.texts or 8 * block.many)
        return self.unpacked(self._aside.get(start, self._width * block.many))

    def packed(self, values: Sequence[Any]) -> bytes:
        kind = self._values
        if isinstance(kind, array):
            return array(kind.typecode, values).tobytes()
        return b"".join(value.to_bytes(self._width, "little") for value in values)

    def unpacked(self, data: bytes) -> Any:
        kind, width = self._values, self._width
        if isinstance(kind, array):
            return array(kind.typecode, data)
        return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]


class _Block(NamedTuple):
    """Pairs that are put aside: their ids in so many bytes of text, or without any their hashes; then the numbers."""

    start: int
    many: int
    texts: int


_KINDS = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of arrays, by the bytes of a number


def _width(bits: int) -> int:
    return next((width for width in _KINDS if bits <= 8 * width), (bits + 7) // 8)


def _hashes(texts: Sequence[bytes]) -> list[int]:
    return [hash(id) for text in texts for id in _decode(text)]


def _by_length(ids: Sequence[str]) -> list[tuple[int, str]]:
    return list(zip(map(len, ids), ids, strict=True))


def _rises(every: Sequence[Any]) -> bool:
    return all(map(lt, every, islice(every, 1, None)))


def parts(columns: Sequence[Column]) -> Iterator[list[Part]]:
    """All pairs of some columns, in parts of which each holds all there is of its ids."""
    many = sum(column.many for column in columns)
    if many <= BLOCK and not any(column.aside for column in columns):
        yield [column.pairs() for column in columns]
        return
    for column in columns:
        column.sort()
    step = max(1, RANGES * BLOCK // many)
    for first in range(0, RANGES, step):
        yield [column.part(first, min(RANGES, first + step)) for column in columns]
