"""Operations, progress, batches and the error body (FEP 5.1, 5.2; FEP-3, FEP-41, FEP-42)."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from assay.protocol.json_types import JSON
from assay.protocol.results import Count, EvaluationRunResult, Moment

Positive = Annotated[int, Meta(extra_json_schema={"minimum": 1})]  # for the schema; the reader validates it
OperationStatus = Literal["pending", "running", "completed", "failed", "cancelled"]


class ErrorResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The body of every error: a code (openwop-contract §2.3), a message, and details."""

    error: str
    message: str
    details: JSON | UnsetType = UNSET


class EvaluationProgress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The progress of an evaluation."""

    evaluation_id: str
    status: OperationStatus
    completed_test_cases: Count
    total_test_cases: Count


class EvaluationOperation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An evaluation as a long-running operation; its id is the evaluation's (FEP-41)."""

    operation_id: str
    status: OperationStatus
    created_at: Moment
    started_at: Moment | UnsetType = UNSET
    completed_at: Moment | UnsetType = UNSET
    progress: EvaluationProgress | UnsetType = UNSET
    error: ErrorResponse | UnsetType = UNSET
    metadata: JSON | UnsetType = UNSET


class ListOperationsResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    operations: list[EvaluationOperation]
    next_page_token: str | UnsetType = UNSET


class BatchOptions(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`timeout_ms` covers the whole batch (FEP-42)."""

    max_concurrent: Positive | UnsetType = UNSET
    timeout_ms: Positive | UnsetType = UNSET
    fail_fast: bool | UnsetType = UNSET


class BatchEvaluationRequest(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    evaluations: list[Raw]
    options: BatchOptions | UnsetType = UNSET


class BatchSummary(Struct, frozen=True, kw_only=True):
    total_evaluations: Count
    successful_evaluations: Count
    failed_evaluations: Count
    started_at: Moment
    completed_at: Moment


class BatchEvaluationResponse(Struct, frozen=True, kw_only=True):
    """The results. An error names its evaluation in `details.index`."""

    results: list[EvaluationRunResult]
    errors: list[ErrorResponse]
    summary: BatchSummary


class Health(Struct, frozen=True, kw_only=True):
    status: str
    version: str  # the protocol's
    assay_version: str


class ProbeStatus(Struct, frozen=True, kw_only=True):
    """The answer of a probe that succeeds; a probe that fails answers with an error."""

    status: Literal["ready", "alive"]


class CheckDescription(Struct, frozen=True, kw_only=True):
    """One check of the catalogue."""

    type: str
    version: str
    description: str
    arguments: dict[str, Any]
    results: dict[str, Any]


class ListChecksResponse(Struct, frozen=True, kw_only=True):
    """The catalogue of checks."""

    checks: list[CheckDescription]


class EraseEvaluationResponse(Struct, frozen=True, kw_only=True):
    """The content of an evaluation is gone. Its log and its summary stay."""

    evaluation_id: str
    status: OperationStatus
    erased_at: str


class CancelOperationResponse(Struct, frozen=True, kw_only=True):
    cancelled: bool
