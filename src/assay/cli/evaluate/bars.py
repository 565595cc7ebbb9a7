"""The bars of `--min-pass-rate`: overall, for a check (by type or name), and for a slice."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import UsageError
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.results.slices import NONE, Columns, Dimension, SliceRates, SliceSink, read_dimension
from assay.results.tally import Tally
from assay.stats.number_text import rate_problem

OPTION = "--min-pass-rate"


class Bar(NamedTuple):
    """The lowest pass rate that is good enough, of all checks, of one check or of one slice."""

    target: str  # as the user wrote it; empty: all checks
    minimum: float
    dimension: str = ""
    slice: str = ""


class BarResult(NamedTuple):
    """A bar and the share that was measured; None if nothing was."""

    bar: Bar
    share: float | None
    problem: str = ""  # why nothing was measured

    @property
    def passed(self) -> bool:
        return self.share is not None and self.share >= self.bar.minimum


class BarOptions(NamedTuple):
    """`--min-pass-rate` and `--by` of a command line."""

    bars: list[Bar]
    dimensions: list[Dimension]

    @property
    def overall(self) -> float | None:
        return next((bar.minimum for bar in self.bars if not bar.target), None)


def read_bars(texts: Iterable[str], by: Iterable[str]) -> BarOptions:
    """Read the options. A bar of a slice adds its dimension. Raises UsageError."""
    dimensions = {one.name: one for one in map(read_dimension, by)}
    bars: dict[str, Bar] = {}
    for text in texts:
        target, equals, number = text.rpartition("=")
        if equals and not target:
            raise UsageError(f"{OPTION}: expected a number, CHECK=NUMBER or tag:NAME=NUMBER, got {text!r}")
        if target in bars:
            raise UsageError(
                f"{OPTION}: {f'the bar of {target}' if target else 'the overall bar'} is given twice"
            )
        bars[target] = _bar(target, _fraction(number), dimensions)
    return BarOptions(list(bars.values()), list(dimensions.values()))


def _bar(target: str, minimum: float, dimensions: dict[str, Dimension]) -> Bar:
    name = next((name for name in dimensions if target.startswith(f"{name}:")), None)
    if name is not None:
        return Bar(target, minimum, name, target.removeprefix(f"{name}:"))
    prefix, colon, value = target.rpartition(":") if target.startswith("$") else target.partition(":")
    if not colon or " " in prefix:
        return Bar(target, minimum)
    dimension = read_dimension(prefix)
    dimensions.setdefault(dimension.name, dimension)
    return Bar(target, minimum, dimension.name, value)


def _fraction(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise UsageError(
            f"{OPTION}: expected a fraction between 0 and 1, such as 0.9, got {text!r}"
        ) from None
    if (wrong := rate_problem(number)) is not None:
        raise UsageError(f"{OPTION}: {wrong}")
    return number


def with_check_names(options: BarOptions, labels: Mapping[str, str] | None, by: Sequence[str]) -> BarOptions:
    """
    The bars, now that the labels of the checks are known: a check may be called `style:tone`.

    Raises UsageError for a bar of a check that the run does not have. `labels` is None if cases have their own checks.
    """
    if labels is None:
        return options
    types = set(labels.values())
    bars = [Bar(bar.target, bar.minimum) if bar.target in labels else bar for bar in options.bars]
    for bar in bars:
        if bar.target and not bar.dimension and bar.target not in labels and bar.target not in types:
            names = ", ".join(dict.fromkeys([*labels, *sorted(types)]))
            raise UsageError(f"{OPTION}: there is no check {bar.target!r}; the checks are {names}")
    kept = {bar.dimension for bar in bars} | {read_dimension(one).name for one in by}
    return BarOptions(bars, [one for one in options.dimensions if one.name in kept])


def results_of(
    options: BarOptions, tally: Tally, labels: Mapping[str, str] | None, slices: Sequence[SliceRates]
) -> list[BarResult]:
    """Every bar with what was measured."""
    return [_result(bar, tally, labels or {}, slices) for bar in options.bars]


def _result(bar: Bar, tally: Tally, labels: Mapping[str, str], slices: Sequence[SliceRates]) -> BarResult:
    if bar.dimension:
        found = next((one for one in slices if (one.dimension, one.name) == (bar.dimension, bar.slice)), None)
        names = ", ".join(one.name for one in slices[:20] if one.dimension == bar.dimension) or "none"
        missing = f"there is no such slice; the slices are {names}"
        rated = found.pass_rate if found else None
        return BarResult(
            bar, rated.rate if rated else None, "no check passed or failed" if found else missing
        )
    chosen = [label for label in tally.rows if not bar.target or label == bar.target]
    chosen = chosen or [label for label in tally.rows if _type(label, labels) == bar.target]
    rated = tally.pass_rate(chosen if bar.target else None)
    problem = "no check passed or failed" if chosen or not bar.target else "no such check ran"
    return BarResult(bar, rated.rate if rated else None, problem)


def _type(label: str, labels: Mapping[str, str]) -> str:
    return labels.get(label) or label.partition(" #")[0]


def exit_code(results: Sequence[BarResult]) -> int:
    """1 if a bar has nothing that was measured, 3 if a rate is below its bar, else 0."""
    if any(one.share is None for one in results):
        return ERROR
    return PASSED if all(one.passed for one in results) else NOT_PASSED


def as_document(results: Sequence[BarResult]) -> list[dict[str, Any]]:
    """The bars for `--json`."""
    return [
        {"bar": one.bar.target or None, "min": one.bar.minimum, "pass_rate": one.share, "passed": one.passed}
        for one in results
    ]


def slice_document(rates: SliceRates) -> dict[str, Any]:
    """A slice for `--json`."""
    return {
        "by": rates.dimension,
        "slice": rates.name,
        "passed": rates.passed,
        "failed": rates.failed,
        "pass_rate": rates.pass_rate,
        "case_pass_rate": rates.case_pass_rate,
    }


def dimensions_without_values(slices: Sequence[SliceRates]) -> list[str]:
    """The dimensions in which no case has a value: probably the name is wrong."""
    values = {one.dimension for one in slices if one.name != NONE}
    return [name for name in dict.fromkeys(one.dimension for one in slices) if name not in values]


def slice_sink(options: BarOptions, columns: Columns) -> SliceSink | None:
    """`columns`: those of the table that is the input."""
    dimensions = [one.in_table(columns) for one in options.dimensions]
    return SliceSink(dimensions) if dimensions else None
