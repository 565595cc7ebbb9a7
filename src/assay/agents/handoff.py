"""Hand-off schemas (RFC 0003, openwop-contract §6.3): one validates tasks before an invocation, one results."""

from typing import Any

import msgspec

from assay.checks.schema_validator import format_path, validator_for
from assay.errors import Problem, ValueFault
from assay.ports import Limits
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.foreign_values import json_value
from assay.protocol.json_types import is_deeper, is_finite

SHOWN = 5
THRESHOLD = 0.7
DEEPEST = Limits().max_depth


def task_problems(card: AgentCard, task: Any, path: str = "input") -> list[Problem]:
    """The problems of a task by the agent's task schema. The planner refuses the run for them."""
    return [] if card.task_schema is None else _problems(card.task_schema, task, path)


def validate_result(
    card: AgentCard, finish: InvocationResult, min_confidence: float | None = None, max_depth: int = DEEPEST
) -> InvocationResult:
    """
    Validate the result of an invocation against the agent's return schema.

    A result that is not JSON makes it `failed`, and so does one that breaks the schema, which is kept with it. A
    confidence below the floor, else the agent's own threshold, else 0.7, makes it `escalated` (openwop-contract §8.4).
    """
    finish = as_json(finish, max_depth)
    if finish.outcome != "completed":
        return finish
    valid = None
    if card.return_schema is not None:
        if problems := _problems(card.return_schema, finish.result, "result"):
            why = "; ".join(map(str, problems))
            return msgspec.structs.replace(finish, outcome="failed", error=why, schema_validated=False)
        valid = True
    if min_confidence is None:
        min_confidence = THRESHOLD if card.threshold is None else card.threshold
    low = finish.confidence is not None and finish.confidence < min_confidence
    return msgspec.structs.replace(
        finish, outcome="escalated" if low else "completed", schema_validated=valid
    )


def as_json(finish: InvocationResult, max_depth: int = DEEPEST) -> InvocationResult:
    """The result of an invocation as JSON has it. One that JSON does not have makes it `failed`."""
    if finish.outcome != "completed":
        return finish
    if not is_finite(finish.result):
        return _as_failed(finish, "the result is not JSON: it has a number that is not finite")
    try:
        result = msgspec.json.decode(msgspec.json.encode(finish.result, enc_hook=json_value))
    except (TypeError, ValueError, OverflowError, RecursionError) as wrong:
        return _as_failed(finish, f"the result is not JSON: {wrong}")
    if is_deeper(result, max_depth):
        return _as_failed(
            finish, f"the result is nested more than {max_depth} deep, which is the limit (ASSAY_MAX_DEPTH)"
        )
    return msgspec.structs.replace(finish, result=result)


def _as_failed(finish: InvocationResult, message: str) -> InvocationResult:
    return msgspec.structs.replace(finish, outcome="failed", result=msgspec.UNSET, error=message)


def _problems(schema: dict[str, Any], value: Any, path: str) -> list[Problem]:
    try:
        validator = validator_for(msgspec.json.encode(schema))
    except ValueError as wrong:
        return [Problem(path, f"expected a JSON Schema for the hand-off, got {wrong}")]
    try:
        return [Problem(path + format_path(one.path), one.message) for one in validator.errors(value, SHOWN)]
    except ValueFault as beyond:
        return [Problem(path, str(beyond))]
