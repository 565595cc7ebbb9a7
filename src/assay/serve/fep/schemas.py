"""Schemas of FEP's requests and answers, for the OpenAPI document (FEP-4)."""

from typing import Any

from assay.comparison.compare import RunComparison
from assay.comparison.views.page_view import ComparisonView
from assay.comparison.views.partings import PartingsView
from assay.protocol import evaluation, operations, results, runs
from assay.serve.fep import api_keys
from assay.serve.fep.comparison import ComparedCases, ComparedGrid
from assay.serve.web.openapi import components

CHECK = {"$ref": "#/components/schemas/Check"}
_REQUEST: dict[str, Any] = {
    "test_cases": [{"id": "france", "input": "What is the capital of France?", "expected": "Paris"}],
    "outputs": [{"value": "It is Paris."}],
    "checks": [{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["Paris"]}}],
}
EXAMPLES: dict[str, Any] = {  # of request bodies; tests send them to a server
    "EvaluationRequest": _REQUEST,
    "BatchEvaluationRequest": {"evaluations": [_REQUEST], "options": {"fail_fast": True}},
    "CancelRequest": {"reason": "it is no longer needed"},
    "KeyRequest": {"scopes": ["evaluations:create", "evaluations:read"], "expires": "90d", "note": "CI"},
}


def fep_schemas() -> dict[str, Any]:
    """The schemas of the protocol's types; where a type cannot say what is accepted, a schema written by hand."""
    schemas = components(
        (
            evaluation.EvaluationRequest,
            results.EvaluationRunResult,
            results.TestCaseResult,
            operations.EvaluationOperation,
            operations.ListOperationsResponse,
            operations.CancelOperationResponse,
            operations.EraseEvaluationResponse,
            operations.BatchEvaluationRequest,
            operations.BatchEvaluationResponse,
            operations.ListChecksResponse,
            operations.Health,
            operations.ProbeStatus,
            operations.ErrorResponse,
            runs.CancelRequest,
            RunComparison,
            ComparisonView,
            ComparedCases,
            ComparedGrid,
            PartingsView,
            *api_keys.TYPES,
        )
    )
    schemas["EvaluationRequest"]["properties"]["checks"] = {
        "description": "One list for all cases, or one list per case. Without it every case has its own checks.",
        "anyOf": [
            {"type": "array", "items": CHECK},
            {"type": "array", "items": {"type": "array", "items": CHECK}},
            {"type": "null"},
        ],
    }
    # an invalid item is an error of its own and does not fail the others: the batch itself is still well formed
    schemas["BatchEvaluationRequest"]["properties"]["evaluations"]["items"] = {
        "description": "An EvaluationRequest. An invalid one is reported in `errors`, with its index."
    }
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    return schemas
