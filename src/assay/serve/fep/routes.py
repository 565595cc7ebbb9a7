"""FEP's URLs (FEP 5.1): the server, its OpenAPI document and its tests are made of this list."""

from assay.serve.fep.batch import run_batch
from assay.serve.fep.catalogue import list_checks
from assay.serve.fep.evaluations import cancel_evaluation, get_evaluation, run_evaluation, start_evaluation
from assay.serve.fep.events import follow_evaluation
from assay.serve.fep.operations import STATUSES, get_operation, list_evaluations
from assay.serve.web.health import health, show_openapi, show_page
from assay.serve.web.metrics import show_metrics
from assay.serve.web.route import (
    ARGUMENTS,
    MOMENT,
    ONCE,
    SIZE,
    TOKEN,
    Parameter,
    ResponseSpec,
    RouteSpec,
)

CREATE, READ, CANCEL = "evaluations:create", "evaluations:read", "evaluations:cancel"
RESULT = ResponseSpec(
    "the result", "EvaluationRunResult", lines="TestCaseResult", headers=("ETag", "Link", "Content-Location")
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
        errors=(400, 409, 413, 415),
        parameters=(ONCE, ARGUMENTS),
    ),
    RouteSpec(
        method="POST",
        path="/v1/evaluate:batch",
        endpoint=run_batch,
        scope=CREATE,
        id="runBatch",
        summary="Run many evaluations; a bad one does not sink the others",
        body="BatchEvaluationRequest",
        responses={200: ResponseSpec("what came of each", "BatchEvaluationResponse")},
        errors=(400, 409, 413, 415),
        parameters=(ONCE, ARGUMENTS),
    ),
    RouteSpec(
        method="POST",
        path="/v1/evaluations",
        endpoint=start_evaluation,
        scope=CREATE,
        id="startEvaluation",
        summary="Start an evaluation and go on",
        body="EvaluationRequest",
        lines=True,
        responses={202: ResponseSpec("it is under way", "EvaluationOperation", headers=("Location",))},
        errors=(400, 409, 413, 415),
        parameters=(ONCE, ARGUMENTS),
    ),
    RouteSpec(
        method="GET",
        path="/v1/evaluations",
        endpoint=list_evaluations,
        scope=READ,
        id="listEvaluations",
        summary="The operations of this tenant, newest first",
        responses={200: ResponseSpec("a page of them", "ListOperationsResponse")},
        errors=(400,),
        parameters=(
            Parameter("status", {"type": "string", "enum": list(STATUSES)}, "only those that are this"),
            Parameter("experiment", {"type": "string"}, "only those of the experiment of this name"),
            Parameter("since", MOMENT, "only those created then or later"),
            Parameter("until", MOMENT, "only those created before"),
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
        summary="The result of an evaluation that has ended, whole or in pages",
        responses={200: RESULT, 304: ResponseSpec("it is what you have")},
        errors=(400, 404, 409),
        parameters=(
            SIZE,
            TOKEN,
            Parameter("If-None-Match", {"type": "string"}, "the ETag of what you have", "header"),
        ),
    ),
    RouteSpec(
        method="GET",
        path="/v1/evaluations/{evaluation_id}/events",
        endpoint=follow_evaluation,
        scope=READ,
        id="followEvaluation",
        summary="What happens, as it happens: `progress` and, case by case, `result`",
        responses={
            200: ResponseSpec("server-sent events, until the evaluation ends", media="text/event-stream"),
            204: ResponseSpec("it has ended, and you had everything"),
        },
        errors=(400, 404),
        parameters=(
            Parameter(
                "Last-Event-ID",
                {"type": "string", "pattern": r"^[0-9]{1,15}(\.[0-9]{1,15})?$"},
                "the last event you had",
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
        summary="Stop an evaluation: what is done stays, the rest is skipped",
        body="CancelRequest",
        optional=True,
        responses={
            200: ResponseSpec("false: it was asked to stop, and has not yet", "CancelOperationResponse")
        },
        errors=(400, 404, 409, 413, 415),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/operations/{operation_id}",
        endpoint=get_operation,
        scope=READ,
        id="getOperation",
        summary="How far an evaluation is; its id is the evaluation's",
        responses={200: ResponseSpec("the operation", "EvaluationOperation")},
        errors=(400, 404),
    ),
    RouteSpec(
        method="GET",
        path="/v1/checks",
        endpoint=list_checks,
        scope=READ,
        id="listChecks",
        summary="The checks there are, with the schemas of what they take and answer",
        responses={200: ResponseSpec("the catalogue", "ListChecksResponse")},
        errors=(400,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/health",
        endpoint=health,
        scope=None,
        id="healthCheck",
        summary="Whether this service is up, and the version of the protocol it speaks",
        responses={200: ResponseSpec("it is", "Health")},
        errors=(400,),
    ),
    RouteSpec(
        method="GET",
        path="/metrics",
        endpoint=show_metrics,
        scope="metrics:read",
        id="getMetrics",
        summary="What this process counted, for Prometheus",
        responses={200: ResponseSpec("text, in Prometheus' own format", media="text/plain")},
        errors=(400,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/openapi.json",
        endpoint=show_openapi,
        scope=None,
        id="getOpenAPI",
        summary="This document",
        responses={200: ResponseSpec("OpenAPI 3.1", "Document")},
        errors=(400,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/docs",
        endpoint=show_page,
        scope=None,
        id="getDocs",
        summary="This document, to be read by people",
        responses={200: ResponseSpec("a page that needs no network", media="text/html")},
        errors=(400,),
    ),
]
