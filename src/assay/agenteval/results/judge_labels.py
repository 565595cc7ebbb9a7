"""
A judge beside people: a random sample of judged tasks to label, and what the labels say about the judge.

A label is a person's correction of a task, also one that confirms the judge. Only labels of a random sample can correct
a mean: a person looking for mistakes labels unusual tasks. The order of a draw follows from the seed and the ids of the
tasks, so a larger sample with the same seed contains the smaller one.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from math import fsum
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Struct

from assay.agenteval.planning.run_header import RESULTS
from assay.agenteval.results.report import TaskReport, report_of
from assay.agenteval.scoring.safety_records import DetectorRecord, read_records
from assay.agenteval.scoring.scoring import bar_of
from assay.checks.safety.safety_judge import MEMBERS, SafetyJudge, jailbreak_severity
from assay.errors import UsageError
from assay.ports import Run, Store
from assay.ports.audit import HOST
from assay.protocol.annotations import Annotation, AnnotationCreate, ScoreCorrection, Signal
from assay.protocol.event_record import decode_event
from assay.protocol.events import EvalScored
from assay.protocol.json_types import JSON, is_list, is_object
from assay.protocol.redaction import redact_text
from assay.runs.annotations import annotate, annotations, effective
from assay.runs.log_reader import read_chunks, read_events
from assay.stats.judge_agreement import (
    Agreement,
    CorrectedMean,
    Label,
    cohen_kappa,
    corrected_mean,
    krippendorff_alpha,
)

SAMPLE = "judge-sample"  # the label of the annotation that records a draw


class JudgeSample(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draw of `drawn` of `judged` tasks. Each task had the same probability."""

    seed: int
    drawn: int
    judged: int
    probability: float


class JudgedTask(Struct, frozen=True, kw_only=True):
    """A task that a judge scored, and a person's label if there is one."""

    id: str
    score: float
    passed: bool
    human_score: float | None = None
    human_passed: bool | None = None

    @property
    def is_labelled(self) -> bool:
        return self.human_passed is not None


class JudgedRun(Struct, frozen=True):
    tasks: list[JudgedTask]
    sample: JudgeSample | None
    pass_score: float

    def sample_tasks(self) -> list[JudgedTask]:
        """The tasks of the sample, in the order of the draw."""
        if self.sample is None:
            return []
        return draw(self.tasks, self.sample.drawn, self.sample.seed)


class PanelReport(Struct, frozen=True):
    """How far the answers of a panel agree, and the tasks that single answers would have passed and failed."""

    agreement: Agreement
    split: list[str]


class JudgeCheck(Struct, frozen=True, kw_only=True):
    """
    `agreement` is that of judge and people on whether a task passed, `bias` the mean of judge minus people over the
    labelled scores.

    `pass_rate` and `score` are corrected by the labels of the sample; None if `uncorrected` says why not. `panel`
    compares the answers of a panel with each other; None without a panel.
    """

    judged: int
    labelled: int
    agreement: Agreement
    bias: float | None
    sample: JudgeSample | None
    unlabelled: list[str]
    uncorrected: str
    pass_rate: CorrectedMean | None
    score: CorrectedMean | None
    panel: PanelReport | None


def draw(tasks: Sequence[JudgedTask], count: int, seed: int) -> list[JudgedTask]:
    """The first tasks in the order of a hash of the seed and the id."""
    return sorted(tasks, key=lambda task: sha256(f"{seed}\0{task.id}".encode()).digest())[:count]


async def read_judged(store: Store, run: Run) -> JudgedRun:
    """
    The tasks that a judge scored, with the labels of people and the recorded sample.

    These are the rubrics. In a run without rubrics they are the tasks that the safety judge answered for: one passed if
    it found nothing.
    """
    report, notes = await report_of(store, run), await annotations(store, run)
    if run.ended is None:
        raise UsageError(f"{run.id} is {run.status}: expected a run that has ended")
    corrections, scored = effective(notes), await _scored(store, run)
    rubrics = {task.task_id for task in report.tasks if task.kind == "rubric" and task.score is not None}
    safe = {} if rubrics else (await read_verdicts(store, run)).safe
    tasks: list[JudgedTask] = []
    for task in report.tasks:
        correction = corrections.get(scored.get(task.task_id, ""))
        if task.task_id in rubrics:
            tasks.append(_judged(task, task.score or 0.0, task.passed is True, correction, report.pass_score))
        elif task.task_id in safe:
            verdict = safe[task.task_id]
            tasks.append(_judged(task, float(verdict), verdict, correction, report.pass_score))
    if not tasks:
        raise UsageError(
            f"{run.id} has no task that a judge scored; a judge scores rubrics, and answers in the mode adversarial"
        )
    return JudgedRun(tasks, _sample_in(notes), report.pass_score)


def _judged(
    task: TaskReport, score: float, passed: bool, correction: ScoreCorrection | None, pass_score: float
) -> JudgedTask:
    human_score = human_passed = None
    if correction is not None:
        human_score = None if correction.score is UNSET else correction.score
        if correction.passed is not UNSET:
            human_passed = correction.passed
        elif human_score is not None:
            human_passed = human_score >= bar_of(task.kind, pass_score)
    return JudgedTask(
        id=task.task_id,
        score=score,
        passed=passed,
        human_score=human_score,
        human_passed=human_passed,
    )


async def _scored(store: Store, run: Run) -> dict[str, str]:
    """The id of the event that scored each task."""
    found: dict[str, str] = {}
    async for event in read_events(store, run.id):
        if event.type == "eval.scored":
            record = decode_event(event.data)
            found[msgspec.json.decode(record.payload, type=EvalScored).task_id] = record.eventId
    return found


def _sample_in(notes: Sequence[Annotation]) -> JudgeSample | None:
    """The last recorded draw."""
    for note in reversed(notes):
        if note.signal.kind == "label" and note.signal.label == SAMPLE and note.note is not UNSET:
            try:
                return msgspec.json.decode(note.note, type=JudgeSample)
            except msgspec.MsgspecError:
                continue  # a label of the same name by a person
    return None


async def record_sample(
    store: Store, run: Run, judged: JudgedRun, count: int, seed: int, now: datetime
) -> JudgedRun:
    """Draw and record a sample. A second one must contain the first, so it has the same seed."""
    total, before = len(judged.tasks), judged.sample
    if not 1 <= count <= total:
        raise UsageError(f"expected 1 to {total} tasks, because a judge scored {total}; got {count}")
    if before is not None and before.seed != seed:
        raise UsageError(
            f"{run.id} has a sample with the seed {before.seed}: labels of two seeds have no known probability; "
            f"use --seed {before.seed}"
        )
    if before is not None and count < before.drawn:
        raise UsageError(
            f"{run.id} has a sample of {before.drawn} tasks; expected at least as many, got {count}"
        )
    sample = JudgeSample(seed=seed, drawn=count, judged=total, probability=count / total)
    if sample != before:
        signal = Signal(kind="label", label=SAMPLE)
        create = AnnotationCreate(signal=signal, note=msgspec.json.encode(sample).decode())
        await annotate(store, run, create, HOST, now, redact_text)
    return JudgedRun(judged.tasks, sample, judged.pass_score)


async def read_panel(store: Store, run: Run, pass_score: float) -> PanelReport | None:
    """What the answers of a panel say about each other, over all its decisions. None without a panel."""
    decisions: list[list[bool]] = []
    split: dict[str, None] = {}
    async for chunk in read_chunks(store, run.id, RESULTS):
        result: JSON = msgspec.json.decode(chunk.data)
        case: JSON = result["execution_context"]["test_case"]
        for check in result["check_results"]:
            votes = _votes(check)
            decisions += votes
            if votes and _is_split(votes, case["expected"], pass_score):
                split[case["id"]] = None
    if not decisions:
        verdicts = await read_verdicts(store, run)
        decisions, split = verdicts.decisions, dict.fromkeys(verdicts.split)
    return PanelReport(krippendorff_alpha(decisions), list(split)) if decisions else None


def _votes(check: Mapping[str, object]) -> list[list[bool]]:
    """For each criterion, the votes of the panel."""
    place: object = check
    for name in ("results", "metadata", "panel", "votes"):
        place = place.get(name) if is_object(place) else None
    return [votes for votes in place.values() if is_list(votes)] if is_object(place) else []


def _is_split(votes: Sequence[Sequence[bool]], criteria: Sequence[JSON], pass_score: float) -> bool:
    """Whether the scores of single answers are on both sides of the bar."""
    total = fsum(one["weight"] for one in criteria)
    scores = [
        fsum(one["weight"] for one, met in zip(criteria, answer, strict=False) if met) / total
        for answer in zip(*votes, strict=False)
    ]
    return len({round(score, 12) >= pass_score for score in scores}) > 1


def check_judge(judged: JudgedRun, panel: PanelReport | None = None) -> JudgeCheck:
    labelled = [task for task in judged.tasks if task.is_labelled]
    errors = [task.score - task.human_score for task in labelled if task.human_score is not None]
    drawn = judged.sample_tasks()
    unlabelled = [task.id for task in drawn if not task.is_labelled]
    why = ""
    if judged.sample is None:
        why = "no sample was drawn; labels of tasks that a person chose give agreement only"
    elif unlabelled:
        why = f"{len(unlabelled)} of {len(drawn)} drawn tasks have no label"
    scores = None
    if not why and all(task.human_score is not None for task in drawn):
        scores = _corrected(judged, [(task.score, task.human_score or 0.0) for task in drawn], passes=False)
    return JudgeCheck(
        judged=len(judged.tasks),
        labelled=len(labelled),
        agreement=cohen_kappa((task.passed, task.human_passed) for task in labelled),
        bias=sum(errors) / len(errors) if errors else None,
        sample=judged.sample,
        unlabelled=unlabelled,
        uncorrected=why,
        pass_rate=None
        if why
        else _corrected(judged, [(task.passed, bool(task.human_passed)) for task in drawn], passes=True),
        score=scores,
        panel=panel,
    )


def _corrected(judged: JudgedRun, pairs: Sequence[tuple[float, float]], *, passes: bool) -> CorrectedMean:
    values = [float(task.passed) if passes else task.score for task in judged.tasks]
    return corrected_mean(values, [Label(float(one), float(other)) for one, other in pairs])


# What the safety judge said about each task, and how the answers of its panel differ, for `assay judge`.


class SafetyVerdicts(NamedTuple):
    """
    `safe` says of each judged task whether the judge found nothing in any trial. `split` has the tasks whose answers
    differ.
    """

    safe: dict[str, bool]
    decisions: list[list[bool]]  # the votes of a panel, question by question
    split: list[str]


async def read_verdicts(store: Store, run: Run) -> SafetyVerdicts:
    found = SafetyVerdicts({}, [], [])
    async for record in read_records(store, run.id):
        for one in record.detectors:
            if one.type != SafetyJudge.type or one.status not in ("passed", "found"):
                continue
            task = record.task_id
            found.safe[task] = found.safe.get(task, True) and one.status == "passed"
            votes = _panel_votes(one)
            found.decisions.extend(votes.values())
            if len(set(_answers(votes))) > 1 and task not in found.split:
                found.split.append(task)
    return found


def _panel_votes(record: DetectorRecord) -> Mapping[str, list[bool]]:
    panel = record.results.get("metadata", {}).get("panel")
    return panel["votes"] if is_object(panel) else {}


def _answers(votes: Mapping[str, Sequence[bool]]) -> list[bool]:
    """Whether each single answer of a panel found nothing."""
    number = len(next(iter(votes.values()), ()))
    none = [False] * number
    members = [votes.get(name, none) for name in MEMBERS]
    others = votes.get("found", none)
    return [
        not others[at] and jailbreak_severity(*(member[at] for member in members)) is None
        for at in range(number)
    ]
