"""A comparison in words: the verdict in one line, the counts, and what a reader must know about the cases."""

import re
from collections.abc import Callable

from msgspec import Struct

from assay.comparison.compare import CaseList, PairComparison, RunComparison
from assay.comparison.difference import DifferenceInterval, SliceShare
from assay.comparison.metric_table import MetricDifference
from assay.errors.door import hint_of
from assay.results.slices import slice_text
from assay.stats.number_text import (
    MINUS,
    SCORE_DIGITS,
    ScaleText,
    case_value,
    format_usd,
    milliseconds_text,
    percent,
)
from assay.stats.verdict import UnmeasuredBounds, interval_verdict

MAX_DIGITS = 12
MAX_IDS = 5
NAMED = 3  # cases that a sentence names
_PLAIN_ID = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]{1,80}")
MAX_SLICES = 50  # that a table for a person lists
ADJUSTED = "the worst slice first; the intervals are adjusted for the number of slices"
ALL_ADJUSTED = "every metric; the intervals are adjusted for the number of metrics (Holm)"


def verdict_line(result: DifferenceInterval) -> str:
    """`0.800 → 0.920 (+0.120, 95% 0.052…0.187, 120 cases) improved`; of shares, `80.0% → 92.0% (+12.0 points, …`."""
    if result.before is None or result.after is None or result.difference is None:
        where = "both runs" if result.cases_before is None else "one of the runs"
        return f"no case was measured in {where}: {result.verdict}"
    scale = _scale(result)
    return (
        f"{scale.value(result.before)} → {scale.value(result.after)} ({scale.change(result.difference)},"
        f" {_limits(result, scale)}, {cases_text(result, 'case')}) {result.word}"
    )


def cases_text(result: DifferenceInterval, noun: str = "") -> str:
    """`120 cases`; `120 and 140 cases` of runs that are not paired. Without a noun, the numbers alone."""
    if result.cases_before is None or result.cases_after is None:
        return _count(result.cases, noun) if noun else f"{result.cases:,}"
    return f"{result.cases_before:,} and {result.cases_after:,}{f' {noun}s' if noun else ''}"


def interval_text(result: DifferenceInterval) -> str:
    """`+0.120 (97.5% 0.052…0.187)`: for a table."""
    if result.difference is None:
        return "–"
    scale = _scale(result)
    return f"{scale.change(result.difference)} ({_limits(result, scale)})"


def end_text(result: DifferenceInterval, value: float | None) -> str:
    """`80.0%`, `0.800`: the value of one of the runs, for a table; a dash if there is none."""
    if value is None:
        return "–"
    return percent(value) if result.share else case_value(value)


class MetricTexts(Struct, frozen=True, kw_only=True):
    """A metric in words, in its own unit: dollars, milliseconds, percent, or a number from 0 to 1."""

    metric: str
    before: str
    after: str
    difference: str
    interval: str
    verdict: str


def metric_texts(one: MetricDifference) -> MetricTexts:
    """`latency_ms:p95`, `1,200 ms`, `900 ms`, `−300 ms`, `99% −420 ms…−110 ms`, `improved`."""
    result = one.result
    unit = {"cost_usd": format_usd, "judges_usd": format_usd, "latency_ms:p95": milliseconds_text}.get(
        one.metric
    )
    known = result.before is not None and result.after is not None and result.difference is not None
    if unit is None or not known:
        scale = _scale(result)
        return MetricTexts(
            metric=one.metric,
            before="–" if result.before is None else scale.value(result.before),
            after="–" if result.after is None else scale.value(result.after),
            difference="–" if result.difference is None else scale.change(result.difference),
            interval=_limits(result, scale),
            verdict=slice_verdict(result),
        )
    level = f"{round(100 * result.level, 2):g}%"
    limits = f"no {level} interval"
    if result.low is not None and result.high is not None:
        limits = f"{level} {_with_unit(result.low, unit)}…{_with_unit(result.high, unit)}"
    return MetricTexts(
        metric=one.metric,
        before=unit(result.before or 0.0),
        after=unit(result.after or 0.0),
        difference=_with_unit(result.difference or 0.0, unit, plus="+"),
        interval=limits,
        verdict=slice_verdict(result),
    )


def _with_unit(value: float, unit: Callable[[float], str], plus: str = "") -> str:
    sign = MINUS if value < 0 else plus if value else ""
    return f"{sign}{unit(abs(value))}"


def slice_verdict(result: DifferenceInterval) -> str:
    """The verdict of a slice, for a table; and that of its measured cases, if unmeasured ones took it away."""
    alone = result.measured_verdict
    return result.word if alone is None else f"{result.word} (measured cases: {alone})"


def counts_line(pair: PairComparison, compared: RunComparison) -> str:
    """`passed: 2 worse, 16 better, 102 unchanged`; of runs that are not paired, what they share."""
    metric = f"{compared.metric}{' (lower is better)' if compared.lower_is_better else ''}"
    if pair.unpaired:
        return f"{metric}: {pairing_text(pair)}"
    return f"{metric}: {pair.worse:,} worse, {pair.better:,} better, {pair.unchanged:,} unchanged"


def pairing_text(pair: PairComparison) -> str:
    """Why the cases of two runs are not paired."""
    if not pair.in_both:
        return "no case is in both runs, so all cases of both are compared, not in pairs"
    are = "case is" if pair.in_both == 1 else "cases are"
    return (
        f"{pair.in_both:,} {are} in both runs, fewer than half of the smaller one: all cases of both are compared,"
        " not in pairs"
    )


def about_cases(pair: PairComparison) -> list[str]:
    """What a reader must know about the cases: unmeasured ones, those of one run alone, other inputs, other checks."""
    lines: list[str] = []
    bounds, scale = pair.result.unmeasured, ScaleText(pair.result.share)
    if pair.unmeasured.count:
        reach = "the difference has no known limits"
        if bounds is not None and bounds.worst is not None and bounds.best is not None:
            reach = (
                f"if they were, the difference would be between {scale.change_limit(bounds.worst)} and"
                f" {scale.change(bounds.best)}"
                f"{_interval_bounds(bounds, scale)}"
            )
        alone = pair.result.measured_verdict
        aside = "" if alone is None else f"; without them the verdict is: {alone}"
        lines.append(f"not measured: {_names(pair.unmeasured)}{aside}; {reach}")
    if pair.unpaired:
        return [*lines, *_about_mixes(pair), *(f"note: {note}" for note in pair.notes)]
    unknown = ": nothing is known of the difference" if pair.part else ""
    if pair.only_in_baseline.count:
        lines.append(f"only in {pair.baseline_title}: {_names(pair.only_in_baseline)}, not compared{unknown}")
    if pair.only_in_run.count:
        lines.append(f"only in {pair.run_title}: {_names(pair.only_in_run)}, not compared{unknown}")
    if pair.other_inputs.count:
        lines.append(f"different inputs under the same id: {_names(pair.other_inputs)}")
    return [*lines, *(f"note: {note}" for note in pair.notes)]


def differs_line(pair: PairComparison) -> str | None:
    """`the runs differ: commit 1f3a9c2b7d → 88c1d02e4f; tag prompt v1 → v2`."""
    return f"the runs differ: {'; '.join(pair.differs)}" if pair.differs else None


def _about_mixes(pair: PairComparison) -> list[str]:
    """How the cases of two runs that are not paired were chosen: sampling, slices, and what was weighted."""
    lines: list[str] = []
    standard = pair.standardized
    if standard is not None:
        weights = [f"{slice_text(one.slice)} {_share(one.share_before)}" for one in standard.slices]
        lines.append(
            f"standardized by {standard.by}: each slice counts as in {pair.baseline_title}: {_some(weights)}"
        )
    if standard is not None and standard.left_out:
        left = [f"{slice_text(one.slice)} ({_both(one)})" for one in standard.left_out]
        lines.append(f"left out, because they were not measured in both runs: {_some(left)}")
    for mix in pair.mixes:
        shares = [
            f"{slice_text(one.slice)} {_share(one.share_before)} → {_share(one.share_after)}"
            for one in mix.slices
            if one.share_before != one.share_after
        ]
        advice = (
            ""
            if standard is not None
            else f"; {hint_of('standardize-by', mix.by)} compares them with one mix"
        )
        lines.append(f"the runs have different mixes by {mix.by}: {_some(shares)}{advice}")
    if pair.sampling is not None:
        lines.append(
            f"the runs have different sampling rates: {_share(pair.sampling.before)} →"
            f" {_share(pair.sampling.after)} of all traces"
        )
    return lines


def _some(parts: list[str]) -> str:
    more = f" and {len(parts) - MAX_IDS:,} more" if len(parts) > MAX_IDS else ""
    return ", ".join(parts[:MAX_IDS]) + more


def _both(one: SliceShare) -> str:
    return f"{one.cases_before:,} and {one.cases_after:,} cases"


def _share(value: float) -> str:
    """A share in percent, with two digits that count: `60%`, `0.5%`."""
    percent = 100 * value
    return f"{percent:.0f}%" if percent >= 10 or not percent else f"{percent:.2g}%"


def _interval_bounds(bounds: UnmeasuredBounds, scale: ScaleText) -> str:
    """The limits that decide whether unmeasured cases take the verdict away."""
    if bounds.low is None or bounds.high is None:
        return ""
    return (
        f", and its interval between {scale.change_limit(bounds.low)} and {scale.change_limit(bounds.high)}"
    )


def power_line(pair: PairComparison, margin: float | None) -> str | None:
    """The smallest difference that this many cases can show, and how many more would settle the margin."""
    cases = cases_text(pair.result, "case")
    if pair.by_outcome or pair.result.method in ("bca", "none"):  # the power is that of means
        return None
    if pair.smallest_effect is None:
        if pair.verdict in ("improved", "regressed"):
            return None
        line = f"{cases} cannot show a difference, however large (80% power)"
    else:
        least = ScaleText(pair.result.share).size(pair.smallest_effect)
        line = f"{cases} can show a difference of {least} or more (80% power)"
    if margin is None or pair.more_cases is None:
        return line if (advice := more_cases_text(pair)) is None else f"{line}; {advice}"
    if pair.more_cases == 0:
        return f"{line}; they are enough for the margin of {margin:g}"
    return f"{line}; the margin of {margin:g} needs about {_more(pair, pair.more_cases, 'case')}"


def more_cases_text(pair: PairComparison, noun: str = "case") -> str | None:
    """How many more cases would show a difference as large as the estimate. More trials would not."""
    if pair.more_to_show is None or pair.result.difference is None:
        return None
    size = ScaleText(pair.result.share).size(abs(pair.result.difference))
    return f"a difference of {size} needs about {_more(pair, pair.more_to_show, noun)}"


def _more(pair: PairComparison, number: int, noun: str) -> str:
    return f"{_count(number, f'more {noun}')}{' in each run' if pair.unpaired else ''}"


def smallest_drop_text(pair: PairComparison, noun: str = "case") -> str | None:
    """The smallest drop that these cases could have shown."""
    if pair.by_outcome or pair.result.method in ("bca", "none"):  # the power is that of means
        return None
    cases = cases_text(pair.result, noun)
    if pair.smallest_effect is None:
        return f"{cases} cannot show a drop, however large"
    least = ScaleText(pair.result.share).size(pair.smallest_effect)
    return f"{cases} can show a drop of {least} or more (80% power)"


def _names(cases: CaseList) -> str:
    if not cases.ids:
        return _count(cases.count, "case")
    more = f" and {cases.count - MAX_IDS:,} more" if cases.count > MAX_IDS else ""
    return f"{_count(cases.count, 'case')} ({', '.join(cases.ids[:MAX_IDS])}{more})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _limits(result: DifferenceInterval, scale: ScaleText) -> str:
    level = f"{round(100 * result.level, 2):g}%"
    if result.low is None or result.high is None:
        return f"no {level} interval"
    return f"{level} {scale.limit(result.low)}…{scale.limit(result.high)}"


def _scale(result: DifferenceInterval) -> ScaleText:
    return ScaleText(result.share, _digits(result))


def _digits(result: DifferenceInterval) -> int:
    """
    The digits of a score, or more if a limit would look like 0, both alike, if the text gave another verdict, or if a
    cost that is not 0 would look like 0.
    """
    low, high = result.low, result.high
    least = _least_digits([one or 0.0 for one in (result.before, result.after, result.difference)])
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
    """The digits with which no value looks like 0. One that has no such digits is 0 and an error of rounding."""
    visible = [one for one in values if round(one, MAX_DIGITS)]
    return next(
        (digits for digits in range(SCORE_DIGITS, MAX_DIGITS) if all(round(one, digits) for one in visible)),
        MAX_DIGITS,
    )


def named_cases(ids: tuple[str, ...], count: int) -> str:
    """
    The first ids of some cases.

    The reason is a message of assay, which a program may obey. An id of several words is a text of the dataset, so it
    is counted here and stands in the lists of the document.
    """
    plain = [id for id in ids if _PLAIN_ID.fullmatch(id)][:NAMED]
    if not plain:
        return "their ids are texts"
    return ", ".join(plain) + (f" and {count - len(plain):,} more" if count > len(plain) else "")
