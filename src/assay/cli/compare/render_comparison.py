"""
A comparison for a person: the verdict in the first line, then slices, the cases that changed, and what was not
measured.
"""

from collections.abc import Sequence

from assay.cli.console.console_table import Page, Table, Text, cell
from assay.comparison.compare import CaseDifference, PairComparison, RunComparison
from assay.comparison.difference import NO_CHANGE, DifferenceInterval, SliceDifference
from assay.comparison.wording import (
    ADJUSTED,
    ALL_ADJUSTED,
    MAX_SLICES,
    about_cases,
    cases_text,
    counts_line,
    differs_line,
    end_text,
    interval_text,
    metric_texts,
    power_line,
    slice_verdict,
    verdict_line,
)
from assay.results.slices import slice_text
from assay.stats.number_text import case_value

STYLES = {
    "improved": "bold green",
    "regressed": "bold red",
    "equivalent": "bold cyan",
    NO_CHANGE: "bold cyan",
}


def show_comparisons(compared: RunComparison, *, names: bool = False) -> None:
    """Print each comparison with the first run. `names`: say which runs these are, as it does for several."""
    several = names or len(compared.comparisons) > 1
    for at, pair in enumerate(compared.comparisons):
        if at:
            Page().put("")
        show_pair(pair, compared, name=several)


def show_pair(pair: PairComparison, compared: RunComparison, *, name: bool = False) -> None:
    """Print one comparison."""
    page, result = Page(), pair.result
    if name:
        page.put(f"{pair.baseline_title} → {pair.run_title}", "bold")
    page.put(_headline(result))
    page.put(counts_line(pair, compared))
    if (differs := differs_line(pair)) is not None:
        page.put(differs)
    _put_metrics(page, pair)
    _put_slices(page, pair.slices)
    _put_changes(page, pair)
    for line in about_cases(pair):
        page.put(line, "yellow")
    if (line := power_line(pair, compared.margin)) is not None:
        page.put(line)


def _headline(result: DifferenceInterval) -> Text:
    line, word = verdict_line(result), result.word
    text = cell(line.removesuffix(word))
    return text.append(word, style=STYLES.get(word, "bold yellow"))


def _put_changes(page: Page, pair: PairComparison) -> None:
    for change in pair.changes:
        word, style = ("better", "green") if change.better else ("worse", "red")
        text = cell(f"  {word}  ", style)
        page.put(
            text.append(cell(f"{case_value(change.before)} → {case_value(change.after)}  {change.id}")),
            indent=" " * 10,
        )
        for label, reason in _reasons(change):
            page.put_indented(f"      {label}  ", reason)
    more = pair.worse + pair.better - len(pair.changes)
    if more:
        page.put(f"  … and {more:,} more; --limit lists them")


def _reasons(change: CaseDifference) -> Sequence[tuple[str, str]]:
    found = (("before", change.data.reason_before), ("after ", change.data.reason_after))
    return [(label, reason) for label, reason in found if reason]


def _put_metrics(page: Page, pair: PairComparison) -> None:
    if not pair.metrics:
        return
    page.put(ALL_ADJUSTED)
    table = Table(header_style="bold")
    for at, name in enumerate(("metric", "cases", "before", "after", "difference", "interval", "verdict")):
        table.add_column(cell(name), justify="right" if 0 < at < 6 else "left", no_wrap=True)
    for one in pair.metrics:
        texts = metric_texts(one)
        name = f"{texts.metric} (lower is better)" if one.lower_is_better else texts.metric
        verdict = cell(texts.verdict, STYLES.get(one.result.word, ""))
        numbers = (cases_text(one.result), texts.before, texts.after, texts.difference, texts.interval)
        table.add_row(name, *numbers, verdict)
    page.put_table(table)


def _put_slices(page: Page, slices: Sequence[SliceDifference]) -> None:
    for by in dict.fromkeys(one.by for one in slices):
        every = [one for one in slices if one.by == by]
        page.put(f"by {by}: {ADJUSTED}")
        table = Table(header_style="bold")
        for at, name in enumerate((by, "cases", "before", "after", "difference", "verdict")):
            table.add_column(cell(name), justify="right" if 0 < at < 5 else "left", no_wrap=True)
        for one in every[:MAX_SLICES]:
            result = one.result
            verdict = cell(slice_verdict(result), STYLES.get(result.word, ""))
            table.add_row(
                slice_text(one.slice),
                cases_text(result),
                end_text(result, result.before),
                end_text(result, result.after),
                interval_text(result),
                verdict,
            )
        page.put_table(table)
        if every[MAX_SLICES:]:
            page.put(f"  … and {len(every) - MAX_SLICES:,} more slices; --json has all of them")
