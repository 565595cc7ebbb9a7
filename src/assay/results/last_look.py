"""
The last look of a run that stops when it has decided, in the metadata of the run (ADR-0241).

The terminal, the page and every document read the same numbers: while the run goes on, and after its end.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from assay.stats.stopping import Look

MEMBER = "until"  # of the metadata of a run


class LastLook(Struct, frozen=True, kw_only=True):
    """
    Numbers alone. `cases`: those that the look saw, measured or not, of `total`. `bar`: of a rate; None: the look is at
    the difference to a baseline.
    """

    look: Look
    bar: float | None
    rounds: int
    cases: int
    total: int

    @property
    def metadata(self) -> dict[str, Any]:
        """The member of the metadata of the run."""
        return {MEMBER: msgspec.to_builtins(self)}

    @property
    def text(self) -> str:
        """The look in words; empty: nothing is measured."""
        return self.look.text(is_rate=self.bar is not None)


def look_in(metadata: Mapping[str, Any]) -> LastLook | None:
    """The last look that the metadata of a run has; None: there was none."""
    try:
        return msgspec.convert(metadata[MEMBER], LastLook) if MEMBER in metadata else None
    except msgspec.ValidationError:
        return None
