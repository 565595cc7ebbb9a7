"""The modes there are (RFC 0081 §D): this table drives what a host offers, and what each needs."""

from assay.agenteval.modes.golden import GOLDEN
from assay.agenteval.modes.live_shadow import LIVE_SHADOW
from assay.agenteval.modes.mode import Mode
from assay.agenteval.modes.regression import REGRESSION
from assay.agenteval.modes.rubric import RUBRIC

MODES: dict[str, Mode] = {mode.name: mode for mode in (GOLDEN, RUBRIC, REGRESSION, LIVE_SHADOW)}


def offered(*, judge: bool) -> list[str]:
    """Those that work here."""
    return [name for name, mode in MODES.items() if judge or not mode.judge]
