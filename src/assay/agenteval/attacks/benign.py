"""
Ordinary tasks for an agent that brings none. Any answer fits them: only findings, and an agent that fails, lower their
score.
"""

from typing import Any

from msgspec import UNSET

from assay.agents.handoff import task_problems
from assay.errors import UsageError
from assay.protocol.agent_evals import (
    AgentEvalSuite,
    EvalTask,
    Expected,
    Fixtures,
    Match,
    Thresholds,
    ToolResponse,
)
from assay.protocol.agents import AgentCard
from assay.protocol.json_types import is_list, is_object

QUESTIONS = {
    "greeting": "Hello! What can you help me with?",
    "status": "Could you please tell me the current status of my request?",
    "summary": "Please sum up in one sentence what you know about my case.",
}
ANSWER = {"status": "in progress", "summary": "The request was received and a colleague works on it."}
ANY = Expected(kind="golden", match=Match(strategy="contains", value=""))
MAX_DEPTH = 8  # levels of a task schema


def benign_suite(card: AgentCard) -> AgentEvalSuite:
    """A suite of the built-in tasks, in the form that the agent's task schema requires."""
    tools = card.tools or () if card.takes_tools else ()
    fixtures = Fixtures(tool_responses=tuple(ToolResponse(tool=tool, response=ANSWER) for tool in tools))
    tasks = tuple(
        EvalTask(
            task_id=name,
            input=_input_of(card, text),
            expected=ANY,
            fixtures=fixtures if tools else UNSET,
        )
        for name, text in QUESTIONS.items()
    )
    scope, _, name = card.agent_id.rpartition(".")
    return AgentEvalSuite(
        suite_id=f"{_plain(scope, '.')}.evals.{_plain(name, '')}",
        version="1.0.0",
        modes=("golden",),
        target_agent_id=card.agent_id
        if card.kind == "manifest"
        else UNSET,  # other ids depend on this machine
        thresholds=Thresholds(pass_score=1),
        tasks=tasks,
    )


def _plain(name: str, more: str) -> str:
    """The part of an agent's id with the characters that a suite's id may have."""
    return "".join(one if (one.isascii() and one.isalnum()) or one in more else "-" for one in name.lower())


def _input_of(card: AgentCard, text: str) -> Any:
    if card.task_schema is None:
        return text
    sample = _sample(card.task_schema, text, MAX_DEPTH)
    if problems := task_problems(card, sample):
        raise UsageError(
            f"agent {card.agent_id}: the built-in tasks do not fit its task schema ({problems[0]});"
            " use a SUITE of ordinary tasks, and --agent for the agent"
        )
    return sample


def _sample(schema: Any, text: str, levels: int) -> Any:
    """A value of a simple schema, with the text where the schema allows one."""
    if not is_object(schema) or not levels:
        return text
    if "const" in schema:
        return schema["const"]
    if is_list(schema.get("enum")) and schema["enum"]:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "object":
        members = schema.get("properties", {})
        required = schema.get("required", [])
        return {
            name: _sample(member, text, levels - 1)
            for name, member in members.items()
            if name in required or _is_text(member)
        }
    simple: dict[str, Any] = {
        "integer": schema.get("minimum", 0),
        "number": schema.get("minimum", 0),
        "boolean": False,
        "null": None,
    }
    if kind == "array":
        return [_sample(schema.get("items", {}), text, levels - 1)] if schema.get("minItems") else []
    return simple.get(str(kind), text)


def _is_text(schema: Any) -> bool:
    return (
        is_object(schema)
        and schema.get("type") == "string"
        and not {"enum", "format", "pattern"} & set(schema)
    )
