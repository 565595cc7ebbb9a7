"""The table of `assay run --checks`: checks beside the scorecard, never in its score."""

from typing import Any

from assay.agenteval.scoring.task_checks import check_tally
from assay.cli import render_table
from assay.cli.console import echo
from assay.ports import Run, Store


async def show_checks(store: Store, run: Run) -> None:
    """Print the table of the checks, if the run has some."""
    tally = await check_tally(store, run.id)
    if tally.cases:
        echo("checks beside the scorecard, not part of its score:")
        seconds = ((run.ended or run.created) - (run.started or run.created)).total_seconds()
        render_table.show(tally, min_pass_rate=None, seconds=seconds, noun="task")


async def checks_document(store: Store, run: Run) -> dict[str, Any]:
    """The same for `--json`: the member `checks`; empty if the run has no such checks."""
    tally = await check_tally(store, run.id)
    return {"checks": render_table.summary_of(tally)} if tally.cases else {}
