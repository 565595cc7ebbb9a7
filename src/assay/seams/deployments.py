"""The test-only route for deployments (openwop-contract §10.5): real transitions of a sample agent."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.errors import Forbidden
from assay.ports import Principal
from assay.promotion.records import AgentRecords, EvalGateUnmet, VersionRecord, version_order
from assay.promotion.service import PromotionService, TransitionOutcome
from assay.promotion.transitions import DEPLOY_SCOPES
from assay.protocol.deployments import State, TransitionRequest
from assay.protocol.json_types import JSON
from assay.protocol.runs import RunRequest
from assay.runs.intake import new_id
from assay.seams.sample_agents import CHANNEL_AGENT, channel_suite
from assay.seams.workflow_routes import BASE
from assay.serve.fep.request_parser import read_json
from assay.serve.openwop.deployments import CAPABILITY
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.eval_runs import evals_of
from assay.serve.openwop.host import NewRun, host_of
from assay.serve.openwop.workflows import workflows_of
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import ResponseSpec, RouteSpec
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.workflow.service import WorkflowService

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
STEPS: dict[State, State] = {"draft": "test", "test": "staged", "staged": "active"}
UNKNOWN_RUN = "run-of-no-eval"
DISPATCH = "conformance-agent-channel-dispatch"
# The fixture above can be started in every tenant: the suite expects that of an advertised one.
INITIAL_RECORDS = {
    CHANNEL_AGENT: AgentRecords(
        agent_id=CHANNEL_AGENT,
        serial=1,
        versions={"0.9.0": VersionRecord(state="active", channels={"stable": 1})},
    )
}


class DeploymentScenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The request of the conformance suite."""

    scenario: Literal["promote", "unauthorized", "eval-gate-unmet", "channel-pin"]
    agent_id: Annotated[str, msgspec.Meta(min_length=3, max_length=256)] = CHANNEL_AGENT
    version: Name | UnsetType = UNSET
    channel: Name | UnsetType = UNSET
    eval_run_id: Name | UnsetType = UNSET


class DeploymentSeam:
    """Plays the scenarios. `measure` runs an eval of the sample agent at a version, and returns the run's id."""

    def __init__(self, promotions: PromotionService, workflows: WorkflowService, measure: Any) -> None:
        self._promotions, self._workflows, self._measure = promotions, workflows, measure

    async def play(self, principal: Principal, scenario: DeploymentScenario) -> JSON:
        releaser = msgspec.structs.replace(
            principal, scopes=principal.scopes | frozenset(DEPLOY_SCOPES.values())
        )
        match scenario.scenario:
            case "promote":
                outcome = await self._promote(releaser, scenario)
                record = msgspec.to_builtins(outcome.record)
                return {"runId": outcome.run.id, "allowed": True, "record": record}
            case "unauthorized":
                bystander = msgspec.structs.replace(principal, scopes=frozenset[str]())
                return await self._refused(bystander, scenario)
            case "eval-gate-unmet":
                return await self._refused(releaser, scenario)
            case "channel-pin":
                return await self._pin(releaser, scenario)

    async def _next_version(self, principal: Principal, scenario: DeploymentScenario) -> str:
        """The version of the request, or one that has no record yet."""
        if scenario.version is not UNSET:
            return scenario.version
        known = await self._promotions.deployments(principal.tenant, scenario.agent_id)
        last = max(known, key=lambda one: version_order(one.version))
        if last.state == "draft":
            return last.version
        first, _, number = last.version.rpartition(".")
        return f"{first}.{int(number) + 1}"

    async def _promote(self, principal: Principal, scenario: DeploymentScenario) -> TransitionOutcome:
        """All steps from a draft to active. The eval run is a real one."""
        version = await self._next_version(principal, scenario)
        run = await self._measure(scenario.agent_id, version)
        channel = "stable" if scenario.channel is UNSET else scenario.channel
        outcome: TransitionOutcome | None = None
        for state in STEPS.values():
            request = TransitionRequest(
                version=version,
                transition="promote",
                to_state=state,
                channel=channel if state == "active" else UNSET,
                eval_run_id=run,
            )
            outcome = await self._promotions.transition(principal, scenario.agent_id, request)
        assert outcome is not None
        return outcome

    async def _refused(self, principal: Principal, scenario: DeploymentScenario) -> JSON:
        """A promotion that must be refused; the run of the refusal has its log."""
        version = await self._next_version(principal, scenario)
        run = new_id("run-")
        if scenario.scenario == "eval-gate-unmet":
            first = TransitionRequest(version=version, transition="promote", to_state="test")
            await self._promotions.transition(principal, scenario.agent_id, first)
        named = UNKNOWN_RUN if scenario.eval_run_id is UNSET else scenario.eval_run_id
        request = TransitionRequest(version=version, transition="promote", eval_run_id=named)
        try:
            await self._promotions.transition(principal, scenario.agent_id, request, run=run)
        except (Forbidden, EvalGateUnmet) as refusal:
            return {"runId": run, "allowed": False, "error": refusal.code}
        return {"runId": run, "allowed": True}

    async def _pin(self, principal: Principal, scenario: DeploymentScenario) -> JSON:
        """A run that binds the channel."""
        known = await self._promotions.deployments(principal.tenant, CHANNEL_AGENT)
        if not any(one.channels and "stable" in one.channels for one in known):
            await self._promote(principal, DeploymentScenario(scenario="promote", channel="stable"))
        started = await self._workflows.start(principal, DISPATCH)
        run = await self._workflows.wait(started.id)
        agent = await self._promotions.resolve(principal.tenant, run.id, CHANNEL_AGENT, "stable")
        return {"runId": run.id, "resolvedAgentVersion": agent.card.version}


# The test-only route for deployments (openwop-contract §10.5).

_scenario = msgspec.json.Decoder(DeploymentScenario).decode


async def deployment_transition(call: HttpRequest) -> Response:
    """Play one scenario, and return the run that has its log."""
    call.query()
    host = host_of(call)
    if host.promotions is None:
        raise NotProvided(CAPABILITY)
    body_format(call)
    scenario = await read_json(call, _scenario, await read_document(call) or b"{}")

    async def measure(agent_id: str, version: str) -> str:
        entry, _ = await host.suites.put(call.tenant, channel_suite())
        request = RunRequest(
            mode="eval",
            eval_suite_ref=f"{entry.suite_id}@{entry.version}",
            agent_id=agent_id,
            configurable={"agentVersion": version},
        )
        executor = call.server.executor
        with call.server.admission.reserve_run(call.tenant):
            new = NewRun(new_id("run-"), call.principal, executor.executor_id)
            opened = await evals_of(host).open(request, new)
            executor.start(opened)
        return (await call.until_disconnect(executor.wait(opened.id))).id

    seam = DeploymentSeam(host.promotions, workflows_of(host).workflows, measure)
    return answer(await seam.play(call.principal, scenario))


DEPLOYMENT_SEAMS = [
    RouteSpec(
        method="POST",
        path=f"{BASE}/agents/deployment-transition",
        endpoint=deployment_transition,
        scope="",
        id="sampleDeploymentTransition",
        summary="For the conformance suite",
        responses={200: ResponseSpec("The outcome.")},
        errors=(404, 413, 415, 501),
    )
]
