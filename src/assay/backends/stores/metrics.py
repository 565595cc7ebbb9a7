"""The metrics of a commit."""

from assay.backends.stores.transactions import Changes
from assay.ports import CLOSED
from assay.ports.telemetry import telemetry


def count_commit(changes: Changes, seconds: float) -> None:
    if not telemetry.on:
        return
    telemetry.observe("assay_commit_seconds", seconds)
    if changes.events:
        telemetry.add("assay_events", len(changes.events))
    for run in changes.runs.values():
        if run.status in CLOSED:
            telemetry.add("assay_runs", 1, run.kind, run.status)
