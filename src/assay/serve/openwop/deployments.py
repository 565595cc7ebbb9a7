"""Deployments over HTTP: read them, request transitions; and their management runs (openwop-contract §9.3)."""

import msgspec

from assay.errors import Forbidden, InvalidRequest, NotFound, Problem
from assay.ports import PutDocument, Run
from assay.promotion import KIND
from assay.promotion.management import NODE
from assay.promotion.records import EvalGateUnmet
from assay.promotion.service import PromotionService, TransitionOutcome
from assay.promotion.transitions import CHANNELS, DEPLOY_SCOPES, STATES
from assay.protocol.deployments import TransitionPending, TransitionRequest
from assay.protocol.json_types import JSON
from assay.protocol.runs import ForkRequest, RunRequest
from assay.runs.copy import everything, replay
from assay.runs.intake import new_id
from assay.serve.fep.request_parser import read_json
from assay.serve.fep.submit import digest_for
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.host import NewRun, host_of
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import ONCE, ResponseSpec, RouteSpec
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import STATUS, Headers, Response, answer

CAPABILITY = "agents.deployment"
STATUS[EvalGateUnmet] = 403
_request = msgspec.json.Decoder(TransitionRequest).decode


class DeploymentRuns:
    """The run kind `deployment` over OpenWOP. A transition starts such a run, and POST /v1/runs does not."""

    name = KIND

    def __init__(self, promotions: PromotionService) -> None:
        self.promotions = promotions

    async def open(self, request: RunRequest, new: NewRun) -> Run:
        raise InvalidRequest(
            Problem("workflowId", "expected a transition: POST /v1/agents/{agentId}/deployments")
        )

    async def fork(self, source: Run, request: ForkRequest, new: NewRun) -> Run:
        """A copy of the log. It repeats what was recorded, and changes no deployment."""
        if request.mode != "replay":
            raise InvalidRequest(Problem("mode", "expected replay, because a transition has no branches"))
        return await replay(
            self.promotions.store, source, everything(("request",)), run=new.id, documents=new.documents
        )

    async def snapshot(self, run: Run) -> JSON:
        owner = {"tenant": run.tenant, "principal": run.metadata.get("principal", "")}
        members: JSON = {"owner": owner, "engineVersion": "1", "eventLogSchemaVersion": 2}
        id, version = run.metadata["agentId"], run.metadata["agentVersion"]
        agent = await self.promotions.get(run.tenant, id, version)
        members["agent"] = {"agentId": id, "version": version} | ({} if agent is None else agent.card.source)
        if run.status.startswith("waiting"):
            members["currentNodeId"] = NODE
        if "code" in run.metadata:
            members["error"] = {
                "code": run.metadata["code"],
                "message": "the log of the run has the reason",
            }
        return members


def deployment_capability() -> JSON:
    return {
        "supported": True,
        "channels": list(CHANNELS),
        "canary": True,
        "rollback": True,
        "states": list(STATES),
    }


async def list_deployments(call: HttpRequest) -> Response:
    call.query()
    promotions = host_of(call).promotions
    if promotions is None:
        raise NotFound("this host does not offer deployments")
    return answer(await promotions.deployments(call.tenant, call.scope["path_params"]["agent_id"]))


async def transition_agent(call: HttpRequest) -> Response:
    """200 with the new record; 202 if the transition waits for an approval."""
    call.query()
    promotions = host_of(call).promotions
    if promotions is None:
        raise NotProvided(CAPABILITY)
    agent_id: str = call.scope["path_params"]["agent_id"]
    if not any(map(call.principal.may, DEPLOY_SCOPES.values())):
        await _refuse_scope(call, promotions, agent_id)
    body_format(call)
    body = await read_document(call)
    request = await read_json(call, _request, body)
    operation = "POST /v1/agents/{agentId}/deployments"
    digest = await digest_for(call, body)
    once = IdempotentRequest(call, operation, lambda: f"{agent_id} {digest()}")
    run = new_id("run-")
    outcomes: list[TransitionOutcome] = []

    async def begin(documents: list[PutDocument]) -> None:
        outcomes.append(await promotions.transition(call.principal, agent_id, request, documents, run=run))

    started = await once.start(run, begin)
    if outcomes:
        outcome = outcomes[0]
    else:
        found = await call.server.executor.get(started.run, call.tenant)
        outcome = TransitionOutcome(
            run=found, record=await promotions.record(call.tenant, agent_id, request.version)
        )
    headers: Headers = ((b"location", f"/v1/runs/{outcome.run.id}".encode()),)
    headers = headers + REPLAYED if started.replayed else headers
    if outcome.run.status != "completed":  # it waits, or it is a request that was rejected since, again
        waits = TransitionPending(
            run_id=outcome.run.id, status=outcome.run.status, node_id=NODE, record=outcome.record
        )
        return answer(waits, 202, headers)
    return answer(outcome.record, 200, headers)


async def _refuse_scope(call: HttpRequest, promotions: PromotionService, agent_id: str) -> None:
    """A key without any scope for deployments is refused whatever the body has; a readable request is recorded."""
    try:
        request = _request(await read_document(call))
    except msgspec.MsgspecError:
        raise Forbidden(DEPLOY_SCOPES["promote"]) from None
    await promotions.transition(call.principal, agent_id, request)


DEPLOYMENT_ROUTES = [
    RouteSpec(
        method="GET",
        path="/v1/agents/{agent_id}/deployments",
        endpoint=list_deployments,
        scope="manifest:read",
        id="listDeployments",
        summary="List the deployments of an agent by version",
        responses={200: ResponseSpec("The records.", "AgentDeploymentList")},
    ),
    RouteSpec(
        method="POST",
        path="/v1/agents/{agent_id}/deployments",
        endpoint=transition_agent,
        scope="",
        id="transitionDeployment",
        summary="Promote, pause, deprecate or roll back a version of an agent, or adjust its canary percentage; needs `deploy:promote`, `deploy:pause` or `deploy:rollback`",
        body="TransitionRequest",
        responses={
            200: ResponseSpec("The new record.", "AgentDeployment", headers=("Location",)),
            202: ResponseSpec(
                "The management run waits for an approval; the record is unchanged.",
                "TransitionPending",
                headers=("Location",),
            ),
        },
        errors=(501,),
        parameters=(ONCE,),
    ),
]
