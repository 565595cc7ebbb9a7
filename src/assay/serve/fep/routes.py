"""FEP's URLs (FEP 5.1): the server, its OpenAPI document and its tests are made of this list."""

from assay.comparison.views.case_lists import FILTERS
from assay.serve.fep.batch import run_batch
from assay.serve.fep.catalogue import list_checks
from assay.serve.fep.comparison import (
    MAX_CHANGES,
    MAX_PAGE,
    MAX_RUNS,
    compare_evaluation,
    list_compared_cases,
    show_comparison,
    show_grid,
    show_partings,
)
from assay.serve.fep.evaluations import (
    cancel_evaluation,
    erase_evaluation,
    follow_evaluation,
    get_evaluation,
    run_evaluation,
    start_evaluation,
)
from assay.serve.fep.operations import STATUSES, get_operation, list_evaluations
from assay.serve.web.handler import ARGUMENTS, MOMENT, ONCE, SIZE, TOKEN, Parameter, ResponseSpec, RouteSpec
from assay.serve.web.health import health, live, ready, show_metrics, show_openapi

# The URLs of comparisons.

READ = "evaluations:read"
METRIC = Parameter("metric", {"type": "string"}, "What is compared, as for `assay compare`.")
BY = Parameter("by", {"type": "string"}, "Groupings, separated by commas: tag, check, criterion or a member.")
MARGIN = Parameter(
    "margin", {"type": "number", "exclusiveMinimum": 0}, "A difference below this does not matter."
)
STANDARDIZE_BY = Parameter(
    "standardize_by",
    {"type": "string"},
    "Runs over different cases: a member or tag, whose slices are weighted as in the baseline.",
)
RUNS = Parameter(
    "runs",
    {"type": "string"},
    f"The ids of 2 to {MAX_RUNS} runs, separated by commas. The first is the baseline.",
)

PAGE_OF_CASES = (
    Parameter("first", {"type": "integer", "minimum": 0, "default": 0}, "The number of the first case."),
    Parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 50},
        "How many cases are listed.",
    ),
)

COMPARISONS = [
    RouteSpec(
        method="GET",
        path="/v1/evaluations/{evaluation_id}/comparison",
        endpoint=compare_evaluation,
        scope=READ,
        id="compareEvaluation",
        summary="Compare a run with a baseline, case by case, and get a verdict",
        responses={200: ResponseSpec("The comparison.", "RunComparison")},
        parameters=(
            Parameter("baseline", {"type": "string"}, "The id of the run to compare with. It is required."),
            METRIC,
            BY,
            MARGIN,
            STANDARDIZE_BY,
            Parameter(
                "limit",
                {"type": "integer", "minimum": 0, "maximum": MAX_CHANGES},
                "How many changed cases are listed. Default: 10.",
            ),
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/comparison",
        endpoint=show_comparison,
        scope=READ,
        id="getComparison",
        summary="Compare several runs with the first: verdicts, sentences, slices and charts",
        responses={200: ResponseSpec("The comparison.", "ComparisonView")},
        errors=(404,),
        parameters=(
            RUNS,
            METRIC,
            BY,
            MARGIN,
            STANDARDIZE_BY,
            Parameter(
                "metrics",
                {"type": "boolean", "default": False},
                "Compare every metric too, with intervals that are adjusted for their number.",
            ),
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/comparison/grid",
        endpoint=show_grid,
        scope=READ,
        id="getComparisonGrid",
        summary="List the cases of several runs with their value in each run",
        responses={200: ResponseSpec("One page of cases.", "ComparedGrid")},
        errors=(404,),
        parameters=(
            RUNS,
            METRIC,
            Parameter(
                "different",
                {"type": "boolean", "default": False},
                "Only the cases whose values are not the same in all runs.",
            ),
            *PAGE_OF_CASES,
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/comparison/diff",
        endpoint=show_partings,
        scope=READ,
        id="getComparisonDiff",
        summary="List where two runs part ways: another tool, other arguments, another answer",
        responses={200: ResponseSpec("One page of cases.", "PartingsView")},
        errors=(404,),
        parameters=(
            Parameter("runs", {"type": "string"}, "The ids of 2 runs, separated by a comma."),
            *PAGE_OF_CASES,
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/comparison/cases",
        endpoint=list_compared_cases,
        scope=READ,
        id="listComparedCases",
        summary="List the cases of a comparison by their change, the worst first",
        responses={200: ResponseSpec("One page of cases.", "ComparedCases")},
        errors=(404,),
        parameters=(
            RUNS,
            Parameter(
                "of",
                {"type": "string"},
                "The run to compare with the baseline. Default: the second of `runs`.",
            ),
            METRIC,
            BY,
            Parameter(
                "change",
                {"type": "string", "enum": list(FILTERS), "default": "changed"},
                "The cases to list, by their change. `changed` lists worse and better, `passed_in_both` and "
                "`failed_in_both` the unchanged cases with the value 1 and 0.",
            ),
            Parameter("slice_by", {"type": "string"}, "One of the names in `by`: only the cases of `slice`."),
            Parameter("slice", {"type": "string"}, "The name of a slice."),
            *PAGE_OF_CASES,
        ),
    ),
]


CREATE, CANCEL = "evaluations:create", "evaluations:cancel"
RESULT = ResponseSpec(
    "The result of the evaluation.",
    "EvaluationRunResult",
    lines="TestCaseResult",
    headers=("ETag", "Link", "Content-Location"),
)

FEP = [
    RouteSpec(
        method="POST",
        path="/v1/evaluate",
        endpoint=run_evaluation,
        scope=CREATE,
        id="runEvaluation",
        summary="Run an evaluation and wait for its result",
        body="EvaluationRequest",
        lines=True,
        responses={200: RESULT},
        parameters=(
            ONCE,
            ARGUMENTS,
            Parameter(
                "store",
                {"const": False},
                "`false`: return the result and store nothing. Only for checks that call no model.",
            ),
        ),
    ),
    RouteSpec(
        method="POST",
        path="/v1/evaluate:batch",
        endpoint=run_batch,
        scope=CREATE,
        id="runBatch",
        summary="Run many evaluations; a failed one does not fail the others",
        body="BatchEvaluationRequest",
        responses={
            200: ResponseSpec(
                "The results of evaluations that ran, and the errors of the others.",
                "BatchEvaluationResponse",
            )
        },
        parameters=(ONCE, ARGUMENTS),
    ),
    RouteSpec(
        method="POST",
        path="/v1/evaluations",
        endpoint=start_evaluation,
        scope=CREATE,
        id="startEvaluation",
        summary="Start an evaluation and return at once",
        body="EvaluationRequest",
        lines=True,
        responses={
            202: ResponseSpec(
                "Accepted: the evaluation is running.", "EvaluationOperation", headers=("Location",)
            )
        },
        parameters=(ONCE, ARGUMENTS),
    ),
    RouteSpec(
        method="GET",
        path="/v1/evaluations",
        endpoint=list_evaluations,
        scope=READ,
        id="listEvaluations",
        summary="List the evaluations of this tenant, newest first",
        responses={200: ResponseSpec("One page of operations.", "ListOperationsResponse")},
        parameters=(
            Parameter("status", {"type": "string", "enum": list(STATUSES)}, "Only those with this status."),
            Parameter("experiment", {"type": "string"}, "Only those of the experiment with this name."),
            Parameter("since", MOMENT, "Only those created at this time or later."),
            Parameter("until", MOMENT, "Only those created before this time."),
            SIZE,
            TOKEN,
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/evaluations/{evaluation_id}",
        endpoint=get_evaluation,
        scope=READ,
        id="getEvaluation",
        summary="Get the result of an evaluation that has ended, whole or in pages",
        responses={200: RESULT, 304: ResponseSpec("Not modified.")},
        errors=(409,),
        parameters=(
            SIZE,
            TOKEN,
            Parameter("If-None-Match", {"type": "string"}, "The ETag of the cached response.", "header"),
        ),
    ),
    RouteSpec(
        method="DELETE",
        path="/v1/evaluations/{evaluation_id}",
        endpoint=erase_evaluation,
        scope="runs:delete",
        id="eraseEvaluation",
        summary="Erase the content of an evaluation that has ended; its log and its summary stay",
        responses={200: ResponseSpec("The content is gone.", "EraseEvaluationResponse")},
        errors=(409,),
    ),
    *COMPARISONS,
    RouteSpec(
        method="GET",
        path="/v1/evaluations/{evaluation_id}/events",
        endpoint=follow_evaluation,
        scope=READ,
        id="followEvaluation",
        summary="Stream `progress` events and, case by case, `result` events",
        responses={
            200: ResponseSpec("Server-sent events until the evaluation ends.", media="text/event-stream"),
            204: ResponseSpec("The evaluation has ended, and the client has every event."),
        },
        parameters=(
            Parameter(
                "Last-Event-ID",
                {"type": "string", "pattern": r"^[0-9]{1,15}(\.[0-9]{1,15})?$"},
                "The id of the last event received.",
                "header",
            ),
        ),
    ),
    RouteSpec(
        method="POST",
        path="/v1/evaluations/{evaluation_id}:cancel",
        endpoint=cancel_evaluation,
        scope=CANCEL,
        id="cancelEvaluation",
        summary="Cancel an evaluation: completed cases keep their results, the rest is skipped",
        body="CancelRequest",
        optional=True,
        responses={
            200: ResponseSpec(
                "`cancelled` is false if the evaluation has not stopped yet.", "CancelOperationResponse"
            )
        },
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/operations/{operation_id}",
        endpoint=get_operation,
        scope=READ,
        id="getOperation",
        summary="Get the progress of an evaluation; the operation has the id of the evaluation",
        responses={200: ResponseSpec("The operation.", "EvaluationOperation")},
    ),
    RouteSpec(
        method="GET",
        path="/v1/checks",
        endpoint=list_checks,
        scope=READ,
        id="listChecks",
        summary="List all checks with the schemas of their arguments and results",
        responses={200: ResponseSpec("The catalogue of checks.", "ListChecksResponse")},
    ),
    RouteSpec(
        method="GET",
        path="/v1/health",
        endpoint=health,
        scope=None,
        id="healthCheck",
        summary="Get the health of the service, and the versions of the protocol and of assay",
        responses={200: ResponseSpec("The service accepts work, and its database answers.", "Health")},
    ),
    RouteSpec(
        method="GET",
        path="/v1/ready",
        endpoint=ready,
        scope=None,
        id="readinessProbe",
        summary="Probe whether this server can take requests",
        responses={200: ResponseSpec("The server accepts work, and its database answers.", "ProbeStatus")},
    ),
    RouteSpec(
        method="GET",
        path="/v1/live",
        endpoint=live,
        scope=None,
        id="livenessProbe",
        summary="Probe whether this process answers; it never asks the database",
        responses={200: ResponseSpec("The process answers.", "ProbeStatus")},
    ),
    RouteSpec(
        method="GET",
        path="/metrics",
        endpoint=show_metrics,
        scope="metrics:read",
        id="getMetrics",
        summary="Get the metrics of this process",
        responses={200: ResponseSpec("Metrics in Prometheus' text format.", media="text/plain")},
    ),
    RouteSpec(
        method="GET",
        path="/v1/openapi.json",
        endpoint=show_openapi,
        scope=None,
        id="getOpenAPI",
        summary="Get this document",
        responses={200: ResponseSpec("The OpenAPI 3.1 document.", "Document")},
    ),
]
