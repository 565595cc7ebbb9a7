"""A comparison in words: the verdict in one line, the counts, and what a reader must know about the cases."""

from assay.comparison.compare import CaseList, DifferenceInterval, PairComparison, RunComparison
from assay.stats.verdict import UnmeasuredBounds, interval_verdict

MAX_DIGITS = 12
MAX_IDS = 5
MAX_SLICES = 50  # that a table for a person lists
ADJUSTED = "the worst slice first; the intervals are adjusted for the number of slices"


def verdict_line(result: DifferenceInterval) -> str:
    """`0.80 → 0.92 (+0.12, 95% 0.05…0.19, 120 cases) improved`."""
    cases = _count(result.cases, "case")
    if result.before is None or result.after is None or result.difference is None:
        return f"no case was measured in both runs: {result.verdict}"
    digits = _digits(result)
    return (
        f"{result.before:.{digits}f} → {result.after:.{digits}f} ({_difference(result.difference, digits)},"
        f" {_limits(result, digits)}, {cases}) {result.verdict}"
    )


def interval_text(result: DifferenceInterval) -> str:
    """`+0.12 (97.5% 0.05…0.19)`: for a table."""
    if result.difference is None:
        return "–"
    digits = _digits(result)
    return f"{_difference(result.difference, digits)} ({_limits(result, digits)})"


def counts_line(pair: PairComparison, compared: RunComparison) -> str:
    """`passed: 2 worse, 16 better, 102 unchanged`."""
    return (
        f"{compared.metric}{' (lower is better)' if compared.lower_is_better else ''}:"
        f" {pair.worse:,} worse, {pair.better:,} better, {pair.unchanged:,} unchanged"
    )


def about_cases(pair: PairComparison) -> list[str]:
    """What a reader must know about the cases: unmeasured ones, those of one run alone, other inputs, other checks."""
    lines: list[str] = []
    bounds = pair.result.unmeasured
    if pair.unmeasured.count:
        reach = "the difference has no known limits"
        if bounds is not None and bounds.worst is not None and bounds.best is not None:
            reach = (
                f"if they were, the difference would be between {_difference(bounds.worst, 2)} and"
                f" {_difference(bounds.best, 2)}"
                f"{_interval_bounds(bounds)}"
            )
        lines.append(f"not measured: {_names(pair.unmeasured)}; {reach}")
    if pair.only_in_baseline.count:
        lines.append(f"only in {pair.baseline_title}: {_names(pair.only_in_baseline)}, not compared")
    if pair.only_in_run.count:
        lines.append(f"only in {pair.run_title}: {_names(pair.only_in_run)}, not compared")
    if pair.other_inputs.count:
        lines.append(f"different inputs under the same id: {_names(pair.other_inputs)}")
    return [*lines, *(f"note: {note}" for note in pair.notes)]


def _interval_bounds(bounds: UnmeasuredBounds) -> str:
    """The limits that decide whether unmeasured cases take the verdict away."""
    if bounds.low is None or bounds.high is None:
        return ""
    return f", and its interval between {_difference(bounds.low, 2)} and {_difference(bounds.high, 2)}"


def power_line(pair: PairComparison, margin: float | None) -> str | None:
    """The smallest difference that this many cases can show, and how many more would settle the margin."""
    cases = _count(pair.result.cases, "case")
    if pair.result.method == "bca":  # the power is that of means
        return None
    if pair.smallest_effect is None:
        if pair.verdict in ("improved", "regressed"):
            return None
        line = f"{cases} cannot show a difference, however large (80% power)"
    else:
        line = f"{cases} can show a difference of {_two_digits(pair.smallest_effect)} or more (80% power)"
    if margin is None or pair.more_cases is None:
        return line if (advice := more_cases_text(pair)) is None else f"{line}; {advice}"
    if pair.more_cases == 0:
        return f"{line}; they are enough for the margin of {margin:g}"
    return f"{line}; the margin of {margin:g} needs about {_count(pair.more_cases, 'more case')}"


def more_cases_text(pair: PairComparison, noun: str = "case") -> str | None:
    """How many more cases would show a difference as large as the estimate. More trials would not."""
    if pair.more_to_show is None or pair.result.difference is None:
        return None
    size = _two_digits(abs(pair.result.difference))
    return f"a difference of {size} needs about {_count(pair.more_to_show, f'more {noun}')}"


def smallest_drop_text(pair: PairComparison, noun: str = "case") -> str | None:
    """The smallest drop that these cases could have shown."""
    if pair.result.method == "bca":  # the power is that of means
        return None
    cases = _count(pair.result.cases, noun)
    if pair.smallest_effect is None:
        return f"{cases} cannot show a drop, however large"
    return f"{cases} can show a drop of {_two_digits(pair.smallest_effect)} or more (80% power)"


def _names(cases: CaseList) -> str:
    if not cases.ids:
        return _count(cases.count, "case")
    more = f" and {cases.count - MAX_IDS:,} more" if cases.count > MAX_IDS else ""
    return f"{_count(cases.count, 'case')} ({', '.join(cases.ids[:MAX_IDS])}{more})"


def _two_digits(value: float) -> str:
    """Two digits that count, and never a power of ten: `0.083`, `1.5`, `110`."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.2g}" if rounded >= 0.0001 else f"{rounded:f}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _limits(result: DifferenceInterval, digits: int) -> str:
    level = f"{round(100 * result.level, 2):g}%"
    if result.low is None or result.high is None:
        return f"no {level} interval"
    return f"{level} {_signed(result.low, digits)}…{_signed(result.high, digits)}"


def _difference(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def _signed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−") if round(value, digits) else f"{0:.{digits}f}"


def _digits(result: DifferenceInterval) -> int:
    """
    Two digits, or more if a limit would look like 0, both alike, if the text gave another verdict, or if a cost that is
    not 0 would look like 0.
    """
    low, high = result.low, result.high
    least = _least_digits([one for one in (result.before, result.after, result.difference) if one])
    if low is None or high is None:
        return least
    exact = interval_verdict(low, high, result.margin)
    for digits in range(least, MAX_DIGITS + 1):
        limits = round(low, digits), round(high, digits)
        distinct = limits[0] != limits[1] or low == high
        readable = distinct and all(shown or not one for shown, one in zip(limits, (low, high), strict=True))
        if (readable or digits >= 4) and interval_verdict(*limits, result.margin) == exact:
            return digits
    return MAX_DIGITS


def _least_digits(values: list[float]) -> int:
    return next(
        (digits for digits in range(2, MAX_DIGITS) if all(round(one, digits) for one in values)), MAX_DIGITS
    )
