"""What a mode is: which tasks it covers, and what it needs before anything runs (RFC 0081 §D, contract §3.2, §6.3)."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from assay.agenteval.request import EvalFacts, EvalRequest, no_requirement
from assay.protocol.suite import AgentEvalSuite, EvalTask

Tasks = tuple[EvalTask, ...]
ModeCheck = Callable[[EvalRequest, EvalFacts, AgentEvalSuite, Tasks], None]


class Mode(Struct, frozen=True, kw_only=True):
    """One row of MODES. `meet` refuses what it cannot be run with; `last` is asked after everything else was."""

    name: str
    covers: Literal["golden", "rubric"] | None = None  # the kind of task it selects; None selects nothing
    judge: bool = False  # not offered without one
    live: bool = False  # the world's tools and memory, no fixtures
    meet: ModeCheck = no_requirement
    last: ModeCheck = no_requirement
