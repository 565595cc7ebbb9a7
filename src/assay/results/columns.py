"""
Columns of answers by case id, in bounded memory, so that repeats of one case form one cluster (FEP-46).

Blocks of pairs are spilled to a temporary file. Ids that arrive in ascending order are distinct and need no further
work. Otherwise the blocks are sorted at the end by 64-bit hashes of the ids, and read one range of hashes at a time.
Two ids are taken for the same case only if their hashes are equal.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import lt
from typing import IO, Any, Literal, NamedTuple

import msgspec

from assay.errors import EnvironmentFailure

BLOCK = 65_536  # pairs held in memory before they are spilled
HASH_RANGES = 256  # ranges of hashes in a sorted block
RANGE_SIZE = 2**64 // HASH_RANGES
LOWEST_HASH = -(2**63)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode
IdOrder = Literal["text", "length", "none", "unknown"]
Pairs = tuple[Sequence[int], Sequence[Any]]


class SpillFile:
    """An unnamed temporary file, created with the first write."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, *data: bytes) -> int:
        """Append data. Returns its offset."""
        try:
            if self._file is None:
                from tempfile import TemporaryFile  # deferred import: most runs are small

                self._file = TemporaryFile()  # noqa: SIM115  # it lives as long as this
            start = self._file.seek(0, 2)
            for one in data:
                self._file.write(one)
        except OSError as wrong:
            raise EnvironmentFailure(f"the temporary folder cannot be written: {wrong.strerror}") from None
        return start

    def read(self, start: int, size: int) -> bytes:
        assert self._file is not None
        try:
            self._file.seek(start)
            return self._file.read(size)
        except OSError as wrong:
            raise EnvironmentFailure(f"the temporary folder cannot be read: {wrong.strerror}") from None


class Column:
    """Pairs of an id and a number: an unsigned integer of `bits` bits, or a float if `bits` is None."""

    __slots__ = (
        "_blocks",
        "_keys",
        "_last",
        "_order",
        "_sorted",
        "_spill_file",
        "_texts",
        "_values",
        "_width",
        "buffer_size",
    )

    def __init__(self, spill_file: SpillFile, bits: int | None = None) -> None:
        self._spill_file = spill_file
        self._width = 8 if bits is None else _width(bits)
        kind = "d" if bits is None else _TYPECODES.get(self._width)
        # a list for integers that are too wide for an array
        self._values: Any = [] if kind is None else array(kind)
        self._order: IdOrder = "unknown"
        self._last = ""
        self._texts: list[bytes] = []  # the ids, while they arrive in order
        self._keys: list[int] = []  # the hashes of the ids, if they do not
        self.buffer_size = 0  # pairs that are not spilled
        self._blocks: list[_Block] = []
        self._sorted: list[
            tuple[int, array[int]]
        ] = []  # for each block: its offset, and the index at which each range of hashes starts

    @property
    def count(self) -> int:
        return self.buffer_size + sum(block.pairs for block in self._blocks)

    @property
    def is_spilled(self) -> bool:
        """Whether some pairs are in the temporary file."""
        return bool(self._blocks)

    @property
    def distinct(self) -> bool:
        """Whether all ids are known to be distinct: they arrived in order, or none is spilled and all hashes differ."""
        if self._order != "none":
            return True
        return not self._blocks and len(set(self._keys)) == self.buffer_size

    def extend(self, ids: Sequence[str], values: Sequence[Any]) -> None:
        if not ids:
            return
        self._update_order(ids)
        if self._order == "none":
            self._keys.extend(map(hash, ids))
        else:
            self._texts.append(_encode(ids))
        kind = self._values
        kind.extend(array(kind.typecode, values) if isinstance(kind, array) else values)
        self.buffer_size += len(ids)

    def _update_order(self, ids: Sequence[str]) -> None:
        """Update the order of the ids: by text, or by length and then by text (`case-2`, `case-10`)."""
        if self._order == "none":
            return
        before, self._last = self._last, ids[-1]
        if self._order == "unknown":
            self._order = "text" if _ascending(ids) else "length" if _ascending(_by_length(ids)) else "none"
        elif self._order == "text":
            self._order = "text" if before < ids[0] and _ascending(ids) else "none"
        elif not _ascending(_by_length([before, *ids])):
            self._order = "none"
        if self._order == "none":
            self._keys, self._texts = _hashes(self._texts), []

    def spill(self) -> None:
        """Write the pairs in memory to the temporary file."""
        if self.buffer_size:
            texts = b"\n".join(self._texts)
            keys = array("q", self._keys).tobytes()
            start = self._spill_file.write(texts, keys, self.pack_values(self._values))
            self._blocks.append(_Block(start, self.buffer_size, len(texts)))
            self._texts, self._keys, self._values, self.buffer_size = [], [], self._values[:0], 0

    def values(self) -> Iterator[Sequence[Any]]:
        """Yield all numbers in order of arrival, block by block."""
        for block in self._blocks:
            yield self._read_values(block)
        yield self._values

    def pairs(self) -> Pairs:
        """The hashes and numbers of a column that is not spilled."""
        return self._keys or _hashes(self._texts), self._values

    def sort(self) -> None:
        """Spill all pairs and sort each block by hash."""
        self.spill()
        for block in self._blocks[len(self._sorted) :]:
            keys, values = self._read_keys(block), self._read_values(block)
            order = sorted(range(block.pairs), key=keys.__getitem__)
            ordered = array("q", [keys[at] for at in order])
            bounds = array(
                "L", (bisect_left(ordered, LOWEST_HASH + at * RANGE_SIZE) for at in range(HASH_RANGES))
            )
            bounds.append(block.pairs)
            start = self._spill_file.write(ordered.tobytes(), self.pack_values([values[at] for at in order]))
            self._sorted.append((start, bounds))

    def hash_range(self, first: int, last: int) -> Pairs:
        """The pairs of a span of hash ranges of a sorted column. Pairs of one id are in order of arrival."""
        keys, values = array("q"), self._values[:0]
        for start, bounds in self._sorted:
            low, count = bounds[first], bounds[last] - bounds[first]
            keys.frombytes(self._spill_file.read(start + 8 * low, 8 * count))
            after = start + 8 * bounds[HASH_RANGES] + self._width * low
            values.extend(self.unpack_values(self._spill_file.read(after, self._width * count)))
        return keys, values

    def _read_keys(self, block: "_Block") -> Sequence[int]:
        if block.text_bytes:
            return _hashes(self._spill_file.read(block.start, block.text_bytes).split(b"\n"))
        return array("q", self._spill_file.read(block.start, 8 * block.pairs))

    def _read_values(self, block: "_Block") -> Sequence[Any]:
        start = block.start + (block.text_bytes or 8 * block.pairs)
        return self.unpack_values(self._spill_file.read(start, self._width * block.pairs))

    def pack_values(self, values: Sequence[Any]) -> bytes:
        kind = self._values
        if isinstance(kind, array):
            return array(kind.typecode, values).tobytes()
        return b"".join(value.to_bytes(self._width, "little") for value in values)

    def unpack_values(self, data: bytes) -> Any:
        kind, width = self._values, self._width
        if isinstance(kind, array):
            return array(kind.typecode, data)
        return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]


class _Block(NamedTuple):
    """Spilled pairs: `text_bytes` of ids, or the hashes of the ids if that is 0; then the numbers."""

    start: int
    pairs: int
    text_bytes: int


_TYPECODES = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of an array, by the width of its numbers in bytes


def _width(bits: int) -> int:
    return next((width for width in _TYPECODES if bits <= 8 * width), (bits + 7) // 8)


def _hashes(texts: Sequence[bytes]) -> list[int]:
    return [hash(id) for text in texts for id in _decode(text)]


def _by_length(ids: Sequence[str]) -> list[tuple[int, str]]:
    return list(zip(map(len, ids), ids, strict=True))


def _ascending(values: Sequence[Any]) -> bool:
    return all(map(lt, values, islice(values, 1, None)))


def partitions(columns: Sequence[Column]) -> Iterator[list[Pairs]]:
    """Yield all pairs of the columns in parts. Each part holds all pairs of its ids."""
    count = sum(column.count for column in columns)
    if count <= BLOCK and not any(column.is_spilled for column in columns):
        yield [column.pairs() for column in columns]
        return
    for column in columns:
        column.sort()
    step = max(1, HASH_RANGES * BLOCK // count)
    for first in range(0, HASH_RANGES, step):
        yield [column.hash_range(first, min(HASH_RANGES, first + step)) for column in columns]
