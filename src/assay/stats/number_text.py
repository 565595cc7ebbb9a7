"""Numbers as a person reads them: the same text in the terminal, on the page and in every report (ADR-0106)."""

from math import floor, log10
from typing import Literal, NamedTuple

from assay.stats.intervals import Rate

Scale = Literal["rate", "score", "number"]  # a share in percent, a score from 0 to 1, any number


SCORE_DIGITS = 3
MINUS = "\u2212"  # as long as a plus, and no dash of a range


def fixed(value: float, digits: int) -> str:
    """`−0.25`: to these digits, and never `−0.00`."""
    return _signed(f"{value:.{digits}f}" if round(value, digits) else f"{0:.{digits}f}")


def change_text(value: float, digits: int) -> str:
    """`+0.12`, `−0.25`: a difference always has its sign."""
    return _signed(f"{value if round(value, digits) else 0:+.{digits}f}")


def _signed(text: str) -> str:
    """The text of a number with the one sign for minus; a power of ten stays as it is."""
    return f"{MINUS}{text[1:]}" if text.startswith("-") else text


def percent(share: float) -> str:
    """`83.3%`. A share below 1 never reads 100.0%, and a share above 0 never reads 0.0%."""
    text = f"{_hundredfold(share, SCORE_DIGITS):.1f}"
    if text == "100.0" and share < 1:
        text = ">99.9"
    elif text == "0.0" and share > 0:
        text = "<0.1"
    return f"{text}%"


def _hundredfold(share: float, digits: int) -> float:
    """
    A share in percent, rounded as a score of so many digits is: 0.833 is 83.3, and a product with 100 could fall on the
    other side of a half.
    """
    return float(f"{share:.{digits}f}") * 100


class ScaleText(NamedTuple):
    """
    The numbers of a comparison, all to so many digits of a fraction. Shares of cases are percentages, and their
    differences are in points; other numbers stay as they are (ADR-0308).
    """

    is_share: bool
    digits: int = SCORE_DIGITS

    def value(self, value: float) -> str:
        """`83.3%`, or `0.833`."""
        return f"{self.limit(value)}%" if self.is_share else fixed(value, self.digits)

    def limit(self, value: float) -> str:
        """`83.3` of a share: the sentence around it says of what."""
        return (
            fixed(_hundredfold(value, self.digits), self.digits - 2)
            if self.is_share
            else fixed(value, self.digits)
        )

    def change(self, value: float) -> str:
        """`+12.5 points`, or `+0.125`."""
        return f"{self.change_limit(value)} points" if self.is_share else change_text(value, self.digits)

    def change_limit(self, value: float) -> str:
        """`+12.5` of a share."""
        return (
            change_text(_hundredfold(value, self.digits), self.digits - 2)
            if self.is_share
            else change_text(value, self.digits)
        )

    def size(self, value: float) -> str:
        """`11 points`, or `0.11`: how large a difference is, to two digits that count."""
        return f"{two_digits(100 * value)} points" if self.is_share else two_digits(value)


IN_POINTS = ScaleText(is_share=True)


def score_text(score: float | None) -> str:
    """`0.833`. A score below 1 never reads 1.000, and a score above 0 never reads 0.000. None: nothing was measured."""
    if score is None:
        return "not measured"
    text = fixed(score, SCORE_DIGITS)
    if text == "1.000" and score < 1:
        return ">0.999"
    return "<0.001" if text == "0.000" and score > 0 else text


def value_text(value: float, scale: Scale) -> str:
    """A number on its scale."""
    if scale == "number":
        return _signed(f"{value:.4g}")
    return percent(value) if scale == "rate" else score_text(value)


def case_value(value: float) -> str:
    """`0.812`: the value of a case or a mean of them; `12.5`, `1,234`: a number that is no score, as a time."""
    if abs(value) >= 1000:
        return _signed(f"{value:,.0f}")
    if value and abs(value) < 10**-SCORE_DIGITS:
        return two_digits(value)
    return score_text(value) if abs(value) <= 1 else _signed(f"{value:.4g}")


def two_digits(value: float) -> str:
    """Two digits that count, and never a power of ten: `0.083`, `1.5`, `110`."""
    if not value:
        return "0"
    rounded = float(f"{value:.2g}")
    size = abs(rounded)
    return _signed(
        f"{rounded:,.0f}"
        if size >= 10
        else f"{rounded:.2g}"
        if size >= 0.0001
        else f"{rounded:.12f}".rstrip("0")
    )


def trial_text(trial: int) -> str:
    """`trial 2`: a record counts trials from 0, and a reader from 1."""
    return f"trial {trial + 1}"


def confidence_text(share: float) -> str:
    """`90%`."""
    return f"{share:.0%}"


def rate_problem(number: float) -> str | None:
    """Why a number is not the bar of a pass rate; None if it is one."""
    if 0 <= number <= 1:
        return None
    hint = f"; did you mean {number / 100:g}?" if 1 < number <= 100 else ""
    return f"expected a fraction between 0 and 1, such as 0.9, got {number:g}{hint}"


def range_text(low: float | None, high: float | None, scale: Scale, between: str = "–") -> str:
    """`57.1–94.9%`: the ends of an interval; a dash if there is none."""
    if low is None or high is None:
        return "–"
    first = value_text(low, scale)
    return f"{first.removesuffix('%')}{between}{value_text(high, scale)}"


def rate_text(rate: Rate | None) -> str:
    """`83.3% (57.1–94.9%)`: a rate with its 95% interval; a dash if nothing was measured."""
    return "–" if rate is None else f"{percent(rate.rate)} ({range_text(rate.low, rate.high, 'rate')})"


def points_text(difference: float, low: float, high: float) -> str:
    """`−12.3 points (−20.1…−4.0)`: the difference of two rates in percentage points, with its interval."""
    limits = f"{IN_POINTS.change_limit(low)}…{IN_POINTS.change_limit(high)}"
    return f"{IN_POINTS.change(difference)} ({limits})"


def format_usd(amount: float) -> str:
    """`$12.30`, `$0.0153`, `$0.0000021`: to three digits, never as a power of ten; `−$0.50` of a saving."""
    if amount < 0:
        return f"{MINUS}{format_usd(-amount)}"
    if amount == 0 or amount >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.{2 - floor(log10(amount))}f}"


def cost_text(known_usd: float, unknown: int) -> str:
    """`$0.0153`; `at least $0.0153` if a cost is not known; `unknown` if none is."""
    if not unknown:
        return format_usd(known_usd)
    return f"at least {format_usd(known_usd)}" if known_usd else "unknown"


def milliseconds_text(milliseconds: float) -> str:
    """`1,234 ms`; below one millisecond with two digits."""
    return f"{milliseconds:.2g} ms" if 0 < milliseconds < 1 else f"{milliseconds:,.0f} ms"
