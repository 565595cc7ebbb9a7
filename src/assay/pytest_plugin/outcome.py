"""How an item ended, and what its report carries. This module imports only pytest, as every session loads it."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

CASE = "assay_case"  # the parameter that holds the case of an item
RECORD = pytest.StashKey[str]()  # of an item: its results as a JSON text
CLAIMS = pytest.StashKey[set[Path]]()  # of the session: the data files that marks name


MAX_VALUE = 40  # characters of a parameter in the name of a run


def variant_of(item: pytest.Item, own: Collection[str]) -> str:
    """
    The parameters of an item other than assay's `own`, such as `[model=small]`; "" without any.

    Each combination of them is a run of its own: its items have the same cases and another agent.
    """
    callspec: Any = getattr(item, "callspec", None)
    if callspec is None:
        return ""
    parts: list[str] = []
    for name, value in callspec.params.items():
        if name in own:
            continue
        plain = isinstance(value, str | int | float) and len(str(value)) <= MAX_VALUE
        parts.append(f"{name}={value if plain else callspec.indices[name]}")
    return f"[{', '.join(parts)}]" if parts else ""


class CaseNotPassed(Exception):
    """A case that failed or, if `measured` is False, has no verdict. The text is the report of the item."""

    def __init__(self, text: str, *, measured: bool) -> None:
        super().__init__(text)
        self.measured = measured
