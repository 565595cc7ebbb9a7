"""How an item ended, and what its report carries. This module imports only pytest, as every session loads it."""

from pathlib import Path

import pytest

RECORD = pytest.StashKey[str]()  # of an item: its results as a JSON text
CLAIMS = pytest.StashKey[set[Path]]()  # of the session: the data files that marks name


class CaseNotPassed(Exception):
    """A case that failed or, if `measured` is False, has no verdict. The text is the report of the item."""

    def __init__(self, text: str, *, measured: bool) -> None:
        super().__init__(text)
        self.measured = measured
