"""Workflow runs over HTTP: start, answer interrupts, read ancestry (openwop-contract §1.3, §3.1, §8.4, §13.8)."""

from typing import Any

import msgspec
from msgspec import UNSET

from assay.errors import InvalidRequest, NotFound, Problem
from assay.ports import PutDocument, Run
from assay.promotion import KIND as DEPLOYMENT
from assay.protocol.json_types import JSON
from assay.protocol.runs import ForkRequest, InterruptRequest, InterruptResponse, RunRequest
from assay.serve.fep.request_parser import read_json
from assay.serve.fep.submit import digest_for
from assay.serve.openwop.host import NewRun, OpenWopHost, host_of, run_of
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import Parameter, ResponseSpec, RouteSpec
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.workflow import KIND
from assay.workflow.fork import fork_request
from assay.workflow.service import WorkflowService
from assay.workflow.state.definition import CONFORMANCE, document_of
from assay.workflow.supported_phases import HostInfo, execution_model
from assay.workflow.turn_log import turn_log

_answer = msgspec.json.Decoder(InterruptRequest).decode


class WorkflowRuns:
    """The run kind `workflow` over OpenWOP."""

    name = KIND

    def __init__(self, workflows: WorkflowService, host: HostInfo) -> None:
        self.workflows, self.host = workflows, host

    async def open(self, request: RunRequest, new: NewRun) -> Run:
        assert request.workflow_id is not UNSET
        planned = self.workflows.request(
            new.principal,
            request.workflow_id,
            None if request.inputs is UNSET else request.inputs,
            None if request.configurable is UNSET else request.configurable,
            () if request.tags is UNSET else request.tags,
            None if request.metadata is UNSET else request.metadata,
            "default" if request.scope_id is UNSET else request.scope_id,
        )
        await self.workflows.check_channels(new.principal.tenant, planned.workflow, new.id)
        return await self.workflows.open(planned, new.principal.tenant, new.id, new.documents)

    async def fork(self, source: Run, request: ForkRequest, new: NewRun) -> Run:
        """Fork a run. Recorded results stand for its effects, by the kind of each node (openwop-contract §13.9)."""
        overlay = None if request.run_options_overlay is UNSET else request.run_options_overlay
        start = None if request.from_seq is UNSET else request.from_seq
        planned = await fork_request(self.workflows, source, request.mode, start, overlay)
        return await self.workflows.open(planned, new.principal.tenant, new.id, new.documents)

    async def snapshot(self, run: Run) -> JSON:
        owner = {"tenant": run.tenant} | {
            name: run.metadata[name] for name in ("principal", "workspace") if name in run.metadata
        }
        members: JSON = {"owner": owner, "engineVersion": "1", "eventLogSchemaVersion": 2}
        members |= {name: run.metadata[name] for name in ("tags", "traceparent") if name in run.metadata}
        return members | await self.workflows.snapshot(run)

    def capabilities(self) -> dict[str, Any]:
        """The workflow part of the capabilities: the workflows that can be started, and the execution model."""
        bounds = self.workflows.environment.limits
        seeded = tuple(
            id for id in self.workflows.library.ids() if id.startswith(CONFORMANCE) and self._startable(id)
        )
        library = self.workflows.library
        gates = all(self.workflows.workflow(id).gates for id in library.ids())
        agents = {"orchestrator": True, "dispatch": True, "dispatchMapping": True, "subRunAttestation": True}
        return {
            "fixtures": seeded,
            "seeded": bool(seeded),
            "agents_more": agents,
            "execution_model": execution_model(self.host._replace(gating=self.host.gating and gates)),
            "limits": {"maxNodeExecutions": bounds.executions, "maxLoopIterations": bounds.iterations},
            "memory": True,
            "envelopes": ("clarification.request",),
        }

    def _startable(self, id: str) -> bool:
        """A workflow that binds a channel needs deployments."""
        nodes = self.workflows.workflow(id).nodes
        return self.workflows.channels is not None or all(node.channel is None for node in nodes)


def workflows_of(host: OpenWopHost) -> WorkflowRuns:
    runs = host.kinds.get(KIND) if host.workflows is not None else None
    if not isinstance(runs, WorkflowRuns):
        raise NotFound("this host does not offer workflows")
    return runs


async def get_workflow(call: HttpRequest) -> Response:
    call.query()
    (id,) = call.scope["path_params"].values()
    return answer(document_of(workflows_of(host_of(call)).workflows.workflow(id)))


async def respond(call: HttpRequest) -> Response:
    """Answer an interrupt; the run continues. A second answer gets 409."""
    call.query()
    host = host_of(call)
    params = call.scope["path_params"]
    run = await run_of(call, host, params["run_id"])
    responder = host.promotions if run.kind == DEPLOYMENT else workflows_of(host).workflows
    if responder is None:
        raise NotFound("this host does not offer deployments")
    body_format(call)
    body, node = await read_document(call), params["node_id"]
    interrupt = await read_json(call, _answer, body)
    digest = await digest_for(call, body)
    once = IdempotentRequest(
        call, "POST /v1/runs/{runId}/interrupts/{nodeId}", lambda: f"{run.id} {node} {digest()}"
    )

    async def resolve(documents: list[PutDocument]) -> Run:
        return await responder.respond(call.principal, run.id, node, interrupt.resume_value, documents)

    resumed, replayed = await once.perform(resolve, lambda: call.server.executor.get(run.id, call.tenant))
    resolved = InterruptResponse(run_id=run.id, node_id=node, status=resumed.status)
    return answer(resolved, headers=REPLAYED if replayed else ())


async def ancestry(call: HttpRequest) -> Response:
    """The parent of a run of any kind. Needs workflows to be runs."""
    call.query()
    host = host_of(call)
    runs = workflows_of(host)
    run = await run_of(call, host)
    return answer(await runs.workflows.ancestry(run.id, call.tenant, runs.host.host_id))


# The verification of a workflow run over HTTP: its report without content, and its turns with content
# (openwop-contract §8).

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
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/runs/{run_id}/turns",
        endpoint=list_turns,
        scope="runs:read",
        id="listTurns",
        summary="List the turns of a workflow run: candidates, verdicts with notes, questions and answers",
        responses={200: ResponseSpec("Some turns.", "TurnLog")},
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
