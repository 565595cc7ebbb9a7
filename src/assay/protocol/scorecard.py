"""
EvalSummary (RFC 0081 §C, openwop-contract §6.4): the scorecard. It is closed at every level and has no field for
content.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.protocol.agents import ModelClass
from assay.protocol.suite import SuiteId, TaskId, Version

Score = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class _Closed(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    pass


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
