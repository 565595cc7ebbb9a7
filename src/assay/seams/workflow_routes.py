"""Test-only routes for workflows (openwop-contract §10.4, §10.7, §13.9)."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from assay.errors import InvalidRequest, NotFound, Problem
from assay.ports import Principal
from assay.protocol.json_types import is_list, is_object
from assay.seams import actions as seams
from assay.serve.fep.request_parser import read_json
from assay.serve.openwop.host import host_of
from assay.serve.openwop.workflows import workflows_of
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import Endpoint, ResponseSpec, RouteSpec
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.workflow.llm import cache_key, program_mock
from assay.workflow.service import WorkflowService

BASE = "/v1/host/sample"
DIVERGENCE = "conformance-phase4-replay-divergence"
_any = msgspec.json.Decoder(Any).decode
Seam = Callable[[WorkflowService, Principal, Any], Awaitable[dict[str, Any]]]


async def _cache_key(workflows: WorkflowService, principal: Principal, body: Any) -> dict[str, Any]:
    if not is_object(body):
        raise InvalidRequest("expected an object with provider, model and messages")
    return {"cacheKey": cache_key(body)}


async def _program(workflows: WorkflowService, principal: Principal, body: Any) -> dict[str, Any]:
    if workflows.library.get(DIVERGENCE) is None:
        raise NotFound("the mock model is not enabled on this host")
    if not is_object(body) or not isinstance(body.get("nodeId"), str) or not is_list(body.get("program")):
        raise InvalidRequest(Problem("program", "expected a nodeId and a list"))
    entries = [entry for entry in body["program"] if is_object(entry)]
    return {
        "ok": True,
        "count": await program_mock(workflows.store, principal.tenant, body["nodeId"], entries),
    }


async def _dispatch(call: HttpRequest) -> Response:
    """Dispatch to an agent of the inventory; 404 if this host does not offer agents."""
    call.query()
    host = host_of(call)
    workflows, agent_id = workflows_of(host).workflows, call.scope["path_params"]["agent_id"]
    card = next((card for card in host.cards() if card.agent_id == agent_id), None)
    if card is None:
        raise NotFound(f"there is no agent {agent_id[:256]!r}")
    body_format(call)
    return answer(
        await seams.dispatch(
            workflows,
            call.principal,
            card,
            await read_json(call, _any, await read_document(call) or b"{}"),
        )
    )


def _route(path: str, id: str, seam: Seam) -> RouteSpec:
    async def endpoint(call: HttpRequest) -> Response:
        call.query()
        workflows = workflows_of(host_of(call)).workflows
        body_format(call)
        return answer(
            await seam(
                workflows,
                call.principal,
                await read_json(call, _any, await read_document(call) or b"{}"),
            )
        )

    return _operation(path, id, endpoint)


def _operation(path: str, id: str, endpoint: Endpoint) -> RouteSpec:
    return RouteSpec(
        method="POST",
        path=BASE + path,
        endpoint=endpoint,
        scope="",
        id=id,
        summary="For the conformance suite",
        responses={200: ResponseSpec("The outcome.")},
        errors=(404, 413, 415),
    )


WORKFLOW_SEAMS = [
    _route("/agents/verify-run", "sampleVerifyRun", seams.verify_run),
    _operation("/agents/{agent_id}/dispatch", "sampleDispatch", _dispatch),
    _route("/agentloop/run", "sampleAgentLoop", seams.agent_loop),
    _route("/subrun/attest", "sampleAttest", seams.attest),
    _route("/test/llm-cache-key", "sampleCacheKey", _cache_key),
    _route("/test/mock-ai/program", "sampleProgram", _program),
]
