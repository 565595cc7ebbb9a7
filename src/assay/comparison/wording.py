"""The verdict of a comparison in one line."""

from assay.comparison.compare import DifferenceInterval
from assay.stats.verdict import interval_verdict

MAX_DIGITS = 12


def verdict_line(result: DifferenceInterval) -> str:
    """`0.80 → 0.92 (+0.12, 95% 0.05…0.19, 120 cases) improved`."""
    cases = f"{result.cases:,} case{'' if result.cases == 1 else 's'}"
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
    """Two digits, or more if a limit would look like 0, both limits alike, or if the printed limits gave another verdict."""
    low, high = result.low, result.high
    if low is None or high is None:
        return 2
    exact = interval_verdict(low, high, result.margin)
    for digits in range(2, MAX_DIGITS + 1):
        limits = round(low, digits), round(high, digits)
        distinct = limits[0] != limits[1] or low == high
        readable = distinct and all(shown or not one for shown, one in zip(limits, (low, high), strict=True))
        if (readable or digits >= 4) and interval_verdict(*limits, result.margin) == exact:
            return digits
    return MAX_DIGITS
