"""Refusals of a store: its database does not answer, or the content was erased."""

from assay.errors import EnvironmentFailure, NotFound


class DatabaseUnavailable(EnvironmentFailure):
    """The database did not answer in time. It may be back soon."""


class Erased(NotFound):
    """The run exists, but its content was erased."""

    def __init__(self, run: str, moment: str, by: str = "") -> None:
        """`by`: the policy that removed it; "": a person asked for it."""
        plain = f"the content of run {run} was erased{f' at {moment}' if moment else ''}"
        super().__init__(f"run {run}: evidence removed by {by} on {moment[:10]}" if by else plain)
        details = {"reason": "erased", "erasedAt": moment, "erasedBy": by}
        self._details = {name: value for name, value in details.items() if value}
