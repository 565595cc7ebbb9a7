"""EvalSummary (RFC 0081 §C, openwop-contract §6.4): the scorecard, closed at every level, without content."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.protocol.agents import ModelClass

# AgentEvalSuite (RFC 0081 §A, openwop-contract §6.1). Unknown members are refused, except in `input`, `value`,
# `response` and memory entries.

Mode = Literal["golden", "rubric", "adversarial", "regression", "live-shadow"]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
TaskId = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9-]*$")]
SuiteId = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9.-]+\.evals\.[a-z0-9-]+$")]
Version = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
_UNIQUE = {"uniqueItems": True}


class _Closed(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    pass


class Match(_Closed, frozen=True, kw_only=True):
    strategy: Literal["exact", "contains", "json-match"]
    value: Any


class RubricCriterion(_Closed, frozen=True, kw_only=True):
    criterion: Annotated[str, msgspec.Meta(min_length=1)]
    weight: Share


class Expected(_Closed, frozen=True, kw_only=True):
    kind: Literal["golden", "rubric"]
    match: Match | UnsetType = UNSET
    rubric: Annotated[tuple[RubricCriterion, ...], msgspec.Meta(min_length=1)] | UnsetType = UNSET


class ToolResponse(_Closed, frozen=True, kw_only=True):
    tool: Annotated[str, msgspec.Meta(min_length=1)]
    response: Any = None


class Fixtures(_Closed, frozen=True, kw_only=True):
    tool_responses: tuple[ToolResponse, ...] = ()
    memory_seed: tuple[dict[str, Any], ...] = ()


class EvalTask(_Closed, frozen=True, kw_only=True):
    task_id: TaskId
    input: Any
    expected: Expected
    fixtures: Fixtures | UnsetType = UNSET


class Thresholds(_Closed, frozen=True, kw_only=True):
    pass_score: Share | UnsetType = UNSET
    max_cost_usd: Annotated[float, msgspec.Meta(ge=0)] | UnsetType = UNSET
    max_p95_latency_ms: Annotated[int, msgspec.Meta(ge=0)] | UnsetType = msgspec.field(
        default=UNSET, name="maxP95LatencyMs"
    )


class AgentEvalSuite(_Closed, frozen=True, kw_only=True):
    suite_id: SuiteId
    version: Version
    modes: Annotated[tuple[Mode, ...], msgspec.Meta(min_length=1, extra_json_schema=_UNIQUE)]
    tasks: Annotated[tuple[EvalTask, ...], msgspec.Meta(min_length=1)]
    target_agent_id: Annotated[str, msgspec.Meta(min_length=1)] | UnsetType = UNSET
    allowed_models: Annotated[tuple[ModelClass, ...], msgspec.Meta(extra_json_schema=_UNIQUE)] | UnsetType = (
        UNSET
    )
    thresholds: Thresholds | UnsetType = UNSET


Score = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class SafetyFinding(_Closed, frozen=True, kw_only=True):
    kind: Annotated[str, msgspec.Meta(min_length=1)]
    severity: Literal["low", "medium", "high", "critical"]


class TaskScore(_Closed, frozen=True, kw_only=True):
    task_id: TaskId
    score: Score
    passed: bool
    cost_usd: Annotated[float, msgspec.Meta(ge=0)] | UnsetType = UNSET
    latency_ms: Count | UnsetType = UNSET
    schema_valid: bool | UnsetType = UNSET
    safety_findings: tuple[SafetyFinding, ...] | UnsetType = UNSET


class Regression(_Closed, frozen=True, kw_only=True):
    baseline_run_id: Annotated[str, msgspec.Meta(min_length=1)]
    score_delta: Annotated[float, msgspec.Meta(ge=-1, le=1)]
    diff_ref: str | UnsetType = UNSET


class EvalSummary(_Closed, frozen=True, kw_only=True):
    suite_id: SuiteId
    suite_version: Version
    aggregate_score: Score
    passed: bool
    task_count: Count
    passed_count: Count
    tasks: tuple[TaskScore, ...]
    evaluated_model_class: ModelClass | UnsetType = UNSET
    total_cost_usd: Annotated[float, msgspec.Meta(ge=0)] | UnsetType = UNSET
    regression: Regression | UnsetType = UNSET


# Safety findings in words, as every headline has them.

MAX_KINDS = 3  # that a sentence names


def findings_text(number: int, severity: str, kinds: Sequence[str]) -> str:
    """`4 critical findings (secret-leak, pii-leak)`."""
    noun = "finding" if number == 1 else "findings"
    named = ", ".join(kinds[:MAX_KINDS]) + (", …" if len(kinds) > MAX_KINDS else "")
    return f"{number:,} {severity} {noun}" + (f" ({named})" if named else "")
