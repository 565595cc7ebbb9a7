"""The routes of this package. A scope of "": any valid key; the endpoint checks the scope of the kinds it reads."""

from typing import Any

from assay.serve.overview import (
    case_list,
    case_reader,
    review,
    run_distributions,
    run_history,
    run_list,
    run_overview,
    run_slices,
    trace_windows,
)
from assay.serve.overview.case_list import query_cases
from assay.serve.overview.case_reader import read_case, search_cases
from assay.serve.overview.gate import gate_run, gate_schemas
from assay.serve.overview.review import draw_review, get_review
from assay.serve.overview.run_distributions import get_distributions
from assay.serve.overview.run_history import query_history
from assay.serve.overview.run_list import query_runs, watch_runs
from assay.serve.overview.run_overview import get_overview
from assay.serve.overview.run_slices import get_slices
from assay.serve.overview.trace_windows import get_windows
from assay.serve.web.handler import Parameter, ResponseSpec, RouteSpec
from assay.serve.web.openapi import components

RUNS = "/v1/host/assay/runs"

OVERVIEW = [
    RouteSpec(
        method="POST",
        path=f"{RUNS}:query",
        endpoint=query_runs,
        scope="",
        id="queryRuns",
        summary="List runs of every kind: filter, sort, count, group; needs `runs:read` or `evaluations:read`",
        body="RunsQuery",
        optional=True,
        responses={200: ResponseSpec("One page of runs, or groups of runs.", "RunsAnswer")},
    ),
    RouteSpec(
        method="POST",
        path=f"{RUNS}:changes",
        endpoint=watch_runs,
        scope="",
        id="watchRuns",
        summary="Wait until a run of a list has changed, or a run was created",
        body="ChangesQuery",
        optional=True,
        responses={200: ResponseSpec("The rows that are new or have changed.", "ChangesAnswer")},
    ),
    RouteSpec(
        method="POST",
        path=f"{RUNS}:history",
        endpoint=query_history,
        scope="",
        id="queryRunHistory",
        summary="List the runs of a suite, an experiment or a project of traces with their numbers, newest first",
        body="HistoryQuery",
        responses={200: ResponseSpec("One page of runs.", "RunHistory")},
    ),
    RouteSpec(
        method="GET",
        path=f"{RUNS}/{{run_id}}/cases/{{position}}",
        endpoint=read_case,
        scope="",
        id="getCase",
        summary="Get one case with its content: trials, checks with their reasons, trajectory, corrections",
        responses={200: ResponseSpec("The case.", "CaseDetail")},
    ),
    RouteSpec(
        method="POST",
        path=f"{RUNS}/{{run_id}}/cases:search",
        endpoint=search_cases,
        scope="",
        id="searchCases",
        summary="Search for a text or tags in the content of a run; says how far it looked",
        body="SearchBody",
        responses={200: ResponseSpec("The matches, and how far the search looked.", "SearchAnswer")},
    ),
    RouteSpec(
        method="GET",
        path=f"{RUNS}/{{run_id}}/overview",
        endpoint=get_overview,
        scope="",
        id="getRunOverview",
        summary="Get the headline of a run of any kind: score, verdict and its bars, cost, latency, findings, progress",
        responses={200: ResponseSpec("The overview.", "RunOverview")},
    ),
    RouteSpec(
        method="GET",
        path=f"{RUNS}/{{run_id}}/distributions",
        endpoint=get_distributions,
        scope="",
        id="getRunDistributions",
        summary="Get the distributions of score, latency and cost of a run",
        responses={200: ResponseSpec("The distributions.", "RunDistributions")},
    ),
    RouteSpec(
        method="POST",
        path=f"{RUNS}/{{run_id}}/cases:query",
        endpoint=query_cases,
        scope="",
        id="queryCases",
        summary="List the cases of a run: filter, sort, count; k of n for each check",
        body="CasesQuery",
        optional=True,
        responses={200: ResponseSpec("One page of cases.", "CasesAnswer")},
    ),
    RouteSpec(
        method="GET",
        path=f"{RUNS}/{{run_id}}/slices",
        endpoint=get_slices,
        scope="",
        id="getRunSlices",
        summary="Count the cases of a run by tag, member, path or check, or its failures by their reasons",
        parameters=(
            Parameter(
                "by", {"type": "string", "default": "tag"}, "A tag, a member, a path, `check` or `reason`."
            ),
        ),
        responses={200: ResponseSpec("The slices.", "SlicesAnswer")},
    ),
    RouteSpec(
        method="GET",
        path=f"{RUNS}/{{run_id}}/review",
        endpoint=get_review,
        scope="",
        id="getReview",
        summary="Get the cases that people review to check a judge, with their answers, agreement and corrected rate",
        parameters=(
            Parameter(
                "check", {"type": "string"}, "The check that is reviewed; else the first that asks a judge."
            ),
        ),
        responses={200: ResponseSpec("The review.", "Review")},
        errors=(501,),
    ),
    RouteSpec(
        method="POST",
        path=f"{RUNS}/{{run_id}}/review",
        endpoint=draw_review,
        scope="",
        id="drawReview",
        summary="Draw judged cases for people to review, as `assay judge sample` does",
        body="SampleRequest",
        optional=True,
        responses={
            201: ResponseSpec("The review with its sample.", "Review"),
            200: ResponseSpec("Nothing was drawn: the run has no judge.", "Review"),
        },
        errors=(501,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/traces/{project}/windows",
        endpoint=get_windows,
        scope="evaluations:read",
        id="listTraceWindows",
        summary="List the newest windows of a project of traces: what came in each, and its score",
        parameters=(
            Parameter("limit", {"type": "integer", "default": 10, "minimum": 1, "maximum": 100}, "How many."),
        ),
        responses={200: ResponseSpec("The windows, the newest first.", "WindowsAnswer")},
    ),
    RouteSpec(
        method="POST",
        path=f"{RUNS}/{{run_id}}:gate",
        endpoint=gate_run,
        scope="",
        id="gateRun",
        summary="Decide whether a run passes, alone or beside a baseline: a verdict and one sentence why",
        body="GateRequest",
        optional=True,
        responses={200: ResponseSpec("The verdict, as `assay gate --json` prints it.", "GateResult")},
    ),
]


# The schemas of these routes for the OpenAPI document.

EXAMPLES: dict[str, Any] = {  # of request bodies; tests send them to a server
    "RunsQuery": {
        "filter": {"status": ["completed"]},
        "sort": {"by": "score", "order": "asc"},
        "counts": True,
    },
    "CasesQuery": {"filter": {"status": ["failed", "error"]}, "sort": {"by": "score"}, "limit": 20},
    "ChangesQuery": {"since": "2026-07-01T12:00:00Z", "waitSeconds": 0},
    "HistoryQuery": {"name": "support", "kind": "evaluation", "limit": 20},
    "GateRequest": {"policy": {"preset": "strict", "min_mean": 0.9}},
    "SampleRequest": {"count": 30, "seed": 7},
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
            run_slices.SlicesAnswer,
            run_history.HistoryQuery,
            run_history.RunHistory,
            run_distributions.RunDistributions,
            trace_windows.WindowsAnswer,
            review.Review,
            review.SampleRequest,
        )
    )
    schemas |= gate_schemas()
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    return schemas
