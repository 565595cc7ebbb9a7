"""Contexts in a seeded random order, in rounds. Their lines wait in a temporary file."""

import random
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from assay.inputs.context import Context, stored_context
from assay.ports import Limits


class ShuffledContexts:
    """
    All contexts of a source. A case is one place in the order with all its trials, so no round has a part of it.

    The order depends on the seed and on the ids in the order of the file, and on nothing else.
    """

    def __init__(self, contexts: Iterable[Context], limits: Limits, seed: int) -> None:
        self._limits, self._file = limits, tempfile.TemporaryFile("w+b")  # noqa: SIM115  # closed by __exit__
        self._starts, self._case_of = array("Q"), array("Q")
        numbers: dict[int, int] = {}
        at = 0
        for context in contexts:
            self._starts.append(at)
            self._case_of.append(numbers.setdefault(hash(context.document["test_case"]["id"]), len(numbers)))
            at += self._file.write(context.line)
        self._starts.append(at)
        self.cases, self.contexts = len(numbers), len(self._case_of)
        order = list(range(self.cases))
        random.Random(seed).shuffle(order)  # noqa: S311  # an order, not a secret
        places = array("Q", bytes(8 * self.cases))
        for place, case in enumerate(order):
            places[case] = place
        self._rows = sorted(range(self.contexts), key=lambda row: (places[self._case_of[row]], row))

    def rounds(self, size: int) -> Iterator[Iterator[Context]]:
        """The contexts of `size` cases at a time."""
        begin = 0
        while begin < self.contexts:
            end, seen, last = begin, 0, -1
            while end < self.contexts:
                case = self._case_of[self._rows[end]]
                if case != last:
                    if seen == size:
                        break
                    seen, last = seen + 1, case
                end += 1
            yield self._read(begin, end)
            begin = end

    def _read(self, begin: int, end: int) -> Iterator[Context]:
        for place in range(begin, end):
            row = self._rows[place]
            self._file.seek(self._starts[row])
            yield stored_context(self._file.read(self._starts[row + 1] - self._starts[row]), self._limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
