"""The table of slices, and a line for every bar of a check or a slice."""

from collections.abc import Sequence

from assay.cli.bars import OPTION, BarResult
from assay.cli.console_table import Page, Table, cell
from assay.cli.render_table import method_names
from assay.cli.repeats import rate
from assay.results.slices import SliceRates
from assay.stats.number_text import percent

MAX_ROWS = 50  # slices in the table; --json has all of them


def show_slices(slices: Sequence[SliceRates]) -> None:
    """Print a table for each dimension: the share of cases that passed all their checks, and the share of checks."""
    for dimension in dict.fromkeys(one.dimension for one in slices):
        page, every = Page(), [one for one in slices if one.dimension == dimension]
        table = Table(header_style="bold")
        names = (
            f"by {dimension}",
            "cases",
            f"cases passed (95% {method_names(one.case_pass_rate for one in every)})",
            f"checks passed (95% {method_names(one.pass_rate for one in every)})",
        )
        for at, name in enumerate(names):
            table.add_column(cell(name), justify="right" if at else "left", no_wrap=True)
        for one in every[:MAX_ROWS]:
            rated = one.case_pass_rate
            table.add_row(one.name, f"{rated.cases:,}" if rated else "–", rate(rated), rate(one.pass_rate))
        page.put_table(table)
        if every[MAX_ROWS:]:
            page.put(f"  … and {len(every) - MAX_ROWS:,} more slices; --json has all of them")


def bar_line(result: BarResult) -> str:
    """`contains 91.0%, below the bar of 95.0%`."""
    if result.share is None:
        return unmeasured_line(result)
    verdict = "at least" if result.passed else "below"
    return (
        f"{result.bar.target or 'pass rate'} {percent(result.share)}, {verdict} the bar of "
        f"{percent(result.bar.minimum)}"
    )


def unmeasured_line(result: BarResult) -> str:
    target = f" {result.bar.target}" if result.bar.target else ""
    return f"{OPTION}{target}: nothing was measured, so there is no pass rate: {result.problem}"


def show_bars(results: Sequence[BarResult]) -> None:
    """Print the bars of checks and slices. The overall bar is beside the overall rate."""
    page = Page()
    for one in results:
        if one.bar.target and one.share is not None:
            page.put(bar_line(one), "" if one.passed else "red")
