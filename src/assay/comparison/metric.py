"""What is compared: one number for each trial of a case."""

from math import nan
from typing import Literal, get_args

from msgspec import Struct

from assay.comparison.result_line import BESIDE, CheckLine, ResultLine
from assay.errors import UsageError
from assay.errors.door import place_of
from assay.protocol.json_types import is_object
from assay.results.reasons import number_of

Quantile = Literal["median", "p95"]
MetricKind = Literal["passed", "score", "output", "check"]
JUDGES_USD = "judges_usd"
OF_OUTPUT = ("cost_usd", JUDGES_USD, "latency_ms")
QUANTILES: tuple[Quantile, ...] = get_args(Quantile)
HELP = (
    "expected passed, score, cost_usd, judges_usd, latency_ms, one of the last three with :median or :p95, the name"
    " of a check, or CHECK:MEMBER for a number in its results"
)


class Metric(Struct, frozen=True, kw_only=True):
    """
    `passed`: 1 if the case passed all its checks, else 0. `score`: the mean of the scores of its checks.

    `cost_usd` and `latency_ms` are numbers of the output, `judges_usd` is what its judges cost; a lower one is better.
    A check is compared by its score, or by a number in its results. With a `quantile`, the runs are compared by it
    instead of their means.
    """

    name: str
    kind: MetricKind
    check: str = ""
    member: str = ""
    quantile: Quantile | None = None
    by_verdict: bool = False  # of a check that says only pass or fail in the compared runs

    @property
    def is_share(self) -> bool:
        """Whether its means are shares: of cases that passed, or that pass a check (ADR-0308)."""
        return self.kind == "passed" or self.by_verdict

    @property
    def lower_is_better(self) -> bool:
        return self.kind == "output"

    def value(self, line: ResultLine) -> float | None:
        """The number of a trial; NaN if it was not measured, None if the trial has no such number."""
        if self.member == JUDGES_USD and self.kind == "output":
            return line.judges_usd
        if self.kind == "output":
            metadata = line.execution_context.output.metadata
            return number_of(metadata.get(self.member)) if is_object(metadata) else None
        if line.is_beside and self.kind != "check":
            return None
        if self.kind == "check":
            return self._of_checks(line, [check for check in line.check_results if self._is_named(check)])
        if line.status != "completed":
            return nan
        if self.kind == "passed":
            answers = [passed for check in line.check_results if (passed := check.passed) is not None]
            return float(all(answers)) if answers else None
        return self._of_checks(line, line.check_results)

    def _is_named(self, check: CheckLine) -> bool:
        return self.check in (check.label.removeprefix(BESIDE), check.check_type)

    def _of_checks(self, line: ResultLine, checks: list[CheckLine]) -> float | None:
        if any(check.status != "completed" for check in checks):
            return nan
        values = [value for check in checks if (value := self._of_check(line, check)) is not None]
        return sum(values) / len(values) if values else None

    def _of_check(self, line: ResultLine, check: CheckLine) -> float | None:
        if not self.member:
            return line.score(check)
        response = check.results.get("response")
        for part in (check.results, response if is_object(response) else {}):
            value = part.get(self.member)
            if isinstance(value, bool):
                return float(value)
            if (number := number_of(value)) is not None:
                return number
        return None


PASSED = Metric(name="passed", kind="passed")
SCORE = Metric(name="score", kind="score")
COST = Metric(name="cost_usd", kind="output", member="cost_usd")
JUDGES = Metric(name=JUDGES_USD, kind="output", member=JUDGES_USD)
LATENCY = Metric(name="latency_ms", kind="output", member="latency_ms")
P95 = Metric(name="latency_ms:p95", kind="output", member="latency_ms", quantile="p95")
EVERY = (PASSED, SCORE, COST, JUDGES, LATENCY)  # that a table of all metrics reads, beside the checks


def read_metric(text: str) -> Metric:
    """The metric of an option or a request. Raises UsageError."""
    if not text or len(text) > 300:
        raise UsageError(f"{place_of('metric')}: {HELP}, got {text[:50]!r}")
    if text == "passed":
        return PASSED
    if text == "score":
        return SCORE
    if text in OF_OUTPUT:
        return Metric(name=text, kind="output", member=text)
    check, _, member = text.partition(":")
    if check in OF_OUTPUT:
        for quantile in QUANTILES:
            if member == quantile:
                return Metric(name=text, kind="output", member=check, quantile=quantile)
        raise UsageError(
            f"{place_of('metric')}: expected {check}, {check}:median or {check}:p95, got {text[:50]!r}"
        )
    return Metric(name=text, kind="check", check=check, member=member)
