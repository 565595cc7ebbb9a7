"""The schemas of these routes for the OpenAPI document."""

from typing import Any

from assay.serve.overview import case_list, case_reader, run_list, run_overview
from assay.serve.web.openapi import components

EXAMPLES: dict[str, Any] = {  # of request bodies; tests send them to a server
    "RunsQuery": {
        "filter": {"status": ["completed"]},
        "sort": {"by": "score", "order": "asc"},
        "counts": True,
    },
    "CasesQuery": {"filter": {"status": ["failed", "error"]}, "sort": {"by": "score"}, "limit": 20},
    "ChangesQuery": {"since": "2026-07-01T12:00:00Z", "waitSeconds": 0},
    "SearchBody": {"text": "refund", "in": ["output", "reason"], "limit": 20},
}


def overview_schemas() -> dict[str, Any]:
    schemas = components(
        (
            run_list.RunsQuery,
            run_list.RunsAnswer,
            run_list.ChangesQuery,
            run_list.ChangesAnswer,
            case_reader.CaseDetail,
            case_reader.SearchBody,
            case_reader.SearchAnswer,
            run_overview.RunOverview,
            case_list.CasesQuery,
            case_list.CasesAnswer,
        )
    )
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    return schemas
