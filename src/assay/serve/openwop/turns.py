"""
The verification of a workflow run over HTTP: its report without content, and its turns with content (openwop-contract
§8).
"""

from assay.errors import InvalidRequest, Problem
from assay.serve.openwop.host import host_of, run_of
from assay.serve.openwop.workflows import workflows_of
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.serve.web.route import Parameter, ResponseSpec, RouteSpec
from assay.workflow.turn_log import turn_log

MAX_TURNS = 100  # in one response


async def verification(call: HttpRequest) -> Response:
    call.query()
    host = host_of(call)
    run = await run_of(call, host)
    await call.audit_read(run)
    return answer(await workflows_of(host).workflows.report(run.id, call.tenant))


async def list_turns(call: HttpRequest) -> Response:
    """The turns of a verifier loop, with their content."""
    params = call.query("first", "limit")
    first, limit = (_whole(params, name, default) for name, default in (("first", 0), ("limit", 20)))
    if not 1 <= limit <= MAX_TURNS:
        raise InvalidRequest(Problem("limit", f"expected 1 to {MAX_TURNS}, got {limit}"))
    host = host_of(call)
    run = await run_of(call, host)
    await call.audit_read(run)
    workflows = workflows_of(host).workflows
    found = await workflows.get(run.id, call.tenant)
    return answer(await turn_log(workflows.store, found, workflows.environment, first, limit))


def _whole(params: dict[str, str], name: str, default: int) -> int:
    text = params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidRequest(Problem(name, f"expected a whole number, got {text[:40]!r}"))
    return int(text)


TURN_ROUTES = [
    RouteSpec(
        method="GET",
        path="/v1/host/assay/runs/{run_id}/verification",
        endpoint=verification,
        scope="runs:read",
        id="getVerification",
        summary="Get the verification report of a workflow run: its verdicts, their subjects, and whether the goal was reached",
        responses={200: ResponseSpec("The report.", "VerificationReport")},
        errors=(400, 404),
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/runs/{run_id}/turns",
        endpoint=list_turns,
        scope="runs:read",
        id="listTurns",
        summary="List the turns of a workflow run: candidates, verdicts with notes, questions and answers",
        responses={200: ResponseSpec("Some turns.", "TurnLog")},
        errors=(400, 404),
        parameters=(
            Parameter("first", {"type": "integer", "minimum": 0, "default": 0}, "The first turn, from 0."),
            Parameter(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_TURNS, "default": 20},
                "How many turns are listed.",
            ),
        ),
    ),
]
