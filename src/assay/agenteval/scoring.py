"""Scores a task (openwop-contract §6.3): its expectation becomes FEP checks, and only checks score."""

from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.rubric import criteria_met, judge_check, rubric_score
from assay.inputs.context import Context
from assay.protocol.agent_evals import EvalTask, Match
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.canonical import canonical
from assay.protocol.evaluation import Check
from assay.protocol.json_types import JSON
from assay.protocol.results import CheckResult

PASS_SCORE = 0.7  # if the suite has none
ENDED = Check(type="exact_match", arguments={"actual": "$.output.metadata.outcome", "expected": "completed"})
_encode = msgspec.json.Encoder().encode


def has_answer(finish: InvocationResult) -> bool:
    """Whether there is an answer to score. An invocation that failed or refused is measured too."""
    return finish.outcome not in ("failed", "refused") and finish.result is not UNSET


def context_of(task: EvalTask, finish: InvocationResult, metadata: JSON, checks: list[Check]) -> Context:
    """A task and its result, as an FEP test case with its output."""
    case: JSON = {"id": task.task_id, "input": task.input}
    expected = task.expected
    if expected.match is not UNSET:
        case["expected"] = expected.match.value
    elif expected.rubric is not UNSET:
        case["expected"] = [msgspec.to_builtins(one) for one in expected.rubric]
    value = None if finish.result is UNSET else finish.result
    document: JSON = {"test_case": case, "output": {"value": value, "metadata": metadata}}
    return Context(_encode(document), document, checks)


def checks_of(task: EvalTask, finish: InvocationResult, card: AgentCard, judge: JSON) -> list[Check]:
    """
    The checks this task is put to. The last one scores; those before it must hold.

    An invocation without an answer is put to one question: whether it ended.
    """
    handed = card.return_schema is not None and finish.result is not UNSET
    gates = [Check(type="json_schema", arguments={"value": "$.output.value", "schema": card.return_schema})]
    if not has_answer(finish):
        return gates if handed and finish.schema_validated is False else [ENDED]
    expected = task.expected
    assert expected.match is not UNSET or expected.rubric is not UNSET
    scorer = (
        golden_check(expected.match, finish.result)
        if expected.match is not UNSET
        else judge_check(len(expected.rubric or ()), judge)
    )
    return [*(gates if handed else []), scorer]


def golden_check(match: Match, result: Any) -> Check:
    """
    exact, contains, json-match: without trimming or case folding. A value that is not a text is compared as canonical
    JSON.
    """
    if match.strategy == "json-match":
        actual: Any = "$.output.value"
        if isinstance(result, str) and not isinstance(match.value, str):
            actual = _parse_json(result)
        return Check(type="json_match", arguments={"actual": actual, "expected": "$.test_case.expected"})
    seen = "$.output.value" if result is not None else "null"  # a path refuses null where a text is wanted
    if match.strategy == "exact":
        wanted = "$.test_case.expected" if match.value is not None else "null"
        return Check(type="exact_match", arguments={"actual": seen, "expected": wanted})
    phrase = text_of(match.value)
    if not phrase:  # every text contains the empty one, and the check takes none
        return Check(type="regex", arguments={"text": seen, "pattern": ""})
    return Check(type="contains", arguments={"text": seen, "phrases": [phrase]})


def text_of(value: Any) -> str:
    """The string form: a string as it is, anything else canonical JSON, null included."""
    return value if isinstance(value, str) else canonical(value)


def _parse_json(text: str) -> Any:
    """The JSON that a text holds, or the text itself."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = text
    return f"\\{value}" if isinstance(value, str) and value.startswith("$.") else value


def score_of(task: EvalTask, results: list[CheckResult]) -> float | None:
    """From 0 to 1. None: a check erred, which is not a score."""
    if any(result.status != "completed" for result in results):
        return None
    *gates, last = results
    if any(gate.results.get("passed") is not True for gate in gates):
        return 0.0
    if last.check_type == "llm_judge" and task.expected.rubric is not UNSET:
        return rubric_score(
            task.expected.rubric, criteria_met(last.results["response"], len(task.expected.rubric))
        )
    return 1.0 if last.results.get("passed") is True else 0.0


def bar_of(kind: str, pass_score: float) -> float:
    """The score that a task must reach: 1 for a golden task, `pass_score` for a rubric."""
    return 1.0 if kind == "golden" else pass_score
