"""
AgentEvalSuite (RFC 0081 §A, openwop-contract §6.1). Unknown members are refused, except in `input`, `value`, `response`
and memory entries.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.protocol.agents import ModelClass

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
