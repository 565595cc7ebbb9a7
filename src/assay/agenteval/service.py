"""The service for agent evals: plan, submit, read results. Transports and the command call it."""

from collections.abc import AsyncIterator, Sequence

from msgspec import UNSET

from assay.agenteval.judge_inspection import with_requested_judge
from assay.agenteval.kind import EvalDependencies
from assay.agenteval.plan import EvalPlan, plan
from assay.agenteval.report import read_results, read_summary
from assay.agenteval.request import Baseline, EvalFacts, EvalRequest, overrides_of
from assay.agenteval.rubric import no_judge
from assay.agenteval.run_header import KIND, request_chunk, request_of, task_chunks
from assay.agenteval.safety import offers_adversarial
from assay.errors import EvalRefused, InvalidRequest, Problem, UsageError
from assay.ports import PutDocument, Run, Store
from assay.ports.agents import Agent, Coverage, PackedAgent, agent_at
from assay.ports.telemetry import propagation_headers
from assay.protocol.agent_evals import AgentEvalSuite, EvalSummary
from assay.runs.intake import NewRun, new_id, submit


class AgentEvalService:
    """The agent evals of one host."""

    def __init__(self, store: Store, dependencies: EvalDependencies, *, lease: float = 10.0) -> None:
        self.store, self.dependencies, self.lease = store, dependencies, lease

    async def gather(
        self, request: EvalRequest, tenant: str, suite: AgentEvalSuite | InvalidRequest | None
    ) -> EvalFacts:
        """The facts that a plan depends on. A baseline of another tenant is not found."""
        dependencies = self.dependencies
        version = _version_of(request)
        agent = await self.agent(request.agent_id, tenant, version) if request.agent_id else None
        if agent is not None:
            _check_overrides(agent, request)
        tools: set[str] = set()
        if isinstance(suite, AgentEvalSuite) and dependencies.tools is not None:
            fixtures = [task.fixtures.tool_responses for task in suite.tasks if task.fixtures is not UNSET]
            named = sorted({one.tool for responses in fixtures for one in responses})
            tools = {spec.id for spec in dependencies.tools.static_specs(named)}
        missing_judge = no_judge(dependencies.services.providers, request.judge)
        policy = with_requested_judge(dependencies.policy, request.judge)
        return EvalFacts(
            card=agent.card if agent else None,
            definition=agent.definition if isinstance(agent, PackedAgent) else None,
            suite=suite,
            baseline=await self._baseline(request.baseline_run_id, tenant),
            no_judge=missing_judge,
            live_tools=frozenset(tools),
            detectors=offers_adversarial(dependencies.registry, policy, judge=missing_judge is None),
            policy=policy,
        )

    async def agent(self, agent_id: str, tenant: str, version: str | None = None) -> Agent | None:
        """
        The agent of this id: one of the host, else one of the tenant's packs. One without a model here is refused.

        None: there is no such agent, or it does not have this version.
        """
        agent = self.dependencies.agents.get(agent_id)
        if agent is not None or self.dependencies.packs is None:
            return agent_at(agent, version)
        agent = await self.dependencies.packs.get(tenant, agent_id, version)
        try:
            if isinstance(agent, PackedAgent):
                agent.ready()
        except UsageError as refused:
            raise EvalRefused(Problem("agentId", str(refused)), field="agentId") from None
        return agent

    async def plan(
        self, request: EvalRequest, tenant: str, suite: AgentEvalSuite | InvalidRequest | None
    ) -> EvalPlan:
        planned = plan(request, await self.gather(request, tenant, suite), self.dependencies.limits)
        if planned.definition is not None and planned.live and planned.card.tools:
            self._check_pack_tools(planned.card.agent_id)
        agent = self.dependencies.agents.get(planned.card.agent_id)
        if isinstance(agent, Coverage):
            problems = agent.problems(planned.suite.tasks, planned.tasks, request.trials)
            if problems:
                raise EvalRefused(problems, field="agentId")
        return planned

    def _check_pack_tools(self, agent_id: str) -> None:
        """
        A tenant wrote the allow-list of its pack, so it does not open the tools that the operator configured for other
        agents.
        """
        if not self.dependencies.pack_tools:
            place = "configurable.evalModes"
            message = (
                f"live-shadow calls live tools, and agent {agent_id} of a pack may not call the tools "
                "of this host"
            )
            raise EvalRefused(Problem(place, message), field=place)

    async def submit(
        self,
        plan: EvalPlan,
        tenant: str,
        holder: str,
        documents: Sequence[PutDocument] = (),
        *,
        run: str | None = None,
    ) -> Run:
        """Store the request and its tasks. When this returns, the run is pending and leased to `holder`."""
        header = request_of(plan)
        incoming = NewRun(
            run=run or new_id("run-"),
            tenant=tenant,
            kind=KIND,
            name=header.suite_id,
            metadata=header.run_metadata | propagation_headers(),
            request=request_chunk(header),
        )
        return await submit(self.store, incoming, task_chunks(plan.tasks), holder, self.lease, documents)

    async def summary(self, run: Run) -> EvalSummary | None:
        return await read_summary(self.store, run)

    def results(self, run: Run) -> AsyncIterator[bytes]:
        return read_results(self.store, run)

    async def _baseline(self, run: str | None, tenant: str) -> Baseline | None:
        found = await self.store.run(run, tenant=tenant) if run else None
        summary = await self.summary(found) if found else None
        if found is None or summary is None:
            return None
        return Baseline(
            run_id=found.id,
            suite_id=summary.suite_id,
            suite_version=summary.suite_version,
            score=summary.aggregate_score,
            task_ids=frozenset(task.task_id for task in summary.tasks),
        )


def _version_of(request: EvalRequest) -> str | None:
    """The version of the agent that the request names, if it does."""
    version: object = request.configurable.get("agentVersion")
    if version is None or (isinstance(version, str) and 1 <= len(version) <= 64 and version.isprintable()):
        return version
    place = "configurable.agentVersion"
    raise EvalRefused(Problem(place, "expected a version of the agent, such as 1.2.0"), field=place)


def _check_overrides(agent: Agent, request: EvalRequest) -> None:
    try:
        overrides_of(agent, request.configurable)
    except InvalidRequest as refused:
        place = "configurable.model"
        problems = [Problem(place, one.message) for one in refused.problems]
        raise EvalRefused(problems, field=place) from None
