"""Test-only routes of the conformance suite, with OPENWOP_TEST_SEAM_ENABLED=true alone (openwop-contract §0.6)."""

import hashlib
from collections import defaultdict
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.errors import InvalidRequest, NotFound, Problem
from assay.ports import Run
from assay.protocol.event_record import new_event_id
from assay.protocol.events import ProviderUsage
from assay.protocol.json_types import JSON
from assay.protocol.runs import RunRequest
from assay.protocol.validation_messages import message_of, path_in
from assay.runs.intake import new_id
from assay.runs.log_reader import all_events as whole_log
from assay.seams.actions import dispatch
from assay.seams.deployments import DEPLOYMENT_SEAMS
from assay.seams.sample_agents import SAMPLE, STRICT, STRICT_SCHEMA, invocation_suite, sample_suite
from assay.seams.workflow_routes import BASE, WORKFLOW_SEAMS
from assay.serve.fep.request_parser import read_json
from assay.serve.openwop.errors import CredentialLeak
from assay.serve.openwop.eval_runs import evals_of
from assay.serve.openwop.host import NewRun, OpenWopHost, host_of, run_of
from assay.serve.openwop.workflows import workflows_of
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import Endpoint, Parameter, ResponseSpec, RouteSpec
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

# Test-only routes for evals (openwop-contract §10.2, §10.3, §10.6): they read the log of real runs and start real
# runs.

FILTERS = {"type": "type", "nodeId": "nodeId", "causationId": "causationId", "correlationId": "causationId"}
MAX_EVENTS = 1_000  # emitted events of a tenant


class _Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pass


class EvalRun(_Body, frozen=True, kw_only=True):
    agent_id: str = SAMPLE
    modes: list[str] | UnsetType = UNSET
    task_count: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2


class LiveInvoke(_Body, frozen=True, kw_only=True):
    agent_id: str | UnsetType = UNSET
    source: Literal["run-api", "workflow-node"] = "run-api"
    return_schema_ref: Literal["conformance-strict-handoff"] | UnsetType = UNSET
    force_invalid_result: bool = False
    attempt_tool: str | UnsetType = UNSET


class EmitRequest(_Body, frozen=True, kw_only=True):
    run_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    payload: dict[str, Any]
    correlation_id: str | UnsetType = UNSET
    node_id: str | UnsetType = UNSET


_eval_run = msgspec.json.Decoder(EvalRun).decode
_live = msgspec.json.Decoder(LiveInvoke).decode
_decode_emit = msgspec.json.Decoder(EmitRequest).decode
_emitted_events: WeakKeyDictionary[OpenWopHost, defaultdict[str, list[JSON]]] = WeakKeyDictionary()


def _events_of(host: OpenWopHost) -> defaultdict[str, list[JSON]]:
    return _emitted_events.setdefault(host, defaultdict(list))


async def read_log(call: HttpRequest) -> Response:
    """The events of a run. An unknown run has none: so the suite finds out whether this route exists."""
    params = call.query(*FILTERS)
    host = host_of(call)
    events = [event for event in _events_of(host)[call.tenant] if event["runId"] == call.run_id]
    try:
        run = await run_of(call, host)
        events += [event async for event in whole_log(host.store, run.id)]
    except NotFound:
        pass
    filters = [(FILTERS[name], value) for name, value in params.items()]
    return answer(
        {"events": [event for event in events if all(event.get(n) == value for n, value in filters)]}
    )


async def reset(call: HttpRequest) -> Response:
    """Delete the emitted events; runs stay."""
    call.query()
    await read_document(call)
    _events_of(host_of(call)).pop(call.tenant, None)
    return answer({"ok": True})


async def emit_usage(call: HttpRequest) -> Response:
    call.query()
    host = host_of(call)
    body_format(call)
    body = await read_json(call, _decode_emit, await read_document(call))
    if "secret:" in msgspec.json.encode(body.payload).decode():
        raise CredentialLeak
    try:
        usage = msgspec.convert(body.payload, ProviderUsage)
    except msgspec.ValidationError as wrong:
        raise InvalidRequest(Problem(f"payload{path_in(wrong)}", message_of(wrong, ProviderUsage))) from None
    events = _events_of(host)[call.tenant]
    if len(events) >= MAX_EVENTS:
        raise InvalidRequest(
            Problem("runId", f"the limit of {MAX_EVENTS} emitted events is reached; reset first")
        )
    event: JSON = {
        "eventId": new_event_id(),
        "runId": body.run_id,
        "type": "provider.usage",
        "payload": msgspec.to_builtins(usage),
        "timestamp": call.server.clock.now().isoformat().replace("+00:00", "Z"),
        "sequence": sum(event["runId"] == body.run_id for event in events),
    }
    event |= {} if body.correlation_id is UNSET else {"causationId": body.correlation_id}
    event |= {} if body.node_id is UNSET else {"nodeId": body.node_id}
    events.append(event)
    return answer({"ok": True, "eventId": event["eventId"]})


async def eval_run(call: HttpRequest) -> Response:
    """Run an eval to its end, then answer."""
    call.query()
    body_format(call)
    body = await read_json(call, _eval_run, await read_document(call) or b"{}")
    modes: JSON = {} if body.modes is UNSET else {"evalModes": body.modes}
    run = await _wait_for_run(call, sample_suite(body.task_count), body.agent_id, modes)
    header = run.metadata
    return answer(
        {
            "runId": run.id,
            "suiteId": header["suiteId"],
            "suiteVersion": header["suiteVersion"],
            "taskCount": header["total"],
            "passed": header.get("passed", False),
            "aggregateScore": header.get("aggregateScore"),
        }
    )


async def live_invoke(call: HttpRequest) -> Response:
    """One agent invocation, as the only task of an eval or the only node of a workflow."""
    call.query()
    body_format(call)
    body = await read_json(call, _live, await read_document(call) or b"{}")
    agent = body.agent_id
    if agent is UNSET:
        agent = STRICT if body.return_schema_ref == STRICT_SCHEMA else SAMPLE
    result: Any = {"answer": 7} if body.force_invalid_result else {"answer": "seven"}
    attempt = None if body.attempt_tool is UNSET else body.attempt_tool
    mark = hashlib.sha256(msgspec.json.encode([result, attempt])).hexdigest()[:16]
    suite = invocation_suite(f"invoke-{mark}", result, attempt)
    if body.source == "workflow-node":
        return await _as_a_node(call, agent, suite["tasks"][0]["input"])
    run = await _wait_for_run(call, suite, agent, {})
    ends: JSON = {}
    async for event in whole_log(host_of(call).store, run.id):
        if event["type"] == "agent.invocation.completed":
            ends = {name: event["payload"][name] for name in ("invocationId", "outcome")}
    return answer({"runId": run.id, **ends})


async def _as_a_node(call: HttpRequest, agent: str, task: JSON) -> Response:
    host = host_of(call)
    workflows = workflows_of(host).workflows
    card = next((card for card in host.cards() if card.agent_id == agent), None)
    if card is None:
        raise InvalidRequest(Problem("agentId", f"there is no agent {agent[:256]!r} here"))
    result = await dispatch(workflows, call.principal, card, {"task": task})
    (last,) = (event for event in result["events"] if event["type"] == "agent.invocation.completed")
    return answer({"runId": result["runId"], **{name: last[name] for name in ("invocationId", "outcome")}})


async def _wait_for_run(call: HttpRequest, suite: JSON, agent: str, configurable: JSON) -> Run:
    """Create a run as POST /v1/runs does, and wait for its end."""
    host = host_of(call)
    evals = evals_of(host)
    entry, _ = await host.suites.put(call.tenant, suite)
    request = RunRequest(
        mode="eval",
        eval_suite_ref=f"{entry.suite_id}@{entry.version}",
        agent_id=agent,
        configurable=configurable or UNSET,
    )
    with call.server.admission.reserve_run(call.tenant):
        executor = call.server.executor
        new = NewRun(new_id("run-"), call.principal, executor.executor_id)
        opened = await evals.open(request, new)
        executor.start(opened)
    return await call.until_disconnect(executor.wait(opened.id))


def _route(method: str, path: str, id: str, endpoint: Endpoint, scope: str, *filters: str) -> RouteSpec:
    return RouteSpec(
        method=method,
        path=BASE + path,
        endpoint=endpoint,
        scope=scope,
        id=id,
        summary="For the conformance suite",
        responses={200: ResponseSpec("The outcome.")},
        errors=(404, 413, 415),
        parameters=tuple(
            Parameter(name, {"type": "string"}, "Only events with this value.") for name in filters
        ),
    )


EVAL_SEAMS = [
    _route("GET", "/test/runs/{run_id}/events", "sampleEvents", read_log, "runs:read", *FILTERS),
    _route("POST", "/test/reset", "sampleReset", reset, ""),
    _route("POST", "/test/emit-provider-usage", "sampleEmitUsage", emit_usage, "runs:create"),
    _route("POST", "/agents/eval-run", "sampleEvalRun", eval_run, "runs:create"),
    _route("POST", "/agents/live-invoke", "sampleLiveInvoke", live_invoke, "runs:create"),
]


SEAMS: list[RouteSpec] = [*WORKFLOW_SEAMS, *EVAL_SEAMS, *DEPLOYMENT_SEAMS]
