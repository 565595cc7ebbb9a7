"""
Runs an agent over the cases of a dataset and scores its outputs. The library and `assay evaluate --agent` share it.
"""

import asyncio
import hashlib
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any, NamedTuple, Self

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.agents.handoff import task_problems
from assay.api.agents import check_needs
from assay.cases.outcomes import RESULTS
from assay.checks.registry import Registry
from assay.concurrency.garbage import gc_rare
from assay.errors import InvalidRequest, Problem, UsageError
from assay.fep.agent_runs.agent_kind import (
    AGENT,
    DIGEST,
    TRIALS,
    VERSION,
    AgentEvaluationKind,
    copy_results,
    find_unfinished,
    is_complete,
)
from assay.fep.agent_runs.agent_output import AgentDependencies
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.planning.plan import Plan
from assay.fep.records.run_header import (
    KIND,
    TALLY,
    AgentRequest,
    StoredRequest,
    context_chunks,
    encode_context,
    request_chunk,
)
from assay.fep.records.service import EvaluationService
from assay.host import parts as host_parts
from assay.inputs.context import Context
from assay.inputs.places import NO_PLACES, Places
from assay.ports import CLOSED, LOCAL_TENANT, EvidenceChunk, Run, Store
from assay.ports.agents import Agent, Coverage, RunNeeds
from assay.ports.kinds import LOCAL_ONLY
from assay.protocol.agent_evals import EvalTask, Expected, Match
from assay.protocol.canonical import canonical
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.redaction import redact_checks
from assay.results.run_part import DATA, RunPart
from assay.results.run_part import MEMBER as PART
from assay.results.tally import Tally, TallyRecord
from assay.runs.executor import RunExecutor
from assay.runs.intake import NewRun, new_id, submit
from assay.runs.provenance import NOTHING, Provenance
from assay.settings import Settings

PAGE = 50  # results that are read at once
INTERVAL = 0.1  # seconds between two looks for new results
_encode = msgspec.json.Encoder().encode
_record = msgspec.json.Decoder(TallyRecord).decode
Refuse = Callable[[list[Problem]], None]


class _Trial(Struct):
    trial: int


class _Output(Struct):
    metadata: _Trial | UnsetType
    value: None = None


class _Case(Struct):
    test_case: Any
    output: _Output


class CaseSpool:
    """The valid cases of a dataset in a temporary file: each input is read once, and never held in memory."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `__exit__`
        self._hash = hashlib.sha256()
        self._tasks: list[EvalTask] | None = [] if isinstance(agent, Coverage) else None
        self.cases = self.checks = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fill(self, contexts: Iterable[Context], refuse: Refuse) -> None:
        """
        Store the cases; the outputs they may have are not used. `refuse` gets the problems of a case that the agent
        does not take.
        """
        for context in contexts:
            case = context.document["test_case"]
            problems = task_problems(self._agent.card, case["input"], "test_case.input")
            if problems:
                refuse(problems)
                continue
            line = _encode(msgspec.json.decode(encode_context(context))["test_case"])
            self._file.write(line + b"\n")
            self._hash.update(line + b"\n")
            self.cases += 1
            self.checks += len(context.checks or ())
            if self._tasks is not None:
                self._tasks.append(EvalTask(task_id=case["id"], input=case["input"], expected=_ANYTHING))

    def digest(self, *parts: Any) -> str:
        """A digest of the cases and of what else decides the results."""
        return hashlib.sha256(self._hash.digest() + canonical(list(parts)).encode()).hexdigest()

    def check_coverage(self, trials: int, max_cost: float | None = None) -> None:
        """Refuse recorded answers that do not cover the cases, and an agent that cannot do what the run needs."""
        check_needs(self._agent, RunNeeds(conversations=self.cases * trials, max_cost=max_cost))
        if self._tasks is not None and isinstance(self._agent, Coverage):
            problems = self._agent.problems(self._tasks, self._tasks, trials, noun="case")
            if problems:
                raise InvalidRequest(problems)

    def lines(self, trials: int) -> Iterator[bytes]:
        """A context without an output for every trial of every case."""
        self._file.seek(0)
        for line in self._file:
            case = msgspec.Raw(line[:-1])
            for trial in range(trials):
                yield _encode(_Case(case, _Output(_Trial(trial) if trials > 1 else UNSET)))


_ANYTHING = Expected(kind="golden", match=Match(strategy="exact", value=None))


class AgentRunSpec(NamedTuple):
    """What a new run stores beside its cases."""

    checks: Any
    experiment: ExperimentMetadata | None
    request: AgentRequest
    tags: Sequence[str] = ()
    columns: Places = NO_PLACES  # of the table that the cases come from
    provenance: Provenance = NOTHING
    data: str = ""  # the digest of the names of its files
    part: RunPart | None = None  # which of the cases it has, if not all


class AgentEvaluation:
    """One agent over one dataset, as runs of a store."""

    def __init__(self, store: Store, executor: RunExecutor, plan: Plan, service: EvaluationService) -> None:
        self.store, self.executor, self.plan, self._service = store, executor, plan, service
        self._at = 0  # the next result that `results` yields

    async def start(self, spool: CaseSpool, spec: AgentRunSpec, digest: str = "") -> Run:
        """Store the cases as a new run, and start it."""
        request, experiment = spec.request, spec.experiment
        stored = StoredRequest(
            checks=None if spec.checks is None else redact_checks(msgspec.to_builtins(spec.checks)),
            experiment=experiment,
            total=spool.cases * request.trials,
            shard=1,
            resolved_arguments=self.plan.options.resolved_arguments,
            timings=self.plan.options.timings,
            own=spool.checks * request.trials,
            agent=request,
            columns=dict(spec.columns),
            command=spec.provenance.command,
        )
        metadata = {
            "total": stored.total,
            LOCAL_ONLY: True,
            AGENT: request.agent_id,
            VERSION: request.agent_version,
        }
        metadata |= {TRIALS: request.trials} if request.trials > 1 else {}
        metadata |= {DIGEST: digest} if digest else {}
        metadata |= {"tags": list(spec.tags)} if spec.tags else {}
        metadata |= spec.provenance.metadata
        metadata |= {DATA: spec.data} if spec.data else {}
        metadata |= {PART: msgspec.to_builtins(spec.part)} if spec.part else {}
        new = NewRun(
            run=new_id("eval_"),
            tenant=LOCAL_TENANT,
            kind=KIND,
            name=experiment.name if experiment and experiment.name else "",
            metadata=metadata,
            request=request_chunk(stored),
        )
        chunks = context_chunks(spool.lines(request.trials))
        run = await submit(self.store, new, chunks, self.executor.executor_id, self.executor.lease)
        self.executor.start(run)
        return run

    async def resume(self, digest: str, on_wait: Callable[[Run], None], *, alone: bool = False) -> Run | None:
        """
        Continue the newest run with this digest: the run itself if it was killed, else a copy.

        None: there is no such run.

        A killed process holds its run for some seconds; `on_wait` is called before the wait. `alone`: no other process
        has this store, so there is nothing to wait for.
        """
        source = await find_unfinished(self.store, LOCAL_TENANT, digest)
        if source is None or is_complete(source):
            return source
        if source.status in CLOSED:
            source = await copy_results(self.store, source, new_id("eval_"), self.plan.services.clock)
        if alone and source.holder is not None:
            await self.store.release(source.id, source.holder)
        claimed = await self._claim(source)
        if claimed is None:
            on_wait(source)
            until = time.monotonic() + 1.5 * self.executor.lease
            while (claimed := await self._claim(source)) is None:
                if time.monotonic() > until:
                    raise UsageError(
                        f"--resume: expected a run that has stopped, got {source.id}, which another process runs;"
                        " wait for its end"
                    )
                await asyncio.sleep(INTERVAL)
        self.executor.start(claimed)
        return claimed

    async def _claim(self, run: Run) -> Run | None:
        return await self.store.claim(run.id, self.executor.executor_id, seconds=self.executor.lease)

    async def results(self, run: str, tally: Tally, *, skipped: bool = False) -> AsyncGenerator[bytes]:
        """
        The results in the order of the cases, while the run goes on. They are counted in the tally.

        After the end of the run, cases without a result are left out, or yielded as `skip` with `skipped`. A second
        call goes on where the first one stopped.
        """
        waiter = asyncio.ensure_future(self.executor.wait(run))
        try:
            while True:
                await asyncio.wait({waiter}, timeout=INTERVAL)
                ended = waiter.result() if waiter.done() else None
                async for chunk, record in self._recorded_results(run, self._at, gaps=ended is not None):
                    self._at = chunk.last + 1
                    tally.add(_record(record.data))
                    yield chunk.data
                if ended is not None:
                    break
        finally:
            waiter.cancel()
        if skipped and ended.status == "completed":
            async for line in self._service.results(ended, start=self._at, tally=tally):
                yield line

    async def _recorded_results(
        self, run: str, at: int, *, gaps: bool
    ) -> AsyncIterator[tuple[EvidenceChunk, EvidenceChunk]]:
        """
        The recorded results from this position on, each with its tally. Without `gaps`, up to the first case in
        progress.
        """
        while chunks := await self.store.chunks(run, RESULTS, start=at, limit=PAGE):
            known = [chunk for position, chunk in enumerate(chunks, at) if gaps or chunk.first == position]
            if not known:
                return
            stop = known[-1].last + 1
            records = await self.store.chunks(run, TALLY, start=at, stop=stop, limit=len(known))
            for pair in zip(known, records, strict=True):
                yield pair
            at = stop

    async def cancel(self, run: str) -> None:
        """Stop the run. The results that are recorded stay."""
        await self.executor.stop(run, LOCAL_TENANT)


@asynccontextmanager
async def open_agent_evaluation(
    settings: Settings,
    store: Store,
    plan: Plan,
    registry: Registry,
    agent: Agent,
    request: AgentRequest,
    options: ExecutionOptions,
    *,
    keeps_answers: bool = False,
) -> AsyncGenerator[AgentEvaluation]:
    """
    The parts that run the agent in this process. It adopts no run of another process, and closes the agent at the end.

    `keeps_answers`: what the agent answers is recorded before judges wait for their batches.
    """
    tools = host_parts.toolbox(settings)
    dependencies = AgentDependencies(
        agent=agent, tools=tools, request=request, plan=plan, keeps_answers=keeps_answers
    )
    kind = AgentEvaluationKind(store, registry, plan.services, options, dependencies)
    concurrent = msgspec.structs.replace(settings, concurrency=options.concurrency)
    executor = host_parts.build_executor(concurrent, store, [kind])
    await executor.open(adopting=False)
    try:
        with gc_rare():
            yield AgentEvaluation(store, executor, plan, EvaluationService(store, registry, plan.services))
    finally:
        await executor.close(1.0)
        await agent.close()
        await tools.close()
        await plan.services.close()
