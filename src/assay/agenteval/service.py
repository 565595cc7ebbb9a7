"""The service for agent evals: plan, submit, read results. Transports and the command call it."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.kind import EvalDependencies
from assay.agenteval.planning.plan import EvalPlan, plan
from assay.agenteval.planning.request import Baseline, EvalFacts, EvalRequest, overrides_of
from assay.agenteval.planning.run_header import (
    KIND,
    MAX_COST,
    REPEATED_COST,
    REQUEST,
    RESULTS,
    TASKS,
    EvalHeader,
    read_request,
    read_tasks,
    request_chunk,
    request_of,
    task_chunks,
)
from assay.agenteval.results.report import read_results, read_summary
from assay.agenteval.results.scorecard import Scorecard
from assay.agenteval.scoring.safety import offers_adversarial, with_requested_judge
from assay.agenteval.scoring.safety_records import SAFETY
from assay.agenteval.scoring.scoring import judge_arguments, no_judge
from assay.agenteval.scoring.task_checks import CHECK_TALLY, CHECKS
from assay.agenteval.suites.extension import tools_of
from assay.agents.conversation import model_of
from assay.cases.fold import CHECKS as LABELS
from assay.checks.arguments import bind
from assay.errors import EvalRefused, InvalidRequest, MalformedPath, Problem, UsageError
from assay.ports import Event, PutDocument, Run, Store
from assay.ports.agents import Agent, Agents, Coverage, Limited, PackedAgent, RunNeeds, agent_at
from assay.ports.telemetry import propagation_headers
from assay.protocol.agent_evals import AgentEvalSuite, EvalSummary, EvalTask
from assay.protocol.event_record import decode_event
from assay.protocol.suite_extension import MEMBER, SimulatedUser, extended_tasks, extension_of
from assay.runs.intake import NewRun, new_id, submit
from assay.runs.log_reader import read_events


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
            named = sorted({tool for task in extended_tasks(suite, suite.tasks) for tool in tools_of(task)})
            tools = {spec.id for spec in dependencies.tools.static_specs(named)}
        if isinstance(agent, Limited):
            tools |= agent.own_tools
        missing_judge = no_judge(dependencies.services.providers, request.judge)
        policy = with_requested_judge(dependencies.policy, request.judge)
        return EvalFacts(
            card=agent.card if agent else None,
            definition=agent.definition if isinstance(agent, PackedAgent) else None,
            tenant_agent=agent is not None and dependencies.agents.get(agent.card.agent_id) is None,
            suite=suite,
            baseline=await self._baseline(request.baseline_run_id, tenant),
            no_judge=missing_judge,
            live_tools=frozenset(tools),
            detectors=offers_adversarial(dependencies.registry, policy, judge=missing_judge is None),
            policy=policy,
            traced=dependencies.spans is not None,
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
        if planned.tenant_agent and (planned.live or request.record) and planned.card.tools:
            self._check_pack_tools(planned.card.agent_id)
        if problems := own_problems(planned.tasks, self.dependencies, request.judge):
            raise EvalRefused(problems, field="evalSuiteRef")
        agent = self.dependencies.agents.get(planned.card.agent_id)
        problems: list[Problem] = []
        if isinstance(agent, Coverage):
            problems += agent.problems(planned.suite.tasks, planned.tasks, request.trials)
        if isinstance(agent, Limited):
            problems += agent.unmet(_needs_of(planned))
        if problems:
            raise EvalRefused(problems, field="agentId")
        return planned

    def _check_pack_tools(self, agent_id: str) -> None:
        """The allow-list of a pack is its tenant's: it does not open the tools that the operator configured."""
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
            metadata=header.run_metadata | cost_limit(plan.request.max_cost) | propagation_headers(),
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


def _needs_of(plan: EvalPlan) -> RunNeeds:
    answered = () if plan.live or plan.request.record else plan.tasks
    return RunNeeds(
        conversations=len(plan.tasks) * plan.request.trials,
        max_cost=plan.request.max_cost,
        fixtures=frozenset(tool for task in answered for tool in tools_of(task)),
        turns=any((found := extension_of(task)) and found.turns for task in plan.tasks),
    )


def own_problems(
    tasks: Iterable[EvalTask], dependencies: EvalDependencies, judge: str | None
) -> list[Problem]:
    """What this host cannot do of `x-assay` of the tasks: its checks, and the models of simulated users."""
    problems: list[Problem] = []
    for task in tasks:
        extension = extension_of(task)
        if extension is None:
            continue
        place = f"{MEMBER}.tasks.{task.task_id}"
        for at, check in enumerate(extension.checks):
            try:
                bound = bind(check, dependencies.registry, f"{place}.checks[{at}]", dependencies.services)
            except InvalidRequest as refused:
                problems += refused.problems
                continue
            problems += [
                Problem(f"{place}.checks[{at}].arguments.{path.field.name}", str(path.query))
                for path in bound.paths
                if isinstance(path.query, MalformedPath)
            ]
        if extension.turns and extension.turns.user:
            problems += _user_problems(extension.turns.user, dependencies, judge, f"{place}.turns.user.model")
    return problems


def _user_problems(
    user: SimulatedUser, dependencies: EvalDependencies, judge: str | None, place: str
) -> list[Problem]:
    providers = dependencies.services.providers
    if providers is None:
        return [Problem(place, "a simulated user needs a model, and this host has no providers")]
    try:
        providers.model(None, model_of(user, judge_arguments(judge).get("model_config")))
    except InvalidRequest as refused:
        return [Problem(place, one.message) for one in refused.problems]
    return []


def cost_limit(max_cost: float | None) -> dict[str, Any]:
    """The member of the metadata of a run that has a limit of its cost."""
    return {} if max_cost is None else {MAX_COST: max_cost}


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


# What a fork of an eval run copies (openwop-contract §3.7): the tasks that have a score, or everything.

EVIDENCE = (REQUEST, TASKS, RESULTS, CHECKS, CHECK_TALLY, SAFETY)
ALWAYS = frozenset({"run.started", "eval.started"})


class ScoredUnits(msgspec.Struct, frozen=True):
    """The tasks of a run that have a score, with their events and results."""

    request: EvalHeader
    tasks: frozenset[str]
    numbers: frozenset[int]
    labels: tuple[str, ...] = ()  # of the columns of the table of cases
    repeated: float = (
        0.0  # known cost in US dollars of trials that are not copied, in this run and its sources
    )

    @property
    def evidence(self) -> dict[str, Callable[[int], bool]]:
        trials = self.request.trials

        def is_scored(first: int) -> bool:
            return first // trials in self.numbers

        of_trials = dict.fromkeys((RESULTS, CHECKS, CHECK_TALLY, SAFETY), is_scored)
        return {REQUEST: _all, TASKS: _all, **of_trials}

    def keep(self, event: Event) -> bool:
        """Whether to copy an event: those of scored tasks, by node, and not the end of the run."""
        if event.type in ALWAYS:
            return True
        node = decode_event(event.data).nodeId
        return node is not UNSET and node.partition(":")[2] in self.tasks

    @property
    def metadata(self) -> dict[str, Any]:
        labels = {LABELS: list(self.labels)} if self.labels else {}
        return self.request.run_metadata | labels | ({REPEATED_COST: self.repeated} if self.repeated else {})


async def read_scored_units(store: Store, source: Run) -> ScoredUnits:
    request = await read_request(store, source)
    scorecard = Scorecard(request)
    async for event in read_events(store, source.id):
        scorecard.add(event)
    ids = msgspec.json.Decoder(_Id).decode
    numbers = {at async for at, line in read_tasks(store, source) if ids(line).taskId in scorecard.tasks}
    labels = tuple(source.metadata.get(LABELS, ()))
    scored = ScoredUnits(request, frozenset(scorecard.tasks), frozenset(numbers), labels)
    kept = Scorecard(request)
    async for event in read_events(store, source.id):
        if scored.keep(event):
            kept.add(event)
    repeated = source.metadata.get(REPEATED_COST, 0.0) + scorecard.cost - kept.cost
    return msgspec.structs.replace(scored, repeated=round(repeated, 12))


def branch_point(source: Run, from_seq: int) -> None:
    """An eval can only be branched from its last event, because its tasks have no order."""
    if from_seq != source.events - 1:
        message = f"expected the last event of the run, {source.events - 1}, got {from_seq}"
        raise EvalRefused(Problem("fromSeq", message), field="fromSeq")


def same_agent(request: EvalHeader, agents: Agents) -> None:
    """Refuse another version of the agent: the copied scores belong to one. A pack's agent is stored with its run."""
    if request.definition is not None:
        return
    agent = agents.get(request.agent_id)
    if agent is None:
        raise EvalRefused(Problem("agentId", f"this host has no agent {request.agent_id!r}"), field="agentId")
    if agent.card.version != request.agent_version:
        message = (
            f"expected {request.agent_id} at version {request.agent_version}, as in the source run, "
            f"got {agent.card.version}"
        )
        raise EvalRefused(Problem("agentId", message), field="agentId")


class _Id(msgspec.Struct):
    taskId: str  # noqa: N815  # the wire's name


def _all(_: int) -> bool:
    return True
