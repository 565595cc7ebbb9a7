"""One task of an eval run with its content: trials, criteria, trajectory, findings, and the corrections of people."""

from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.agenteval.planning.run_header import RESULTS, TASKS, EvalHeader, read_request
from assay.agenteval.scoring.safety_records import SAFETY, SafetyRecord, record_of
from assay.agenteval.scoring.scoring import bar_of, judged_criteria
from assay.agenteval.scoring.task_checks import CHECKS
from assay.agenteval.trial_events import judge_node, task_node
from assay.agents.fixtures import read_seeds
from assay.agents.trajectory import Invocations, steps_of_events, usage_of
from assay.fep.records.case_content import (
    CaseContent,
    CaseCriterion,
    CaseFinding,
    CaseTrial,
    EffectiveScore,
    RecordedScore,
    about_output,
    check_rows,
    content_of,
    decode_results,
    groups_of,
    no_result,
    text_or_unset,
)
from assay.ports import Event, EvidenceChunk, Run, Store
from assay.protocol.annotations import Annotation
from assay.protocol.event_record import decode_event
from assay.protocol.json_types import JSON
from assay.results.reasons import number_of
from assay.runs.annotations import annotations, effective
from assay.runs.log_reader import read_chunks, with_content

WHOLE = 20_000  # events of a log that is read from its beginning
WINDOW = 4_000  # events that are read first of a longer log, around the place where the task should be
MAX_FINDINGS = 200  # of one trial


async def eval_case(
    store: Store, run: Run, position: int, columns: Sequence[str], *, feedback: bool = True
) -> CaseContent:
    """The task at a position; NotFound if none of its trials has a result yet. `feedback`: with annotations."""
    header = await read_request(store, run)
    first, stop = position * header.trials, (position + 1) * header.trials
    chunks = {
        chunk.first: chunk async for chunk in read_chunks(store, run.id, RESULTS, start=first, stop=stop)
    }
    if not chunks:
        raise no_result(run, position)
    results = await decode_results([chunk.data for chunk in chunks.values()])
    task = str(results[0]["execution_context"]["test_case"]["id"])
    log = await _task_log(store, run, task, position / max(1, header.total), len(chunks))
    safety = await _by_number(store, run, SAFETY, first, stop)
    beside = await _by_number(store, run, CHECKS, first, stop)
    trials = [
        _trial(number - first, result, header, log, columns, safety.get(number), beside.get(number))
        for number, result in zip(chunks, results, strict=True)
    ]
    content = content_of(results, trials)
    if seeds := seeds_of(await task_at(store, run, position)):
        content = msgspec.structs.replace(content, memory=seeds)
    return await _with_scores(store, run, content, log, header, position, feedback=feedback)


async def _by_number(store: Store, run: Run, kind: str, first: int, stop: int) -> dict[int, EvidenceChunk]:
    return {chunk.first: chunk async for chunk in read_chunks(store, run.id, kind, start=first, stop=stop)}


def _trial(
    number: int,
    result: JSON,
    header: EvalHeader,
    log: "TaskLog",
    columns: Sequence[str],
    safety: EvidenceChunk | None,
    beside: EvidenceChunk | None,
) -> CaseTrial:
    case: JSON = result["execution_context"]["test_case"]
    output: JSON = result["execution_context"]["output"]
    about, events = about_output(output), log.invocations.trial(number)
    ended: list[JSON] = [one["payload"] for one in events if one["type"] == "assay.trial.ended"]
    if header.trials == 1 and log.scored is not None:
        ended = [log.scored["payload"]]
    numbers: JSON = ended[0] if ended else {}
    steps = steps_of_events(events, about.get("step_ms", []))
    judge = [usage_of(one["payload"]) for one in events if _is_judge(one)]
    others: list[JSON] = msgspec.json.decode(beside.data)["check_results"] if beside is not None else []
    return CaseTrial(
        trial=number,
        status=result["status"],
        outcome=text_or_unset(about.get("outcome")),
        score=number_of(numbers.get("score")),
        cost_usd=number_of(numbers.get("costUsd")),
        latency_ms=number_of(about.get("latency_ms")),
        output=output.get("value", UNSET),
        error=text_or_unset(about.get("error")),
        checks=check_rows(result["check_results"], columns, case),
        beside=check_rows(others, (), case) if others else UNSET,
        criteria=_criteria(result),
        trajectory=tuple(steps) if steps else UNSET,
        live=header.has_live_tools,
        judge=tuple(judge) if judge else UNSET,
        findings=UNSET if safety is None else _findings(record_of(safety.data)),
        groups=groups_of(result),
    )


def _is_judge(event: JSON) -> bool:
    return event["type"] == "provider.usage" and str(event.get("nodeId", "")).startswith("judge:")


def _criteria(result: JSON) -> tuple[CaseCriterion, ...] | UnsetType:
    judged = judged_criteria(result)
    return UNSET if judged is None else tuple(CaseCriterion(**one) for one in judged)


def _findings(record: SafetyRecord) -> tuple[CaseFinding, ...]:
    return tuple(
        CaseFinding(kind=kind, severity=severity, detector=one.type, detail=detail or UNSET)
        for one in record.detectors
        for kind, severity in one.kinds_found
        for detail in (one.findings or [{}])[:MAX_FINDINGS]
    )[:MAX_FINDINGS]


async def _with_scores(
    store: Store,
    run: Run,
    content: CaseContent,
    log: "TaskLog",
    header: EvalHeader,
    position: int,
    *,
    feedback: bool,
) -> CaseContent:
    """The recorded score, the effective one beside it, and the annotations of this task."""
    if log.scored is None:
        return msgspec.structs.replace(content, recorded=RecordedScore(score=None, passed=None))
    event, payload = str(log.scored["eventId"]), log.scored["payload"]
    score, passed = float(payload["score"]), bool(payload["passed"])
    notes = await annotations(store, run) if feedback else []
    own = tuple(note for note in notes if note.target.event_id == event)
    correction = effective(list(own)).get(event)
    corrected: EffectiveScore | UnsetType = UNSET
    if correction is not None:
        task = await task_at(store, run, position)
        bar = bar_of(task.expected.kind if task else "golden", header.pass_score)
        new = score if correction.score is UNSET else correction.score
        verdict = new >= bar if correction.score is not UNSET else passed
        corrected = EffectiveScore(
            score=new,
            passed=verdict if correction.passed is UNSET else correction.passed,
            annotation_id=_last_correction(own),
        )
    recorded = RecordedScore(score=score, passed=passed)
    return msgspec.structs.replace(
        content, event_id=event, recorded=recorded, effective=corrected, annotations=own
    )


def _last_correction(notes: Sequence[Annotation]) -> str:
    return next(note.annotation_id for note in reversed(notes) if note.signal.kind == "correction")


class _Expected(Struct):
    kind: str = "golden"


class _Fixtures(Struct, rename="camel"):
    memory_seed: tuple[JSON, ...] = ()


class StoredTask(Struct, rename="camel"):
    """A task of the suite, as far as it is shown. It may have an extension, of which nothing is read here."""

    task_id: str
    expected: _Expected
    fixtures: _Fixtures = msgspec.field(default_factory=_Fixtures)


read_task = msgspec.json.Decoder(StoredTask).decode


async def task_at(store: Store, run: Run, position: int) -> StoredTask | None:
    """The task of the suite; None if it was erased."""
    async for chunk in read_chunks(store, run.id, TASKS, start=position, stop=position + 1):
        for line in chunk.lines(position, position + 1):
            return read_task(line)
    return None


def seeds_of(task: StoredTask | None) -> tuple[JSON, ...]:
    """What a task puts into the memory of its agent, without secrets."""
    if task is None:
        return ()
    return tuple(msgspec.to_builtins(one) for one in read_seeds(task.fixtures.memory_seed))


class TaskLog:
    """The events of one task: its invocations by trial, and the event that scored it."""

    def __init__(self) -> None:
        self.invocations = Invocations()
        self.scored: JSON | None = None
        self.ended = 0

    def add(self, event: JSON) -> None:
        self.invocations.add(event)
        self.ended += event["type"] == "agent.invocation.completed"
        if event["type"] == "eval.scored":
            self.scored = event


async def _task_log(store: Store, run: Run, task: str, share: float, trials: int) -> TaskLog:
    """
    The events of a task with their content.

    Tasks run almost in order: of a long log, the part around the place where the task should be is read first, and then
    parts four times as long, until all its trials are found.
    """
    nodes = {task_node(task), judge_node(task)}
    size = run.events if run.events <= WHOLE else WINDOW
    while True:
        middle = int(share * run.events)
        low = max(-1, middle - size)
        found = [event async for event in _events(store, run.id, low, middle + size) if _node(event) in nodes]
        log = TaskLog()
        for event in await with_content(store, run.id, found):
            log.add(event)
        complete = log.ended >= trials and (log.scored is not None or run.status != "completed")
        if complete or size >= run.events:
            return log
        size *= 4


def _node(event: Event) -> str | UnsetType:
    return decode_event(event.data).nodeId


async def _events(store: Store, run: str, after: int, last: int) -> AsyncIterator[Event]:
    while after < last and (page := await store.events(run, after=after, limit=min(1_000, last - after))):
        for event in page:
            yield event
        after = page[-1].sequence
