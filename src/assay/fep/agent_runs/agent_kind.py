"""
An evaluation that asks an agent, as a kind of run: one trial of one case is a unit, recorded when it ends (ADR-0043).

A stored context of such a run has no output yet: only the number of its trial. A context that has an outcome was
answered in the run that this one continues; it is scored again, and the agent is not asked.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from assay.cases.fold import CHECKS, CaseFold, totals_of
from assay.cases.outcomes import RESULTS, outcomes_of
from assay.checks.registry import Registry
from assay.errors import BudgetExceeded, Refusal
from assay.fep.agent_runs.agent_output import UNMEASURED, AgentDependencies, run_trial
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.records.kind import EvaluationKind, EvaluationState
from assay.fep.records.run_header import (
    CONTEXTS,
    KIND,
    REQUEST,
    TALLY,
    EvaluationProgressFold,
    ShardCompleted,
    ShardUnit,
    StoredRequest,
    UnitResult,
    lines_chunk,
    read_request,
    unit_records,
)
from assay.inputs.context import stored_context
from assay.ports import (
    CLOSED,
    CaseTotals,
    Clock,
    CreateRun,
    Event,
    EvidenceChunk,
    Run,
    RunQuery,
    RunStatus,
    RunUpdate,
    Services,
    Store,
    Transaction,
)
from assay.ports.audit import audit_entry
from assay.ports.continued_runs import SOURCE
from assay.ports.kinds import COPY_IN_PROGRESS, LOCAL_ONLY, Ending, UnitOutcome
from assay.protocol.agents import model_name
from assay.protocol.redaction import UNKNOWN, safe_name
from assay.protocol.results import Status
from assay.results.run_part import DATA
from assay.results.run_part import MEMBER as PART
from assay.runs.agent_answers import AgentAnswers, answers_of
from assay.runs.intake import PARTIAL
from assay.runs.log_reader import read_chunks, read_events
from assay.runs.provenance import COMMIT
from assay.runs.run_names import name_documents
from assay.runs.run_options import CostBudget, TimeBudget

MODELS, MAX_MODELS = "models", 5
DIGEST, AGENT, VERSION, TRIALS = "inputDigest", "agentId", "agentVersion", "trials"
KEPT = (
    LOCAL_ONLY,
    DIGEST,
    AGENT,
    VERSION,
    TRIALS,
    SOURCE,
    "tags",
    COMMIT,
    MODELS,
    DATA,
    PART,
)  # members of the metadata that a run keeps
_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.encode
_unit = msgspec.msgpack.Decoder(ShardUnit).decode


class AgentUnitResult(Struct, frozen=True):
    """The result of one trial of one case, and its known cost."""

    unit: UnitResult
    cost_usd: float


_result = msgspec.msgpack.Decoder(AgentUnitResult).decode


class _UsedModel(Struct, frozen=True):
    provider: str = ""
    model: str = ""

    @property
    def name(self) -> str:
        """`openai:gpt-5`, as an agent eval names it."""
        return model_name(self.provider, self.model)


class _UsedStep(Struct, frozen=True):
    usage: _UsedModel | None = None


class _UsedMetadata(Struct, frozen=True):
    trajectory: list[_UsedStep] = []


class _UsedOutput(Struct, frozen=True):
    metadata: _UsedMetadata = _UsedMetadata()


class _UsedContext(Struct, frozen=True):
    output: _UsedOutput


class _UsedResult(Struct, frozen=True):
    execution_context: _UsedContext


_used = msgspec.json.Decoder(_UsedResult).decode


class AgentEvaluationKind(EvaluationKind):
    """It is stored as an evaluation. Only the process that has the agent can continue it."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        services: Services,
        options: ExecutionOptions,
        dependencies: AgentDependencies,
    ) -> None:
        super().__init__(store, registry, services, options)
        self._dependencies = dependencies
        self._answers: dict[str, AgentAnswers] = {}  # by run

    async def restore(self, store: Store, run: Run) -> "AgentEvaluationState":
        stored = await read_request(store, run.id)
        request = msgspec.structs.replace(
            stored, agent=self._dependencies.request
        )  # --resume may raise its limits
        hours = TimeBudget(self._services.clock, run.started, self._options.run_seconds)
        answers = await answers_of(store, run, keeps=self._dependencies.keeps_answers)
        self._answers[run.id] = answers
        return AgentEvaluationState(run, request, self._services, hours, answers, await totals_of(store, run))

    async def perform(self, unit: bytes) -> bytes:
        work, deps = _unit(unit), self._dependencies
        (line,) = work.lines
        context = stored_context(line, deps.plan.services.limits)
        answers = self._answers[work.run]
        scored, tally = await run_trial(deps, context, work.number, self._options, answers)
        cases = outcomes_of([scored], tally.spending)
        result = UnitResult(work.number, work.first, [scored], tally.record(), tally.summary(), cases)
        return _pack(AgentUnitResult(result, tally.spending.known_cost_usd))


class AgentEvaluationState(EvaluationState):
    """
    The state of one run. It starts no more units when the cost limit is reached, or after an error with `fail_fast`.
    """

    def __init__(
        self,
        run: Run,
        request: StoredRequest,
        services: Services,
        hours: TimeBudget,
        answers: AgentAnswers,
        totals: CaseTotals | None = None,
    ) -> None:
        super().__init__(run, request, services, hours, totals=totals)
        assert request.agent is not None
        self._agent, self._answers = request.agent, answers
        self._budget = CostBudget(request.agent.max_cost)
        self._pending: set[int] = set()  # units that are counted and not recorded yet
        self._erred = False
        self._kept: dict[str, Any] = {name: run.metadata[name] for name in KEPT if name in run.metadata}

    def add(self, event: Event) -> None:
        super().add(event)
        if event.type == "evaluation.shard":
            self._count(msgspec.json.decode(event.data, type=ShardCompleted))

    def _count(self, shard: ShardCompleted) -> None:
        """Count a unit once: when it ends, before the next one starts, or when its event is read back."""
        if shard.unit in self._pending:
            self._pending.discard(shard.unit)
            return
        self._budget.charge(shard.cost_usd)
        self._erred = self._erred or bool(shard.summary.error_checks)

    async def units(self, store: Store) -> AsyncIterator[bytes]:
        batches = self._services.batch_budget
        if batches is not None:
            batches.begin(self._budget.ceiling, self._budget.spent)
        async for unit in super().units(store):
            if self._budget.exhausted or (self._agent.fail_fast and self._erred):
                return
            yield unit

    def outcome(self, result: bytes) -> UnitOutcome:
        done = _result(result)
        event, evidence = unit_records(done.unit, self._services.clock.now())
        shard = msgspec.json.decode(event.data, type=ShardCompleted)
        shard = msgspec.structs.replace(shard, cost_usd=done.cost_usd)
        self._count(shard)
        self._pending.add(shard.unit)
        cases = self._table.add(done.unit.first, done.unit.cases)
        self._note_models(done.unit.lines)
        event = msgspec.structs.replace(event, data=_encode(shard))
        return UnitOutcome([event], evidence, self._answers.forget(shard.unit), cases)

    def _note_models(self, lines: Sequence[bytes]) -> None:
        """Keep the names of the first models that the agent reported."""
        models: list[str] = list(self._kept.get(MODELS, ()))
        steps: list[_UsedStep] = []
        with suppress(msgspec.ValidationError):  # an output of another form names none
            steps += [
                step for line in lines for step in _used(line).execution_context.output.metadata.trajectory
            ]
        for step in steps:
            if step.usage is not None:
                name = safe_name(step.usage.name)
                if name not in (UNKNOWN, *models) and len(models) < MAX_MODELS:
                    models.append(name)
        if models:
            self._kept[MODELS] = models

    def metadata(self) -> dict[str, Any]:
        return super().metadata() | self._kept

    def ending(self, status: RunStatus, refusal: Refusal | None = None) -> Ending:
        missing = self._request.total > self._progress.summary.total_test_cases
        if status == "completed" and missing and self._budget.exhausted:
            assert self._budget.ceiling is not None
            return super().ending("failed", BudgetExceeded(self._budget.spent, self._budget.ceiling))
        return super().ending(status, refusal)


# Continues an evaluation that asked an agent (ADR-0043): cases with a result are copied, answers without one are
# scored again.

RECENT = 1_000  # newest evaluations that are searched
LEASE = 30.0  # seconds that a copy may stand still


class _Context(Struct):
    test_case: Raw
    output: Raw


class _Result(Struct):
    status: Status
    execution_context: _Context


class _Metadata(Struct):
    outcome: str


class _Output(Struct):
    metadata: _Metadata


_read = msgspec.json.Decoder(_Result).decode
_output = msgspec.json.Decoder(_Output).decode
_context = msgspec.json.Decoder(_Context).decode


async def find_unfinished(store: Store, tenant: str, digest: str) -> Run | None:
    """The newest run of the same cases, checks, agent and options; None if there is none."""
    for run in await store.runs(RunQuery(tenant=tenant, kind=KIND, limit=RECENT)):
        incomplete = run.erased or run.metadata.get(COPY_IN_PROGRESS) or run.metadata.get(PARTIAL)
        if run.metadata.get(DIGEST) == digest and not incomplete:
            return run
    return None


def is_complete(run: Run) -> bool:
    """Whether every case of the run has a result without an error."""
    summary: dict[str, Any] = run.metadata.get("summary", {})
    return run.status == "completed" and summary.get("completed_test_cases", 0) == run.metadata.get(
        "total", 0
    )


async def copy_results(store: Store, source: Run, run: str, clock: Clock) -> Run:
    """A new run with the results of a run that has ended. The executor that claims it does the other cases."""
    assert source.status in CLOSED
    holder = f"copy-{run}"
    dropped = {"summary", "status", "error", "code"}
    metadata: dict[str, Any] = {name: value for name, value in source.metadata.items() if name not in dropped}
    metadata[SOURCE] = source.id
    opens = CreateRun(tenant=source.tenant, kind=KIND, name=source.name, holder=holder, seconds=LEASE)
    opening = RunUpdate(
        run=run,
        opens=opens,
        status="running",
        metadata=metadata | {COPY_IN_PROGRESS: True},
        events=[Event("evaluation.started", msgspec.json.encode({"total": metadata["total"]}), clock.now())],
        evidence=await store.chunks(source.id, REQUEST, limit=1),
    )
    lines = [audit_entry(source.tenant, "run.start", run)]
    named = name_documents(source.tenant, run, metadata)
    await store.commit(Transaction(entries=[opening], documents=named, lines=lines))

    async def write(**update: Any) -> None:
        await store.commit(Transaction(entries=[RunUpdate(run=run, holder=holder, **update)]))
        await store.renew(holder, seconds=LEASE)

    table = CaseFold(metadata.get(CHECKS, ()))
    async for chunk in read_chunks(store, source.id, CONTEXTS, limit=1):
        copied = await _copy_chunk(store, source.id, chunk)
        results = (piece for piece in copied if piece.kind == RESULTS)
        cases = [row for piece in results for row in table.add(piece.first, outcomes_of(piece.lines()))]
        await write(evidence=copied, cases=cases)
    page: list[Event] = []
    counts = EvaluationProgressFold()
    async for event in read_events(store, source.id):
        if event.type == "evaluation.shard" and _is_completed(event):
            counts.add(event)
            page.append(msgspec.structs.replace(event, sequence=-1))
        if len(page) == RECENT:
            await write(events=page)
            page = []
    await write(events=page, metadata=metadata | counts.metadata(metadata["total"]) | table.metadata)
    await store.release(run, holder)
    copied = await store.run(run)
    assert copied is not None
    return copied


async def _copy_chunk(store: Store, source: str, contexts: EvidenceChunk) -> list[EvidenceChunk]:
    """
    The contexts of a chunk and the results that they have. A context with an answer and without a result keeps the
    answer.
    """
    first, stop = contexts.first, contexts.last + 1
    lines, copied = contexts.lines(), list[EvidenceChunk]()
    completed: set[int] = set()
    async for chunk in read_chunks(store, source, RESULTS, start=first, stop=stop):
        result = _read(chunk.data)
        if result.status == "completed":
            completed.add(chunk.first)
            copied.append(chunk)
        elif _output(result.execution_context.output).metadata.outcome != UNMEASURED:
            stored = _context(lines[chunk.first - first])  # a result does not repeat the own checks of a case
            lines[chunk.first - first] = _encode(_Context(stored.test_case, result.execution_context.output))
    async for chunk in read_chunks(store, source, TALLY, start=first, stop=stop):
        if chunk.first in completed:
            copied.append(chunk)
    return [lines_chunk(CONTEXTS, first, lines), *copied]


def _is_completed(event: Event) -> bool:
    return msgspec.json.decode(event.data, type=ShardCompleted).summary.completed_test_cases == 1
