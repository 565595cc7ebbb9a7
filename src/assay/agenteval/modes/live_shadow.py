"""live-shadow (contract §6.2): the world's tools and memory instead of fixtures, for the whole run."""

from msgspec import UNSET

from assay.agenteval.modes.mode import Mode, Tasks
from assay.agenteval.request import EvalFacts, EvalRequest
from assay.errors import EvalRefused, Problem
from assay.protocol.suite import AgentEvalSuite


def check_live_shadow(asked: EvalRequest, known: EvalFacts, suite: AgentEvalSuite, tasks: Tasks) -> None:
    """A tool that only fixtures answer cannot be called live."""
    lacking = {
        task.task_id: tools
        for task in tasks
        if task.fixtures is not UNSET
        and (tools := {one.tool for one in task.fixtures.tool_responses} - known.live_tools)
    }
    if lacking:
        named = ", ".join(sorted({tool for tools in lacking.values() for tool in tools}))
        raise EvalRefused(
            Problem("tasks", f"live-shadow asks live tools, and {named} is only known from fixtures"),
            tasks=list(lacking),
        )


LIVE_SHADOW = Mode(name="live-shadow", live=True, last=check_live_shadow)
