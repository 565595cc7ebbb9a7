"""Schemas of FEP's requests and answers, for the OpenAPI document (decision 4)."""

from typing import Any

from assay.protocol import evaluation, operations, results, runs
from assay.serve.web.openapi import components

CHECK = {"$ref": "#/components/schemas/Check"}


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
            operations.BatchEvaluationRequest,
            operations.BatchEvaluationResponse,
            operations.ListChecksResponse,
            operations.Health,
            operations.ErrorResponse,
            runs.CancelRequest,
        )
    )
    schemas["EvaluationRequest"]["properties"]["checks"] = {
        "description": "one list for all cases, or one list a case; without it every case carries its own",
        "anyOf": [
            {"type": "array", "items": CHECK},
            {"type": "array", "items": {"type": "array", "items": CHECK}},
            {"type": "null"},
        ],
    }
    # an invalid item is an error of its own and does not fail the others: the batch itself is still well formed
    schemas["BatchEvaluationRequest"]["properties"]["evaluations"]["items"] = {
        "description": "an EvaluationRequest; one that is none is told in `errors`, with its index"
    }
    return schemas
