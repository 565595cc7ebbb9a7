"""Agents and a suite of our own for a conformance suite (contract §10.3, §10.6): real ones, put to work the way all others are."""

from contextlib import suppress
from typing import Any

from assay.ports.agents import AgentContext, ToolFailure
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.json_types import JSON, is_object

SAMPLE, STRICT = "local.assay.sample", "local.assay.strict"
SUITE = "local.assay.evals.sample"
STRICT_SCHEMA = "conformance-strict-handoff"
RETURN: JSON = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}


class SampleAgent:
    """Says what it is told to say; told to reach for a tool, it does, and goes on without it."""

    card = AgentCard(agent_id=SAMPLE, label="Sample", kind="sample", free=True, tools=())

    async def invoke(self, task: Any, scene: AgentContext) -> InvocationResult:
        told: JSON = task if is_object(task) else {"say": task}
        if "attemptTool" in told:
            with suppress(ToolFailure):  # it is not one of its own
                await scene.call(str(told["attemptTool"]), {})
        return InvocationResult(outcome="completed", result=told.get("say"))

    async def close(self) -> None: ...


class StrictAgent(SampleAgent):
    """The same, with a promise about what it returns."""

    card = AgentCard(
        agent_id=STRICT, label="Strict sample", kind="sample", free=True, tools=(), return_schema=RETURN
    )


SAMPLES = (SampleAgent(), StrictAgent())


def sample_suite(tasks: int = 2) -> JSON:
    """Of so many golden tasks; a version stands for one content."""
    return {
        "suiteId": SUITE,
        "version": f"1.0.{tasks - 2}" if tasks >= 2 else "0.9.0",
        "modes": ["golden"],
        "tasks": [
            _task(f"say-{at + 1}", {"say": f"answer {at + 1}"}, f"answer {at + 1}") for at in range(tasks)
        ],
    }


def invocation_suite(name: str, said: Any, attempt: str | None) -> JSON:
    """One task, for one invocation."""
    told: JSON = {"say": said} | ({} if attempt is None else {"attemptTool": attempt})
    task = _task("invoke", told, said)
    return {"suiteId": f"local.assay.evals.{name}", "version": "1.0.0", "modes": ["golden"], "tasks": [task]}


def _task(id: str, told: JSON, wanted: Any) -> JSON:
    match = {"strategy": "json-match", "value": wanted}
    return {"taskId": id, "input": told, "expected": {"kind": "golden", "match": match}}
