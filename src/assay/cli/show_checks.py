"""The checks beside the score of a task, for `assay show`."""

import msgspec

from assay.agenteval.task_checks import recorded_checks
from assay.cli.show_case import ShownCase
from assay.ports import Run, Store


async def add_checks(store: Store, run: Run, cases: list[ShownCase]) -> None:
    """Read the results of `assay run --checks` for these trials."""
    by_trial = {(case.id, case.trial or 0): case for case in cases}
    async for line in recorded_checks(store, run.id):
        result = msgspec.json.decode(line)
        context = result["execution_context"]
        trial = context["test_case"]["id"], context["output"]["metadata"]["trial"]
        if trial in by_trial:
            by_trial[trial].beside = result["check_results"]
