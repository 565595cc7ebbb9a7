"""
The input of every case id of a stream, so that one id cannot stand for two inputs (FEP-53).

Ids that rise, by length and then by text (`case-9`, `case-10`), are all different: they are neither stored nor looked
up if the input can be read again. The first id that does not rise makes this table: 16 bytes for each case (a hash of
the id, the CRC-32 of the input, the number of the line), and a hash table with open addressing that holds positions of
4 bytes.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import lt
from typing import Any, Protocol
from zlib import crc32

import msgspec

from assay.errors import Problem
from assay.protocol.json_types import is_list, is_object, preview

MIN_SLOTS = 1_024  # a power of two, as every size of the table
NOT_TEXT = 1  # start of the CRC of a value that is no text: "1" and 1 are different inputs
_encode = msgspec.json.Encoder(order="sorted").encode
OTHER_INPUT = "already the id of a test case with another input"
_MAYBE_FLOAT = re.compile(rb"\d[.eE]")

ReadAgain = Callable[[int], Iterable[tuple[str, int, int]]]
"""The id, the digest of the input and the line of each case before the line with this number."""


class InputCheck(Protocol):
    """Compares the inputs of a stream by id."""

    def add(self, id: str, value: Any, number: int) -> int | None:
        """
        Add the case of a line. Returns the number of an earlier line with this id and another input; the case is then
        not added.
        """
        ...


class InputDigests:
    """The inputs of the cases of one stream. `read_again`: reads the cases so far again, if that is possible."""

    __slots__ = ("_digests", "_keys", "_last", "_length", "_numbers", "_read_again", "_slots")

    def __init__(self, read_again: ReadAgain | None = None) -> None:
        self._read_again = read_again
        self._length, self._last = -1, ""  # of the last id, while ids rise
        self._keys, self._digests, self._numbers = array("q"), array("I"), array("I")
        self._slots: array[int] | None = None  # positions in `_keys` plus one; 0 is free. None while ids rise

    @property
    def rises(self) -> bool:
        """Whether every id so far is larger than the one before."""
        return self._slots is None

    def add(self, id: str, value: Any, number: int) -> int | None:
        if self._slots is None:
            length = len(id)
            if (length == self._length and id > self._last) or length > self._length:
                self._length, self._last = length, id
                if self._read_again is None:
                    self._append(id, digest_of(value), number)
                return None
            self._end_of_rise(number)
        return self.add_digest(id, digest_of(value), number)

    def add_rising(self, ids: Sequence[str]) -> bool:
        """Add cases that can be read again, if their ids rise. False: nothing is added."""
        if self._slots is not None or self._read_again is None:
            return False
        order = [(self._length, self._last), *zip(map(len, ids), ids, strict=True)]
        if not all(map(lt, order, islice(order, 1, None))):
            return False
        self._length, self._last = order[-1]
        return True

    def add_digest(self, id: str, digest: int, number: int) -> int | None:
        """`add` for a known digest."""
        slots = self._slots
        if slots is None:
            slots = self._end_of_rise(number)
        keys, key, mask = self._keys, hash(id), len(slots) - 1
        at = key & mask
        while position := slots[at]:
            if keys[position - 1] == key:
                return None if self._digests[position - 1] == digest else self._numbers[position - 1]
            at = (at + 1) & mask
        self._append(id, digest, number)
        slots[at] = len(keys)
        if 3 * len(keys) > 2 * len(slots):
            self._build()
        return None

    def _append(self, id: str, digest: int, number: int) -> None:
        self._keys.append(hash(id))
        self._digests.append(digest)
        self._numbers.append(number)

    def _end_of_rise(self, number: int) -> "array[int]":
        if self._read_again is not None:
            for case in self._read_again(number):
                self._append(*case)
        return self._build()

    def _build(self) -> "array[int]":
        """Build a table that is at most half full."""
        size = MIN_SLOTS
        while size < 2 * len(self._keys):
            size *= 2
        self._slots = None  # the old table goes before the new one comes
        slots = array("I", bytes(4)) * size
        mask = size - 1
        for position, key in enumerate(self._keys, 1):
            at = key & mask
            while slots[at]:
                at = (at + 1) & mask
            slots[at] = position
        self._slots = slots
        return slots


def digest_of(value: Any) -> int:
    """The digest of an input, in every process the same. Equal JSON values have equal digests (FEP-51)."""
    if type(value) is str:
        return crc32(value.encode())
    encoded = _encode(value)
    if _MAYBE_FLOAT.search(encoded) is not None:
        encoded = _encode(_whole_numbers(value))
    return crc32(encoded, NOT_TEXT)


def _whole_numbers(value: Any) -> Any:
    """The value with floats without a fraction as integers: 1.0 equals 1."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if is_object(value):
        return {name: _whole_numbers(member) for name, member in value.items()}
    return [_whole_numbers(item) for item in value] if is_list(value) else value


def other_input(id: str, earlier: str) -> Problem:
    """The problem of a case whose id belongs to another input. `earlier`: the place of that input."""
    return Problem("test_case.id", f"{preview(id)} is {OTHER_INPUT}: {earlier}")
