"""
The table of cases: what a page, a filter, a sort or a count needs of the results of a run.

It holds no content (ADR-0068).

One row describes consecutive results, as they were recorded together: their counts, and their columns as octets.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

PASSED, FAILED, UNGRADED, ERROR, SKIPPED = "p", "f", "u", "e", "s"  # the outcome of a case, or of a check
ABSENT = "-"  # the case does not have the check
MAX_CHECKS = 64  # columns of a run; the checks beyond them count, and have no column


class CaseColumns(Struct, frozen=True, kw_only=True, array_like=True):
    """
    The columns of some results. Result number i has the pattern `patterns[index[i]]`.

    A pattern begins with the outcome of the case, then has the outcome of each check by its number in the run. `index`
    has one octet a result, or two (little-endian) if there are more than 256 patterns. The other columns have eight
    octets a result (a double; NaN: unknown), or are empty: then nothing is known, and the score is the share of the
    checks that passed.
    """

    patterns: tuple[str, ...]
    index: bytes
    score: bytes = b""
    cost: bytes = b""  # USD
    latency: bytes = b""  # milliseconds
    bar: bytes = b""  # the score that the case must reach, if its trials are judged by their mean
    findings: bytes = b""  # of detectors; negative: one of them fails the case
    judges: bytes = b""  # USD; the part of the cost that judges and embeddings have


class CaseBlock(Struct, frozen=True, kw_only=True):
    """A row of the table: the results numbered `first` to `last`. `spent` is the known cost of the run for them."""

    first: int
    last: int
    passed: int = 0
    failed: int = 0
    ungraded: int = 0  # completed, and no check says pass or fail
    error: int = 0
    skipped: int = 0
    spent: float = 0.0
    unknown: int = 0  # answers whose cost is not known
    sequence: int = 0  # the store sets it: the number of events of the run before this row was written
    data: bytes  # CaseColumns as MessagePack


class CaseTotals(Struct, frozen=True, kw_only=True):
    """The sums of the rows of a run."""

    passed: int = 0
    failed: int = 0
    ungraded: int = 0
    error: int = 0
    skipped: int = 0
    spent: float = 0.0
    unknown: int = 0

    @property
    def results(self) -> int:
        return self.passed + self.failed + self.ungraded + self.error + self.skipped


class RunFacts(Struct, frozen=True, kw_only=True):
    """The numbers by which a list of runs is sorted and filtered. None: there is none."""

    score: float | None = None
    cost: float | None = None
    passed: bool | None = None


NO_FACTS = RunFacts()


class RunGroup(Struct, frozen=True, kw_only=True):
    """The runs of one kind with the same name: how many, and the newest."""

    kind: str
    count: int
    newest: str


class CaseTable(Protocol):
    """The part of a store that holds the table of cases. Rows are written with the events of their unit."""

    async def case_blocks(
        self, run: str, *, start: int = 0, limit: int = 500, holding: str = ""
    ) -> Sequence[CaseBlock]:
        """The next rows that reach `start` or beyond. `holding`: only rows with one of these outcomes."""
        ...

    async def case_totals(self, runs: Sequence[str]) -> dict[str, CaseTotals]:
        """The sums of each of these runs that has rows."""
        ...
