"""The pass rate of a result in memory: a number with its interval, of all cases or of a slice."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from assay.protocol.results import TestCaseResult
from assay.results.slices import Columns, SliceSink, read_dimension
from assay.stats.intervals import Rate, RateMethod
from assay.stats.number_text import percent, range_text


class PassRate(float):
    """
    A share with its 95% interval. It is a float, and has `low`, `high`, `method` and `cases`.

    `method` is `wilson` for one answer a case, and `gaffke` for a mean over cases with several.
    """

    low: float = 0.0
    high: float = 1.0
    method: RateMethod = "wilson"
    cases: int = 0

    @classmethod
    def of(cls, rate: Rate) -> "PassRate":
        made = cls(rate.rate)
        made.low, made.high, made.method, made.cases = rate.low, rate.high, rate.method, rate.cases
        return made

    def __repr__(self) -> str:
        """`75.0% (46.8–91.1%)`."""
        return f"{percent(self)} ({range_text(self.low, self.high, 'rate')})"


class Slice(Struct, frozen=True, kw_only=True):
    """
    The cases with one value of a member. `passed` and `failed` count checks.

    `pass_rate` is the mean over cases of the share of their checks that passed, `case_pass_rate` the share of cases
    that passed all of them. None: nothing was measured.
    """

    by: str
    name: str
    passed: int
    failed: int
    pass_rate: PassRate | None
    case_pass_rate: PassRate | None


def slices_of(results: Iterable[TestCaseResult], by: Sequence[str], columns: Columns) -> list[Slice]:
    """
    The slices of every name in `by`, as `assay evaluate --by` prints them. `columns`: those of the table that the cases
    come from. Raises UsageError.
    """
    dimensions = {one.name: one.in_table(columns) for one in map(read_dimension, by)}
    sink = SliceSink(list(dimensions.values()))
    for result in results:
        sink.write(msgspec.json.encode(result))
    sink.require_values()
    return [
        Slice(
            by=one.dimension,
            name=one.name,
            passed=one.passed,
            failed=one.failed,
            pass_rate=None if one.pass_rate is None else PassRate.of(one.pass_rate),
            case_pass_rate=None if one.case_pass_rate is None else PassRate.of(one.case_pass_rate),
        )
        for one in sink.rates()
    ]
