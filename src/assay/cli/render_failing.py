"""The end of `assay evaluate`: the first cases that did not pass, and why."""

from assay.cli.console_table import Page
from assay.fep.outputs.failing_cases import FailingCase, FailingCases

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
    """`, trial 0` or `, trials 0, 1 and 3`; of many the first ones and the number of the others."""
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f", trial {numbers[0]}"
    listed, last = numbers[:-1], str(numbers[-1])
    if len(numbers) > MAX_TRIALS:
        listed, last = numbers[:MAX_TRIALS], f"{len(numbers) - MAX_TRIALS} more"
    return f", trials {', '.join(map(str, listed))} and {last}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_REASON else f"{line[: MAX_REASON - 1]}…"
