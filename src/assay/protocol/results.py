"""Results of a check, a test case and a run (FEP 2.3.4, 4.1, 4.2)."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from assay.errors import ErrorType
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.json_types import JSON

Status = Literal["completed", "error", "skip"]
Count = Annotated[int, Meta(ge=0)]
Moment = Annotated[datetime, Meta(tz=True)]
TestCaseDocument = Annotated[JSON, Meta(description="The test case as received, with unknown members.")]
OutputDocument = Annotated[JSON, Meta(description="The output as received, with unknown members.")]


class CheckError(Struct, frozen=True, kw_only=True):
    """Why a check has no result. An error is never a score (FEP-27)."""

    type: ErrorType
    message: str
    recoverable: bool = False


class ResolvedArgument(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The value that a check used, with the path it was resolved from."""

    jsonpath: str | UnsetType = UNSET
    value: Any


class CheckResult(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The result of one check on one case: `status` says whether it ran, `results` what it found."""

    check_type: str
    status: Status
    results: JSON
    resolved_arguments: dict[str, ResolvedArgument] | UnsetType = UNSET
    evaluated_at: Moment
    metadata: JSON | UnsetType = UNSET
    error: CheckError | UnsetType = UNSET


class ExecutionContext(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The case and the output that were evaluated, as they were received."""

    test_case: TestCaseDocument
    output: OutputDocument


class TestCaseSummary(Struct, frozen=True, kw_only=True):
    __test__ = False

    total_checks: Count
    completed_checks: Count
    error_checks: Count
    skipped_checks: Count


class TestCaseResult(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """All check results of one case."""

    __test__ = False

    status: Status
    execution_context: ExecutionContext
    check_results: list[CheckResult]
    summary: TestCaseSummary
    metadata: JSON | UnsetType = UNSET


class EvaluationSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counts of cases and checks by status. assay always sets the check counts (FEP-9)."""

    total_test_cases: Count
    completed_test_cases: Count
    error_test_cases: Count
    skipped_test_cases: Count
    total_checks: Count | UnsetType = UNSET
    completed_checks: Count | UnsetType = UNSET
    error_checks: Count | UnsetType = UNSET
    skipped_checks: Count | UnsetType = UNSET


class EvaluationRunResult(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The result of a run."""

    evaluation_id: str
    started_at: Moment
    completed_at: Moment
    status: Status
    experiment: ExperimentMetadata | UnsetType = UNSET
    summary: EvaluationSummary
    results: list[TestCaseResult]
    metadata: JSON | UnsetType = UNSET
