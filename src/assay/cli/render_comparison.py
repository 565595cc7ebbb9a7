"""A comparison for a person: the verdict in the first line, then the cases that changed, slices, and what was not measured."""

from collections.abc import Sequence

from assay.cli.console import count_of
from assay.cli.console_table import Page, Table, Text, cell
from assay.comparison.compare import (
    CaseDifference,
    CaseList,
    DifferenceInterval,
    PairComparison,
    RunComparison,
    SliceDifference,
)
from assay.comparison.wording import interval_text, verdict_line
from assay.stats.unmeasured import UnmeasuredBounds

STYLES = {"improved": "bold green", "regressed": "bold red", "equivalent": "bold cyan"}
MAX_SLICES = 50  # in the table; --json has all of them
MAX_IDS = 5


def show_comparisons(compared: RunComparison) -> None:
    """Print each comparison with the first run."""
    several = len(compared.comparisons) > 1
    for at, pair in enumerate(compared.comparisons):
        if at:
            Page().put("")
        show_pair(pair, compared, name=several)


def show_pair(pair: PairComparison, compared: RunComparison, *, name: bool = False) -> None:
    """Print one comparison."""
    page, result = Page(), pair.result
    if name:
        page.put(f"{pair.baseline} → {pair.run}", "bold")
    page.put(_headline(result))
    page.put(
        f"{compared.metric}{' (lower is better)' if compared.lower_is_better else ''}:"
        f" {pair.worse:,} worse, {pair.better:,} better, {pair.unchanged:,} unchanged"
    )
    _put_changes(page, pair)
    _put_slices(page, pair.slices)
    for line in about_cases(pair):
        page.put(line, "yellow")
    if (line := power_line(pair, compared.margin)) is not None:
        page.put(line)


def _headline(result: DifferenceInterval) -> Text:
    line, word = verdict_line(result), result.verdict
    text = cell(line.removesuffix(word))
    return text.append(word, style=STYLES.get(word, "bold yellow"))


def _put_changes(page: Page, pair: PairComparison) -> None:
    for change in pair.changes:
        word, style = ("better", "green") if change.better else ("worse", "red")
        text = cell(f"  {word}  ", style)
        page.put(text.append(cell(f"{change.before:.2f} → {change.after:.2f}  {change.id}")), indent=" " * 10)
        for label, reason in _reasons(change):
            page.put_indented(f"      {label}  ", reason)
    more = pair.worse + pair.better - len(pair.changes)
    if more:
        page.put(f"  … and {more:,} more; --limit lists them")


def _reasons(change: CaseDifference) -> Sequence[tuple[str, str]]:
    found = (("before", change.reason_before), ("after ", change.reason_after))
    return [(label, reason) for label, reason in found if reason]


def _put_slices(page: Page, slices: Sequence[SliceDifference]) -> None:
    for by in dict.fromkeys(one.by for one in slices):
        every = [one for one in slices if one.by == by]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for at, name in enumerate(
            (f"by {by}", "cases", "before", "after", "difference (adjusted)", "verdict")
        ):
            table.add_column(cell(name), justify="right" if 0 < at < 5 else "left", no_wrap=True)
        for one in every[:MAX_SLICES]:
            result = one.result
            verdict = cell(result.verdict, STYLES.get(result.verdict, ""))
            table.add_row(
                one.slice,
                f"{result.cases:,}",
                "–" if result.before is None else f"{result.before:.2f}",
                "–" if result.after is None else f"{result.after:.2f}",
                interval_text(result),
                verdict,
            )
        page.put_table(table)
        if every[MAX_SLICES:]:
            page.put(f"  … and {len(every) - MAX_SLICES:,} more slices; --json has all of them")


def about_cases(pair: PairComparison) -> list[str]:
    """What a reader must know about the cases: unmeasured ones, those of one run alone, other inputs, other checks."""
    lines: list[str] = []
    bounds = pair.result.unmeasured
    if pair.unmeasured.count:
        reach = "the difference has no known limits"
        if bounds is not None and bounds.worst is not None and bounds.best is not None:
            reach = (
                f"if they were, the difference would be between {bounds.worst:+.2f} and {bounds.best:+.2f}"
                f"{_interval_bounds(bounds)}"
            )
        lines.append(f"not measured: {_names(pair.unmeasured)}; {reach}")
    if pair.only_in_baseline.count:
        lines.append(f"only in {pair.baseline}: {_names(pair.only_in_baseline)}, not compared")
    if pair.only_in_run.count:
        lines.append(f"only in {pair.run}: {_names(pair.only_in_run)}, not compared")
    if pair.other_inputs.count:
        lines.append(f"another input under the same id: {_names(pair.other_inputs)}")
    return [*lines, *(f"note: {note}" for note in pair.notes)]


def _interval_bounds(bounds: UnmeasuredBounds) -> str:
    """The limits that decide whether unmeasured cases take the verdict away."""
    if bounds.low is None or bounds.high is None:
        return ""
    return f", and its interval between {bounds.low:+.2f} and {bounds.high:+.2f}"


def power_line(pair: PairComparison, margin: float | None) -> str | None:
    """The smallest difference that this many cases can show, and how many more would settle the margin."""
    cases = count_of(pair.result.cases, "case")
    if pair.result.method == "bca":  # the power is that of means
        return None
    if pair.smallest_effect is None:
        return f"{cases} cannot show a difference reliably" if pair.verdict == "not enough data" else None
    line = f"{cases} can show a difference of {pair.smallest_effect:.2g} or more (80% power)"
    if margin is None or pair.more_cases is None:
        return line
    if pair.more_cases == 0:
        return f"{line}; they are enough for the margin of {margin:g}"
    return f"{line}; the margin of {margin:g} needs about {pair.more_cases:,} more"


def _names(cases: CaseList) -> str:
    more = f" and {cases.count - MAX_IDS:,} more" if cases.count > MAX_IDS else ""
    return f"{count_of(cases.count, 'case')} ({', '.join(cases.ids[:MAX_IDS])}{more})"
