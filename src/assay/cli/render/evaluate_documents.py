"""The documents of `assay evaluate --json`. Their schemas come from these types."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from assay.comparison.compare import PairComparison
from assay.fep.outputs.failing_cases import FailedCheck, FailingCase
from assay.protocol.results import EvaluationSummary, Status
from assay.results.run_part import RunPart
from assay.results.spending import Spending
from assay.stats.intervals import Rate


class FirstError(Struct):
    """The first error of a check, which may quote the tested system."""

    first_error: str


class CheckRow(Struct, kw_only=True):
    """One check over all cases. `means` and `counts` are of checks that neither pass nor fail."""

    passed: int
    failed: int
    error: int
    skip: int
    pass_rate: Rate | None
    data: FirstError | UnsetType = UNSET
    means: dict[str, Any] | UnsetType = UNSET
    counts: dict[str, Any] | UnsetType = UNSET


class ChecksDocument(Struct, kw_only=True):
    """What checks said over all cases."""

    status: Status
    summary: EvaluationSummary
    pass_rate: Rate | None
    case_pass_rate: Rate | None
    pass_k: dict[str, Rate] | UnsetType = UNSET
    pass_at_k: dict[str, Rate] | UnsetType = UNSET
    checks: dict[str, CheckRow]
    spending: Spending | UnsetType = UNSET


class BarDocument(Struct, kw_only=True):
    """A bar of --min-pass-rate. `pass_rate` and `passed` are null if it was not decided."""

    bar: str | None
    min: float
    pass_rate: float | None
    passed: bool | None


class SliceDocument(Struct, kw_only=True):
    """The rates of one slice."""

    by: str
    slice: str
    passed: int
    failed: int
    pass_rate: Rate | None
    case_pass_rate: Rate | None


class ComparedDocument(Struct, kw_only=True):
    """The members of `compare --json`, or why there is no comparison."""

    error: str | UnsetType = UNSET
    metric: str | UnsetType = UNSET
    lower_is_better: bool | UnsetType = UNSET
    margin: float | UnsetType | None = UNSET
    comparisons: tuple[PairComparison, ...] | UnsetType = UNSET


class UntilDocument(Struct, kw_only=True):
    """What a run with --until decided. The other members are null or 0 if nothing was looked at."""

    decision: Literal[
        "improved", "regressed", "equivalent", "above the bar", "below the bar", "not enough data"
    ]
    metric: str | None
    estimate: float | None
    low: float | None
    high: float | None
    measured: int
    unmeasured: int
    baseline: str | None
    min_pass_rate: float | None
    rounds: int
    seed: int
    run: int
    not_run: int


class FailedChecks(Struct):
    """The checks that a case did not pass, with their reasons, which quote the tested system."""

    checks: list[FailedCheck]


class FailingRow(Struct, kw_only=True, omit_defaults=True):
    """A case that did not pass, or those of its `trials` with the same reasons. `more`: checks that are not listed."""

    id: str
    data: FailedChecks
    trials: list[int] = []
    more: int = 0

    @classmethod
    def of(cls, case: FailingCase) -> "FailingRow":
        return cls(id=case.id, data=FailedChecks(case.checks), trials=case.trials, more=case.more)


class Evaluated(Struct, kw_only=True):
    """The document of `evaluate --json`. `partial`: it stopped before its end. `part`: of --only or --until."""

    traces: str | UnsetType = UNSET  # of a window
    partial: str | UnsetType = UNSET
    part: RunPart | UnsetType = UNSET
    evaluation_id: str
    status: Status
    summary: EvaluationSummary
    pass_rate: Rate | None
    case_pass_rate: Rate | None
    pass_k: dict[str, Rate] | UnsetType = UNSET
    pass_at_k: dict[str, Rate] | UnsetType = UNSET
    checks: dict[str, CheckRow]
    spending: Spending | UnsetType = UNSET
    slices: list[SliceDocument] | UnsetType = UNSET
    bars: list[BarDocument] | UnsetType = UNSET
    baseline: ComparedDocument | UnsetType = UNSET
    until: UntilDocument | UnsetType = UNSET
    failing_cases: list[FailingRow]
    outputs: list[str]
    sent: list[dict[str, Any]] | UnsetType = UNSET
    seconds: float
    bad_lines: int
    agent: dict[str, Any] | UnsetType = UNSET
    error: str | UnsetType = UNSET


class EvaluatedWindows(Struct):
    """The document of `evaluate --json` with several --traces."""

    windows: list[Evaluated]
    comparison: ComparedDocument
