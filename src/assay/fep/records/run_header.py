"""
The records of the evaluation kind: the stored request, the units of a run and their results (FEP 3.1).

A unit is a shard: a range of contexts. If no check waits, a shard has many cases. If checks wait, each case is a unit,
so that paid model calls are not repeated after a crash.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.cases.outcomes import IDS, RESULTS, CaseOutcomes, scored_outcomes
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.concurrency.threads import in_thread
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.execution.inline import score_contexts
from assay.fep.planning.plan import Checks, Plan
from assay.fep.planning.request import checks_from
from assay.inputs.context import Context, stored_context
from assay.inputs.places import Place
from assay.ports import Event, EvidenceChunk, Run, Services, Store
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.results import EvaluationSummary, Status
from assay.results.tally import Tally, TallyRecord
from assay.runs.erasure import request_data
from assay.runs.intake import PARTIAL
from assay.runs.log_reader import read_chunks

KIND = "evaluation"
SHARD = 500  # cases in a unit, if no check waits
LARGE = 256 * 1024  # bytes of a unit; larger units are read in a thread
CONTEXTS, TALLY, REQUEST = "contexts", "tally", "request"
_encode = msgspec.json.Encoder().encode


class AgentRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent of a run that asks one. A unit of such a run is one trial of one case."""

    agent_id: str
    agent_version: str
    spec: str = ""  # as the command line has it
    trials: int = 1
    seconds: float = 0.0  # that the agent has for a case
    max_cost: float | None = None
    fail_fast: bool = False


class StoredRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored request, without its contexts."""

    checks: Any = None  # as the caller sent them; decoded from the store, they are plain JSON
    experiment: ExperimentMetadata | None = None
    total: int = 0
    shard: int = SHARD
    resolved_arguments: bool = True
    timings: bool = False
    own: int = 0  # the number of own checks of all cases
    agent: AgentRequest | None = None
    columns: dict[str, Place] = {}  # of the table that the cases come from
    command: str = ""  # the command line, without secrets
    tally: TallyRecord | UnsetType = UNSET  # the tally of an inline run; in other runs each unit has its own


class ShardCompleted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event: a range of cases is done. Counts, never content."""

    unit: int
    first: int
    last: int
    summary: EvaluationSummary
    cost_usd: float = 0.0  # the known cost of an agent and its judges; 0 in an evaluation without an agent


class EvaluationEnded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    The last event. It has no error message: a message may quote content, so it is in the run's metadata, which can be
    encrypted.
    """

    status: Status
    summary: EvaluationSummary
    code: str = ""  # of the error of a run that failed


class UnitPlace(Struct, frozen=True):
    """Which unit of a run this is, and its first case."""

    run: str
    number: int
    first: int


class ShardUnit(UnitPlace, frozen=True):
    """A unit as an engine receives it: the run, the range, and the contexts as lines."""

    lines: list[bytes]


class UnitResult(Struct, frozen=True):
    """The result of a `ShardUnit`."""

    number: int
    first: int
    lines: list[bytes]
    tally: TallyRecord
    summary: EvaluationSummary
    cases: CaseOutcomes
    ids: bytes = b""  # of several cases, as JSON


class PlannedRequest:
    """The stored request of a run, with its plan."""

    def __init__(self, request: StoredRequest, registry: Registry, services: Services) -> None:
        self.request = request
        options = ResultOptions(resolved_arguments=request.resolved_arguments, timings=request.timings)
        checks: Checks = None if request.checks is None else checks_from(request.checks)
        self.plan = Plan(checks, registry, services, options)

    async def perform(self, unit: ShardUnit, options: ExecutionOptions) -> UnitResult:
        """Score a range of cases; none of them if the time of the run was over before, such as in a queue of units."""
        tally = Tally(part=True)
        contexts = await self._contexts(unit.lines if options.run_seconds else [])
        lines = await score_contexts(self.plan, contexts, tally, options._replace(first=unit.first))
        outcomes = await self._outcomes(tally, contexts, lines)
        ids = _encode([context.document["test_case"]["id"] for context in contexts[: len(lines)]])
        return UnitResult(
            unit.number,
            unit.first,
            lines,
            tally.record(),
            tally.summary(),
            outcomes,
            ids if len(lines) > 1 else b"",
        )

    async def _outcomes(self, tally: Tally, contexts: list[Context], lines: list[bytes]) -> CaseOutcomes:
        """The row of the table of cases. Lines that must be read are read in a thread, if they are large."""

        def make() -> CaseOutcomes:
            return scored_outcomes(tally, contexts, lines)

        if tally.compiled_answers(len(lines)) is not None or sum(map(len, lines)) <= LARGE:
            return make()
        return await in_thread(make)

    async def _contexts(self, lines: list[bytes]) -> list[Context]:
        """The contexts of a unit. Large ones are read in a thread: the event loop serves other requests meanwhile."""

        def read() -> list[Context]:
            return [stored_context(line, self.plan.services.limits) for line in lines]

        if sum(map(len, lines)) <= LARGE:
            return read()
        return await in_thread(read)

    def skip_cases(self, lines: Iterable[bytes], first: int, tally: Tally) -> Iterator[bytes]:
        """The results of cases that never started (FEP-28)."""
        for at, line in enumerate(lines):
            context = stored_context(line, self.plan.services.limits)
            scorer = self.plan.scorer_for(first + at, context)
            skipped = scorer.skip_case(context, scorer.answers_in(tally))
            tally.count_case(skipped.status)
            yield skipped.line


def encode_context(context: Context) -> bytes:
    """A context as it is stored before it is evaluated, with its own checks."""
    if context.checks is None:
        return context.line
    case = {**context.document["test_case"], "checks": msgspec.to_builtins(context.checks)}
    return _encode({"test_case": case, "output": context.document["output"]})


def context_chunks(contexts: Iterable[bytes], first: int = 0) -> Iterator[EvidenceChunk]:
    """Contexts in chunks of a shard."""
    buffer: list[bytes] = []
    size = 0
    for line in contexts:
        buffer.append(line)
        size += len(line)
        if len(buffer) >= SHARD or size >= 1 << 20:
            yield lines_chunk(CONTEXTS, first, buffer)
            first, buffer, size = first + len(buffer), [], 0
    if buffer:
        yield lines_chunk(CONTEXTS, first, buffer)


def lines_chunk(kind: str, first: int, lines: Sequence[bytes]) -> EvidenceChunk:
    return EvidenceChunk(kind=kind, first=first, last=first + len(lines) - 1, data=b"\n".join(lines))


def request_chunk(request: StoredRequest) -> EvidenceChunk:
    return EvidenceChunk(kind=REQUEST, data=_encode(request))


def unit_records(result: UnitResult, now: datetime) -> tuple[Event, list[EvidenceChunk]]:
    """The records of a completed unit: one event, its results and its tally."""
    results = lines_chunk(RESULTS, result.first, result.lines)
    counts = EvidenceChunk(kind=TALLY, first=result.first, last=results.last, data=_encode(result.tally))
    evidence = [results, counts]
    if result.ids:
        evidence.append(EvidenceChunk(kind=IDS, first=result.first, last=results.last, data=result.ids))
    return shard_event(result.number, results, result.summary, now), evidence


def shard_event(number: int, results: EvidenceChunk, summary: EvaluationSummary, now: datetime) -> Event:
    shard = ShardCompleted(unit=number, first=results.first, last=results.last, summary=summary)
    return Event("evaluation.shard", _encode(shard), now)


def count_checks(request: StoredRequest) -> int:
    """The number of checks of all cases."""
    checks: list[Any] | None = request.checks
    if checks is None:
        return request.own
    if checks and isinstance(checks[0], list):
        return sum(map(len, checks))
    return len(checks) * request.total


def case_count(run: Run) -> int:
    """The number of results of a run that has ended. A run that was not stored completely has none."""
    return 0 if run.metadata.get(PARTIAL) else run.metadata.get("total", 0)


async def read_request(store: Store, run: str) -> StoredRequest:
    """The stored request. Erased: its content is gone."""
    return msgspec.json.decode(await request_data(store, run, REQUEST), type=StoredRequest)


async def units(store: Store, run: str, request: StoredRequest, done: set[int]) -> AsyncIterator[ShardUnit]:
    """The units that are not done, each with its contexts. Each chunk of contexts is read once."""
    lines: list[bytes] = []
    first = number = 0
    async for chunk in read_chunks(store, run, CONTEXTS, limit=1):
        for line in chunk.lines():
            lines.append(line)
            if len(lines) == request.shard:
                if number not in done:
                    yield ShardUnit(run, number, first, lines)
                first, number, lines = first + len(lines), number + 1, []
    if lines and number not in done:
        yield ShardUnit(run, number, first, lines)


class EvaluationProgressFold:
    """The fold of a run's events: which units are done, and the summary so far."""

    def __init__(self) -> None:
        self.units: set[int] = set()
        self.summary = Tally().summary()

    def add(self, event: Event) -> None:
        if event.type == "evaluation.shard":
            shard = msgspec.json.decode(event.data, type=ShardCompleted)
            self.units.add(shard.unit)
            self.summary = add_summaries(self.summary, shard.summary)

    @property
    def status(self) -> Status:
        if self.summary.error_test_cases:
            return "error"
        return "skip" if self.summary.skipped_test_cases else "completed"

    def metadata(self, total: int) -> dict[str, Any]:
        """The metadata that a list of runs shows."""
        return {"total": total, "summary": msgspec.to_builtins(self.summary)}


def add_summaries(left: EvaluationSummary, right: EvaluationSummary) -> EvaluationSummary:
    return EvaluationSummary(
        **{
            field: count_or_zero(getattr(left, field)) + count_or_zero(getattr(right, field))
            for field in EvaluationSummary.__struct_fields__
        }
    )


def count_or_zero(value: int | UnsetType) -> int:
    return 0 if value is UNSET else value
