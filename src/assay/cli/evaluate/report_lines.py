"""The end of `assay evaluate`: the first cases that did not pass, and why."""

from collections.abc import Sequence

from assay.cli.console.console_table import Page, Table, cell
from assay.cli.evaluate.bars import OPTION, BarResult
from assay.fep.outputs.failing_cases import FailingCase, FailingCases
from assay.results.slices import SliceRates
from assay.stats.number_text import percent, rate_text, trial_text

MAX_REASON = 300  # characters
MAX_TRIALS = 5  # numbers of trials in a line


def show_failing(failing: FailingCases, run: str | None) -> None:
    """Print a line for each case and check. `run` is the id of the stored run; None: it is not stored."""
    if not failing.cases:
        return
    page = Page()
    page.put("did not pass:" if failing.complete else "the first that did not pass:")
    for case in failing.cases:
        for line in _lines(case):
            page.put(f"  {line}", indent="      ")
    if not failing.complete and run is None:
        page.put("  … all: -o results.csv writes them; --save stores the run, and assay show explains it")


def _lines(case: FailingCase) -> list[str]:
    name = f"{case.id}{_trials(case.trials)}"
    lines = [f"{name}: {failed.check}: {_short(failed.reason)}" for failed in case.checks]
    return [*lines, f"{name}: {case.more} more of its checks"] if case.more else lines


def _trials(numbers: list[int]) -> str:
    """`, trial 1` or `, trials 1, 2 and 4`; of many the first ones and the number of the others."""
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f", {trial_text(numbers[0])}"
    shown = [str(number + 1) for number in numbers]
    listed, last = shown[:-1], shown[-1]
    if len(numbers) > MAX_TRIALS:
        listed, last = shown[:MAX_TRIALS], f"{len(numbers) - MAX_TRIALS} more"
    return f", trials {', '.join(listed)} and {last}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_REASON else f"{line[: MAX_REASON - 1]}…"


# The table of slices, and a line for every bar of a check or a slice.

MAX_ROWS = 50  # slices in the table; --json has all of them


def show_slices(slices: Sequence[SliceRates]) -> None:
    """Print a table for each dimension: the share of cases that passed all their checks, and the share of checks."""
    for dimension in dict.fromkeys(one.dimension for one in slices):
        page, every = Page(), [one for one in slices if one.dimension == dimension]
        table = Table(header_style="bold")
        names = (
            f"by {dimension}",
            "cases",
            "cases passed (95%)",
            "checks passed (95%)",
        )
        for at, name in enumerate(names):
            table.add_column(cell(name), justify="right" if at else "left", no_wrap=True)
        for one in every[:MAX_ROWS]:
            rated = one.case_pass_rate
            table.add_row(
                one.name, f"{rated.cases:,}" if rated else "–", rate_text(rated), rate_text(one.pass_rate)
            )
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
