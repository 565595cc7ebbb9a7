"""Workflows over HTTP: ordinary runs, the answers people give them, where they come from and what critics said (contract §1.3, §3.1, §8, §13.8)."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from assay.errors import NotFound
from assay.ports import Principal, PutDocument, Run
from assay.protocol.json_types import JSON
from assay.protocol.runs import ForkRequest, InterruptRequest, InterruptResponse, RunRequest
from assay.serve.fep.request import decoded, digest_of
from assay.serve.openwop.host import OpenWopHost, host_of, run_of
from assay.serve.web.body import body_format, read_body
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.workflow.definition import CONFORMANCE, document_of
from assay.workflow.execution_model import HostInfo, execution_model
from assay.workflow.fork import fork_request
from assay.workflow.library import KIND
from assay.workflow.service import WorkflowService

_answer = msgspec.json.Decoder(InterruptRequest).decode


class WorkflowRuns:
    """The kind `workflow` on the run surface."""

    name = KIND

    def __init__(self, room: WorkflowService, host: HostInfo) -> None:
        self.room, self.host = room, host

    async def open(
        self, request: RunRequest, who: Principal, holder: str, documents: Sequence[PutDocument], *, run: str
    ) -> Run:
        assert request.workflow_id is not UNSET
        asked = self.room.request(
            who,
            request.workflow_id,
            None if request.inputs is UNSET else request.inputs,
            None if request.configurable is UNSET else request.configurable,
            () if request.tags is UNSET else request.tags,
            None if request.metadata is UNSET else request.metadata,
            "default" if request.scope_id is UNSET else request.scope_id,
        )
        return await self.room.open(asked, who.tenant, run, documents)

    async def fork(
        self,
        source: Run,
        request: ForkRequest,
        who: Principal,
        holder: str,
        documents: Sequence[PutDocument],
        *,
        run: str,
    ) -> Run:
        """By the kind of each node: recorded results answer for the world (contract §13.9)."""
        overlay = None if request.run_options_overlay is UNSET else request.run_options_overlay
        start = None if request.from_seq is UNSET else request.from_seq
        asked = await fork_request(self.room, source, request.mode, start, overlay)
        return await self.room.open(asked, who.tenant, run, documents)

    async def shown(self, run: Run) -> JSON:
        owner = {"tenant": run.tenant} | {
            name: run.head[name] for name in ("principal", "workspace") if name in run.head
        }
        shown: JSON = {"owner": owner, "engineVersion": "1", "eventLogSchemaVersion": 2}
        shown |= {name: run.head[name] for name in ("tags", "traceparent") if name in run.head}
        return shown | await self.room.snapshot(run)

    def offer(self) -> dict[str, Any]:
        """What discovery says of them: exactly what can be started, and the phases that hold."""
        bounds = self.room.environment.limits
        seeded = tuple(id for id in self.room.library.ids() if id.startswith(CONFORMANCE))
        agents = {"orchestrator": True, "dispatch": True, "dispatchMapping": True, "subRunAttestation": True}
        return {
            "fixtures": seeded,
            "seeded": bool(seeded),
            "agents_more": agents,
            "execution_model": execution_model(self.host),
            "limits": {"maxNodeExecutions": bounds.executions, "maxLoopIterations": bounds.iterations},
            "memory": True,
            "envelopes": ("clarification.request",),
        }


def workflows_of(surface: OpenWopHost) -> WorkflowRuns:
    offered = surface.kinds.get(KIND) if surface.workflows is not None else None
    if not isinstance(offered, WorkflowRuns):
        raise NotFound("there are no workflows here")
    return offered


async def get_workflow(call: HttpRequest) -> Response:
    call.query()
    (said,) = call.scope["path_params"].values()
    return answer(document_of(workflows_of(host_of(call)).room.workflow(said)))


async def respond(call: HttpRequest) -> Response:
    """200, and it goes on; whoever comes second is in conflict."""
    call.query()
    surface = host_of(call)
    room = workflows_of(surface).room
    named = call.scope["path_params"]
    run = await run_of(call, surface, named["run_id"])
    body_format(call)
    body, node = await read_body(call), named["node_id"]
    said = decoded(_answer, body, call.server.limits)
    once = IdempotentRequest(
        call, "POST /v1/runs/{runId}/interrupts/{nodeId}", lambda: f"{run.id} {node} {digest_of(body)}"
    )

    async def resolve(documents: list[PutDocument]) -> Run:
        return await room.respond(call.principal, run.id, node, said.resume_value, documents)

    gone_on, replayed = await once.perform(resolve, lambda: room.get(run.id, call.tenant))
    resolved = InterruptResponse(run_id=run.id, node_id=node, status=gone_on.status)
    return answer(resolved, headers=REPLAYED if replayed else ())


async def ancestry(call: HttpRequest) -> Response:
    """Of any kind of run; a host that is off for others has none to tell."""
    call.query()
    surface = host_of(call)
    offered = workflows_of(surface)
    run = await run_of(call, surface)
    return answer(await offered.room.ancestry(run.id, call.tenant, offered.host.host_id))


async def verification(call: HttpRequest) -> Response:
    call.query()
    surface = host_of(call)
    run = await run_of(call, surface)
    await call.audit_read(run)
    return answer(await workflows_of(surface).room.report(run.id, call.tenant))
