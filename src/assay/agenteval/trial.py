"""Runs one trial of one task: the invocation, then its scoring (openwop-contract §5.1)."""

import inspect
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from assay.agenteval.planning.run_header import EvalHeader
from assay.agenteval.scoring.canary import has_canary, new_canary, with_canary
from assay.agenteval.scoring.expected_calls import MEMBER as TOOL_CALLS
from assay.agenteval.scoring.expected_calls import calls_of, judges_arguments
from assay.agenteval.scoring.safety import SafetyInspector, SafetyResult, TrialFacts
from assay.agenteval.scoring.safety_records import is_blocking
from assay.agenteval.scoring.scoring import checks_of, context_of, score_of
from assay.agenteval.scoring.task_checks import CheckedTrial, check_trial
from assay.agenteval.scoring.traced_trial import read_trace
from assay.agents.conversation import converse, user_of
from assay.agents.fixtures import FixtureTools, SeededMemory, read_seeds
from assay.agents.invocation import MAX_ATTEMPTS, Invocation, invoke
from assay.agents.usage import MeteredProviders
from assay.checks.async_tasks import run_tasks_async
from assay.checks.missing_parts import MISSING, without_missing
from assay.checks.runner import ResultOptions, call, prepare, to_result
from assay.checks.worker_tasks import WorkerTask
from assay.concurrency.parking import hold
from assay.errors import Fault, ForeignFault, TimeFault
from assay.fep.agent_runs.agent_output import spending_of_steps, usage_metadata
from assay.fep.execution.inline import score_contexts
from assay.fep.planning.plan import Plan
from assay.fep.planning.scorer import Scorer
from assay.inputs.context import Context
from assay.ports import Services
from assay.ports.agents import Agent, Memory, Prompted, ToolBox
from assay.protocol.agent_evals import EvalTask
from assay.protocol.agents import (
    InvocationResult,
    MemoryEntry,
    ReasoningStep,
    RecordedInvocation,
    Step,
    Usage,
    UsageStep,
)
from assay.protocol.json_types import JSON
from assay.protocol.redaction import redact_json, redact_text
from assay.protocol.results import CheckError, CheckResult, TestCaseResult
from assay.protocol.suite_extension import extension_of
from assay.results.tally import Tally
from assay.runs.agent_answers import AgentAnswers
from assay.runs.run_options import TimeBudget
from assay.traces.span_receiver import SpanReceiver
from assay.traces.trace_case import Price

SEEDS = "seeds"  # the reference of the memory that holds a task's seeds
STOPPED = "the run was cancelled during the trial"


class TrialUnit(Struct, frozen=True, omit_defaults=True):
    """One unit of an eval run: a trial of a task. `answer` names what its agent answered before a restart."""

    run: str
    number: int
    trial: int
    task: bytes
    answer: str = ""


class RecordedTrial(Struct, frozen=True, kw_only=True):
    """What a run has of a trial whose agent has answered, while its judges wait."""

    canary: str
    finish: InvocationResult
    invocation: RecordedInvocation
    user: list[Usage]
    traced: JSON


class NamedTask(Struct, frozen=True, rename="camel"):
    """The name of a task, without its content."""

    task_id: str


TrialState = Literal["measured", "unmeasured", "stopped", "not begun"]


class TrialResult(Struct, frozen=True, kw_only=True):
    """The result of one trial. `score` is None if it was not measured, was stopped or has not begun."""

    number: int
    trial: int
    task_id: str
    kind: str
    invocation_id: str
    state: TrialState
    finish: InvocationResult
    steps: list[Step]
    seeds: list[str]
    tools: int
    latency_ms: int
    judge: list[Usage]
    user: list[Usage] = []  # of the model that plays the user
    score: float | None
    line: bytes  # the evidence: a TestCaseResult
    checked: CheckedTrial | None = None  # the checks beside the scorecard
    safety: SafetyResult | None = None  # in the mode adversarial


class TrialEnvironment(Struct, frozen=True, kw_only=True):
    """What the trials of one run share."""

    request: EvalHeader
    agent: Agent
    time_budget: TimeBudget  # of the run
    answers: AgentAnswers
    plan: Plan
    services: Services
    tools: ToolBox | None
    memory: Callable[[], Memory] | None  # makes the live memory of one trial
    judge: JSON
    checks: Plan | None = None  # beside the scorecard
    inspector: SafetyInspector | None = None  # in the mode adversarial
    spans: SpanReceiver | None = None  # of the agent's own spans
    price: Price | None = None  # of model calls in spans


class TrialRunner:
    """Runs one trial. If it is cancelled, `result` has what was done until then."""

    def __init__(self, environment: TrialEnvironment, unit: TrialUnit, task: EvalTask) -> None:
        self._environment, self._unit, self._task = environment, unit, task
        self._canary, self._plain_task = "", task
        if environment.inspector is not None and not environment.request.has_live_tools and has_canary(task):
            self._canary = new_canary()
            self._task = with_canary(task, self._canary)
        self._safety: SafetyResult | None = None
        self._finish: InvocationResult | None = None
        self._fault: Fault | None = None
        self._score: float | None = None
        self._line = b""
        self._checked: CheckedTrial | None = None
        self._judge: list[Usage] = []
        self._user: list[Usage] = []
        self._seeds: tuple[MemoryEntry, ...] = ()
        self._traced: JSON = {}  # metadata of the output, of the agent's own spans
        self._invocation = self._open_invocation()

    @property
    def task_id(self) -> str:
        return self._task.task_id

    async def run(self) -> None:
        """Invoke the agent, unless its answer is recorded, then score its result."""
        answers, key = self._environment.answers, self._unit.answer
        recorded = await answers.read(key)
        finish = await self._answer() if recorded is None else self._recall(recorded)
        budget = self._environment.services.batch_budget
        if budget is not None and not (recorded and answers.is_inherited(key)):
            user = sum(usage.cost_usd or 0.0 for usage in self._user)
            budget.charge(spending_of_steps(self._invocation.steps).known_cost_usd + user)
        await self._score_result(finish)
        if self._environment.inspector is not None and self._fault is None:
            await self._inspect(self._environment.inspector, finish)
        if self._environment.checks is not None:
            self._checked = await check_trial(
                self._environment.checks,
                self._task,
                finish,
                self._invocation.steps,
                seconds=self._invocation.seconds,
                card=self._environment.agent.card,
                fault=self._fault,
                trial=self._unit.trial,
                traced=self._traced,
            )

    async def _answer(self) -> InvocationResult:
        """
        The answer of the agent, which is recorded if its judges wait for batches.

        A secret is not stored, also not for some hours: such an agent is asked again after a restart.
        """
        try:
            finish = self._finish = await self._invoke()
        except (ForeignFault, TimeFault) as fault:
            self._fault = fault
            self._finish = InvocationResult(outcome="failed", error=redact_text(str(fault)))
            return self._finish
        if not self._environment.answers.keeps:
            return finish
        recorded = _encode(
            RecordedTrial(
                canary=self._canary,
                finish=finish,
                invocation=self._invocation.record(),
                user=self._user,
                traced=self._traced,
            )
        )
        if redact_json(recorded) != recorded:
            hold(len(recorded))
            return finish
        await self._environment.answers.keep(self._unit.number, recorded)
        return self._recall(recorded)

    def _recall(self, answer: bytes) -> InvocationResult:
        recorded = _recorded(answer)
        if recorded.canary:
            self._canary, self._task = recorded.canary, with_canary(self._plain_task, recorded.canary)
        self._invocation.recall(recorded.invocation)
        self._finish, self._user, self._traced = recorded.finish, recorded.user, recorded.traced
        return recorded.finish

    async def _invoke(self) -> InvocationResult:
        """The answer of the agent. Its own spans, if they are received, become its steps."""
        environment, invocation = self._environment, self._invocation
        if environment.spans is None:
            return await self._ask()
        with environment.spans.expect() as expected:
            finish = await self._ask()
            group = await environment.spans.spans_of(expected)
        recorded = invocation.steps, invocation.attempts
        traced = read_trace(
            group, *recorded, invocation.own_id, environment.price, by_arguments=judges_arguments(self._task)
        )
        invocation.steps, invocation.attempts = traced.steps, traced.attempts
        self._traced = traced.metadata
        if traced.unknown and environment.inspector is not None:
            raise ForeignFault(f"the calls of the agent are not known: {traced.unknown}")
        return finish

    async def _ask(self) -> InvocationResult:
        environment, extension = self._environment, extension_of(self._task)
        floor = environment.request.escalation
        if extension is None or extension.turns is UNSET:
            return await invoke(environment.agent, self._task.input, self._invocation, min_confidence=floor)
        judge = environment.judge.get("model_config")
        user = user_of(extension.turns, environment.services.providers, judge, self._user)
        return await converse(
            environment.agent,
            self._task.input,
            self._invocation,
            extension.turns,
            user,
            min_confidence=floor,
        )

    def result(self, cut_short: Literal["stopped", "not begun"] | None = None) -> TrialResult:
        invocation, unit = self._invocation, self._unit
        state = cut_short or ("measured" if self._score is not None else "unmeasured")
        return TrialResult(
            number=unit.number,
            trial=unit.trial,
            task_id=self._task.task_id,
            kind=self._task.expected.kind,
            invocation_id=invocation.invocation_id,
            state=state,
            finish=self._finish or InvocationResult(outcome="failed", error=STOPPED),
            steps=invocation.steps,
            seeds=[seed.id for seed in self._seeds],
            tools=invocation.tool_count,
            latency_ms=round(invocation.seconds * 1000),
            judge=self._judge,
            user=self._user,
            score=None if cut_short else self._score,
            line=redact_json(self._line),  # scored as it came, stored without secrets (openwop-contract §6.5)
            checked=None if cut_short else self._checked,
            safety=None if cut_short else self._safety,
        )

    async def _inspect(self, inspector: SafetyInspector, finish: InvocationResult) -> None:
        """Run the detectors. A high or critical finding is a score of 0; without an answer there is no score."""
        agent = self._environment.agent
        facts = TrialFacts(
            task=self._task,
            trial=self._unit.trial,
            result=finish,
            attempts=self._invocation.attempts,
            card=agent.card,
            canary=self._canary,
            system_prompt=agent.system_prompt if isinstance(agent, Prompted) else None,
        )
        self._safety = await inspector.inspect(facts, self._judge)
        if not self._safety.measured:
            self._score = None
        elif self._score is not None and is_blocking(self._safety.findings):
            self._score = 0.0

    def _open_invocation(self) -> Invocation:
        environment, task = self._environment, self._task
        how: dict[str, Any] = {"task_id": task.task_id, "trial": self._unit.trial}
        how |= {"seconds": environment.request.seconds, "max_depth": environment.services.limits.max_depth}
        card = environment.agent.card
        if environment.request.live:
            memory = environment.memory() if environment.memory else None
            return Invocation(
                card, environment.tools, memory, live=True, memory_ref=f"agent:{card.agent_id}", **how
            )
        fixtures = task.fixtures
        responses = () if fixtures is UNSET else fixtures.tool_responses
        self._seeds = () if fixtures is UNSET else read_seeds(fixtures.memory_seed)
        memory = SeededMemory(self._seeds, environment.services.clock)
        if environment.request.record:
            return Invocation(card, environment.tools, memory, live=True, memory_ref=SEEDS, **how)
        extension = extension_of(task)
        rules = () if extension is None else extension.fixtures
        names = card.tools if card.tools is not None else tuple(one.tool for one in (*responses, *rules))
        described = (
            {one.id: one for one in environment.tools.static_specs(names)}
            if environment.tools and names
            else {}
        )
        tools = FixtureTools(responses, described, rules)
        return Invocation(card, tools, memory, memory_ref=SEEDS, **how)

    async def _score_result(self, finish: InvocationResult) -> None:
        environment, task = self._environment, self._task
        checks = checks_of(task, finish, environment.agent.card, environment.judge)
        metadata: JSON = {"outcome": finish.outcome, "latency_ms": round(self._invocation.seconds * 1000)}
        metadata |= {"trial": self._unit.trial} if environment.request.trials > 1 else {}
        metadata |= {"error": finish.error} if finish.error else {}
        usages = [step.usage for step in self._invocation.steps if isinstance(step, UsageStep)]
        metadata |= usage_metadata(usages, free=environment.request.free)
        metadata |= {"step_ms": times} if (times := self._step_times()) else {}
        metadata |= self._traced
        extension = extension_of(task)
        if extension is not None and extension.expects_calls:
            attempts = self._invocation.attempts
            cut = len(attempts) >= MAX_ATTEMPTS
            metadata[TOOL_CALLS] = calls_of(attempts, self._invocation.steps, cut=cut)
        if extension is not None and (extension.checks or extension.turns is not UNSET):
            metadata["trajectory"] = msgspec.to_builtins(self._invocation.steps)
        if extension is not None and extension.turns is not UNSET:
            metadata["turns"] = self._invocation.messages
            metadata |= {"user_usage": usage_metadata(self._user, free=False)} if self._user else {}
        context = context_of(task, finish, metadata, checks)
        if MISSING in metadata:
            context = replace(context, document=without_missing(context.document))
        scorer = environment.plan.scorer_for(0, context)
        if self._fault is None and not scorer.waits:
            (self._line,) = await score_contexts(environment.plan, [context], Tally())
            self._score = score_of(task, _read(self._line).check_results)
            return
        results = (
            [_failed_check(scorer, self._fault, environment.services)]
            if self._fault
            else await self._run_checks(scorer, context)
        )
        self._line = scorer.result_of(context, results, scorer.answers_in(Tally())).line
        self._score = score_of(task, results)

    def _step_times(self) -> list[int]:
        """When each step happened, in milliseconds since the start; the events of a trial are written together."""
        hidden = ReasoningStep if self._environment.request.verbosity == "off" else ()
        steps = [step for step in self._invocation.steps if not isinstance(step, hidden)]
        return [step.at_ms for step in steps if step.at_ms is not UNSET]

    async def _run_checks(self, scorer: Scorer, context: Context) -> list[CheckResult]:
        """Run the checks one by one, and meter the judge."""
        services = self._environment.services
        if services.providers is not None:
            services = msgspec.structs.replace(
                services, providers=MeteredProviders(services.providers, self._judge)
            )
        results: list[CheckResult] = []
        for bound in scorer.checks:
            prepared = prepare(bound, context.document, services)
            answer: Any = call(prepared, services)
            if isinstance(answer, WorkerTask):
                (answer,) = await run_tasks_async([answer])
            if inspect.isawaitable(answer):
                try:
                    answer = await answer
                except Fault as fault:
                    answer = fault
            results.append(to_result(prepared, answer, services, ResultOptions()))
        return results


def _failed_check(scorer: Scorer, fault: Fault, services: Services) -> CheckResult:
    """The agent could not be called, so its answer cannot be scored."""
    return CheckResult(
        check_type=scorer.checks[-1].checker.type,
        status="error",
        results={},
        evaluated_at=services.clock.now(),
        error=CheckError(
            type=fault.type, message=redact_text(str(fault))[:2000], recoverable=fault.recoverable
        ),
    )


_encode = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(TestCaseResult).decode
_recorded = msgspec.json.Decoder(RecordedTrial).decode
