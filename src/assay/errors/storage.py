"""Refusals of a store: its database does not answer, or the content was erased."""

from collections.abc import Sequence

from assay.errors import EnvironmentFailure, NotFound, RunNotFinished


class DatabaseUnavailable(EnvironmentFailure):
    """The database did not answer in time. It may be back soon."""


class Erased(NotFound):
    """The run exists, but its content was erased."""

    def __init__(self, run: str, moment: str, by: str = "") -> None:
        """`by`: what removed it, `retention` or `deletion`; "": a person erased this run."""
        text = f"the content of run {run} was erased{f' at {moment}' if moment else ''}"
        if by == "deletion":
            text = f"run {run}: its content was deleted on {moment[:10]}, with all content of its tenant"
        elif by:
            text = f"run {run}: evidence removed by {by} on {moment[:10]}"
        super().__init__(text)
        details = {"reason": "erased", "erasedAt": moment, "erasedBy": by}
        self._details = {name: value for name, value in details.items() if value}


def open_runs_refusal(tenant: str, runs: Sequence[str], count: int) -> RunNotFinished:
    """Runs of the tenant have not ended, so its content cannot be deleted."""
    more = f" and {count - len(runs)} more" if count > len(runs) else ""
    return RunNotFinished(
        f"tenant {tenant!r}: expected no open runs, got {count}: {', '.join(runs)}{more}. Revoke the keys "
        "of the tenant, cancel these "
        "runs or wait for their end, and repeat the deletion; nothing was deleted",
        "open",
    )
