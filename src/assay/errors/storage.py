"""Refusals of a store: its database does not answer, or the content was erased."""

from assay.errors import EnvironmentFailure, NotFound


class DatabaseUnavailable(EnvironmentFailure):
    """The database did not answer in time. It may be back soon."""


class Erased(NotFound):
    """The run exists, but its content was erased."""

    def __init__(self, run: str, moment: str) -> None:
        super().__init__(f"the content of run {run} was erased{f' at {moment}' if moment else ''}")
        self._details = {"reason": "erased"} | ({"erasedAt": moment} if moment else {})
