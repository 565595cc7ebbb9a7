"""The stored request of an eval run: its header, and its tasks as lines."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Struct

from assay.agenteval.planning.stopping import EvalUntil
from assay.agenteval.scoring.scoring import PASS_SCORE
from assay.ports import EvidenceChunk, Run, Store
from assay.ports.kinds import PRIORITY
from assay.protocol.agent_evals import EvalTask, Thresholds
from assay.protocol.agents import ModelClass
from assay.protocol.json_types import JSON
from assay.protocol.manifest import AgentDefinition
from assay.protocol.redaction import redact_checks
from assay.results.run_part import MEMBER as PART
from assay.results.run_part import Rule, RunPart, part_in
from assay.runs.erasure import request_data
from assay.runs.log_reader import read_chunks
from assay.runs.provenance import NOTHING, Provenance

if TYPE_CHECKING:
    from assay.agenteval.planning.plan import EvalPlan

KIND = "agent-eval"
REQUEST, TASKS, RESULTS = "request", "tasks", "results"
SUITE_TOTAL = "suiteTotal"  # in the metadata of a run that has only a part of the tasks of its suite
MAX_COST = "maxCostUsd"  # in the metadata of a run: the cost from which it starts no trial
REPEATED_COST = "repeatedCostUsd"  # of a resumed run: what trials had cost that it does not count
SHARD = 500
SHARD_BYTES = 1 << 20
_encode = msgspec.json.Encoder().encode


class EvalHeader(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The request of a run without its tasks."""

    suite_id: str
    suite_version: str
    suite_ref: str
    suite_digest: str = ""
    suite_source: str = ""  # of a suite in a pack
    suite_file_digest: str = ""
    principal: str = ""
    agent_id: str
    agent_version: str
    agent_spec: str = ""
    definition: AgentDefinition | None = None  # of an agent of a pack, which may be removed later
    tenant_agent: bool = False  # the tenant brought the agent: in a pack, or by its address
    model_class: ModelClass = "general"
    free: bool = False
    modes: tuple[str, ...]
    left_out: tuple[str, ...] = ()  # modes of the suite that the request did not select
    live: bool = False
    record: bool = False  # tools are live, and memory is not
    trials: int = 1
    total: int  # tasks
    suite_total: int = 0  # tasks of the suite that the modes cover, if the run has only a part of them
    rule: Rule | None = None  # how that part was chosen
    failing_in: tuple[str, ...] = ()  # the runs in which its tasks did not pass
    until: EvalUntil | None = None  # when it may stop before its last task
    seconds: float
    judge: str | None = None
    thresholds: Thresholds = Thresholds()
    baseline_run_id: str | None = None
    baseline_score: float | None = None
    configurable: JSON = {}
    tags: tuple[str, ...] = ()
    provenance: Provenance = NOTHING
    metadata: JSON = {}
    checks: Any = None  # beside the scorecard, as JSON, without secrets
    policy: JSON | None = None  # of tool calls, in the mode adversarial

    @property
    def has_live_tools(self) -> bool:
        return self.live or self.record

    @property
    def part(self) -> RunPart | None:
        """The part of its suite that the run has; None: it has every task that its modes cover."""
        if not self.suite_total:
            return None
        return RunPart(cases=self.total, of=self.suite_total, rule=self.rule or "first", runs=self.failing_in)

    @property
    def pass_score(self) -> float:
        score = self.thresholds.pass_score
        return PASS_SCORE if score is UNSET else score

    @property
    def escalation(self) -> float | None:
        """The confidence below which an invocation is `escalated`, if the run sets one."""
        return self.configurable.get("escalationThreshold")

    @property
    def verbosity(self) -> Literal["summary", "full", "off"] | None:
        return self.configurable.get("reasoningVerbosity")

    def run_seconds(self, limit: float) -> float:
        """How long the run may take: its own limit or the host's, whichever is smaller."""
        milliseconds = self.configurable.get("runTimeoutMs")
        return limit if milliseconds is None else min(limit, milliseconds / 1000)

    @property
    def run_metadata(self) -> JSON:
        """The metadata for lists and first events. It has no content."""
        metadata: JSON = {
            "suiteId": self.suite_id,
            "suiteVersion": self.suite_version,
            "evalSuiteRef": self.suite_ref,
            "agentId": self.agent_id,
            "agentVersion": self.agent_version,
            "modes": list(self.modes),
            "total": self.total,
        }
        metadata |= {SUITE_TOTAL: self.suite_total} if self.suite_total else {}
        metadata |= {PART: msgspec.to_builtins(self.part)} if self.part else {}
        metadata |= {"trials": self.trials} if self.trials > 1 else {}
        metadata |= {"principal": self.principal} if self.principal else {}
        metadata |= {PRIORITY: self.configurable[PRIORITY]} if PRIORITY in self.configurable else {}
        metadata |= {"baselineRunId": self.baseline_run_id} if self.baseline_run_id else {}
        return metadata | ({"tags": list(self.tags)} if self.tags else {}) | self.provenance.metadata


def request_of(plan: "EvalPlan") -> EvalHeader:
    from assay.agenteval.suites.suite_store import suite_digest  # deferred import

    request, suite, baseline = plan.request, plan.suite, plan.baseline
    return EvalHeader(
        suite_id=suite.suite_id,
        suite_version=suite.version,
        suite_ref=request.suite_ref or "",
        suite_digest=request.suite_digest or suite_digest(suite),
        suite_source=request.suite_source,
        suite_file_digest=request.suite_file_digest,
        principal=request.principal,
        agent_id=plan.card.agent_id,
        agent_version=plan.card.version,
        agent_spec=request.agent_spec,
        definition=plan.definition,
        tenant_agent=plan.tenant_agent,
        model_class=plan.card.model_class,
        free=plan.card.free,
        modes=plan.modes,
        left_out=tuple(mode for mode in suite.modes if mode not in plan.modes),
        live=plan.live,
        record=request.record,
        trials=request.trials,
        total=len(plan.tasks),
        suite_total=plan.suite_total if len(plan.tasks) < plan.suite_total else 0,
        rule=request.rule or (None if request.tasks is None else "ids"),
        failing_in=request.failing_in,
        until=request.until,
        seconds=plan.seconds,
        judge=request.judge,
        thresholds=Thresholds() if suite.thresholds is UNSET else suite.thresholds,
        baseline_run_id=baseline.run_id if baseline else None,
        baseline_score=baseline.score if baseline else None,
        configurable=request.configurable,
        tags=request.tags,
        provenance=request.provenance,
        metadata=request.metadata,
        policy=plan.policy,
        checks=None if request.checks is None else redact_checks(msgspec.to_builtins(request.checks)),
    )


def request_chunk(request: EvalHeader) -> EvidenceChunk:
    return EvidenceChunk(kind=REQUEST, data=_encode(request))


def task_chunks(tasks: tuple[EvalTask, ...]) -> Iterator[EvidenceChunk]:
    """The tasks as chunks of lines, so that a run never holds all of them."""
    held: list[bytes] = []
    first = size = 0
    for task in tasks:
        held.append(line := _encode(task))
        size += len(line)
        if len(held) >= SHARD or size >= SHARD_BYTES:
            yield _chunk(first, held)
            first, held, size = first + len(held), [], 0
    if held:
        yield _chunk(first, held)


def _chunk(first: int, lines: list[bytes]) -> EvidenceChunk:
    return EvidenceChunk(kind=TASKS, first=first, last=first + len(lines) - 1, data=b"\n".join(lines))


async def stored_request(store: Store, run: str) -> EvalHeader:
    """The request as it was submitted. Erased: its content is gone."""
    return msgspec.json.decode(await request_data(store, run, REQUEST), type=EvalHeader)


async def read_request(store: Store, run: Run) -> EvalHeader:
    """The stored request; of a run that had decided before its last task, that of the tasks it ran."""
    header = await stored_request(store, run.id)
    part = decided_part(run)
    if part is None:
        return header
    return msgspec.structs.replace(header, total=part.cases, suite_total=part.of or 0, rule=part.rule)


async def read_tasks(store: Store, run: Run) -> AsyncIterator[tuple[int, bytes]]:
    """Each task as its stored line, with its number; of a run that had decided, those that it ran."""
    part = decided_part(run)
    async for chunk in read_chunks(store, run.id, TASKS, limit=1):
        for at, line in enumerate(chunk.lines(), chunk.first):
            if part is not None and at >= part.cases:
                return
            yield at, line


def decided_part(run: Run) -> RunPart | None:
    """The tasks that a run needed to decide; None: it ran all."""
    part = part_in(run.metadata)
    return part if part is not None and part.rule == "decided" else None


TASKS_OF_SUITE = "tasks of its suite"


def part_text(total: int, suite_total: int) -> str:
    """`2 of 5 tasks of its suite`."""
    return f"{total:,} of {suite_total:,} {TASKS_OF_SUITE}"


def part_of(run: Run) -> str:
    """What part of its suite a run has; empty if it has all tasks that its modes cover."""
    whole = run.metadata.get(SUITE_TOTAL)
    return part_text(run.metadata["total"], whole) if run.kind == KIND and whole else ""


def is_eval(run: Run | None) -> bool:
    return run is not None and run.kind == KIND
