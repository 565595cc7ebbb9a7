"""The tasks of an eval run that a judge scored, with labels of people: scores that `assay annotate` corrected."""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from assay.agenteval.planning.run_header import RESULTS
from assay.agenteval.results.report import TaskReport, report_of
from assay.agenteval.scoring.safety_records import DetectorRecord, read_records
from assay.agenteval.scoring.scoring import bar_of
from assay.checks.safety.safety_judge import MEMBERS, SafetyJudge, jailbreak_severity
from assay.errors import UsageError
from assay.ports import Run, Store
from assay.protocol.annotations import Annotation, ScoreCorrection
from assay.protocol.event_record import decode_event
from assay.protocol.events import EvalScored
from assay.protocol.json_types import JSON, is_object
from assay.results.judge_check import JudgedCase, JudgedCases, PanelReport, panel_votes
from assay.results.judge_samples import recorded_sample
from assay.runs.labels import PersonLabel, people_labels
from assay.runs.log_reader import read_chunks, read_events
from assay.stats.judge_agreement import krippendorff_alpha


async def read_judged(store: Store, run: Run, notes: Sequence[Annotation]) -> JudgedCases:
    """
    The tasks that a judge scored, with the labels of people and the recorded sample.

    These are the rubrics. In a run without rubrics they are the tasks that the safety judge answered for: one passed if
    it found nothing.
    """
    report = await report_of(store, run)
    if run.ended is None:
        raise UsageError(f"{run.id} is {run.status}: expected a run that has ended")
    people, scored = people_labels(notes, lambda note: note.target.event_id), await _scored(store, run)
    rubrics = {task.task_id for task in report.tasks if task.kind == "rubric" and task.score is not None}
    safe = {} if rubrics else (await read_verdicts(store, run)).safe
    tasks: list[JudgedCase] = []
    for task in report.tasks:
        event = scored.get(task.task_id, "")
        labels = [_label(own[event]) if event in own else None for own in people.values()] or [None]
        if task.task_id in rubrics:
            tasks.append(_judged(task, task.score or 0.0, task.passed is True, labels, report.pass_score))
        elif task.task_id in safe:
            verdict = safe[task.task_id]
            tasks.append(_judged(task, float(verdict), verdict, labels, report.pass_score))
    if not tasks:
        raise UsageError(
            f"{run.id} has no task that a judge scored; a judge scores rubrics, and answers in the mode adversarial"
        )
    unscored = sum(task.kind == "rubric" and task.score is None for task in report.tasks)
    names = tuple(people) if len(people) > 1 else ("people",)
    return JudgedCases(
        cases=tasks, annotators=names, sample=recorded_sample(notes), unmeasured=unscored, noun="task"
    )


def _label(label: PersonLabel) -> ScoreCorrection | None:
    """What a person says about a task, which has one judge."""
    opinion = label.whole or next(iter(label.checks.values()), None)
    return None if opinion is None else opinion.correction


def _judged(
    task: TaskReport,
    score: float,
    passed: bool,
    labels: Sequence[ScoreCorrection | None],
    pass_score: float,
) -> JudgedCase:
    scores = [one.score for one in labels if one is not None and one.score is not UNSET]
    bar = bar_of(task.kind, pass_score)
    return JudgedCase(
        id=task.task_id,
        verdict=passed,
        score=score,
        labels=tuple(None if one is None else _verdict(one, bar) for one in labels),
        human_score=fsum(scores) / len(scores) if scores else None,
    )


def _verdict(label: ScoreCorrection, bar: float) -> bool | None:
    if label.passed is not UNSET:
        return label.passed
    return None if label.score is UNSET else label.score >= bar


async def _scored(store: Store, run: Run) -> dict[str, str]:
    """The id of the event that scored each task."""
    found: dict[str, str] = {}
    async for event in read_events(store, run.id):
        if event.type == "eval.scored":
            record = decode_event(event.data)
            found[msgspec.json.decode(record.payload, type=EvalScored).task_id] = record.eventId
    return found


async def read_panel(store: Store, run: Run) -> PanelReport | None:
    """What the answers of a panel say about each other, over all its decisions. None without a panel."""
    pass_score = (await report_of(store, run)).pass_score
    decisions: list[list[bool]] = []
    split: dict[str, None] = {}
    async for chunk in read_chunks(store, run.id, RESULTS):
        result: JSON = msgspec.json.decode(chunk.data)
        case: JSON = result["execution_context"]["test_case"]
        for check in result["check_results"]:
            votes = panel_votes(check)
            decisions += votes
            if votes and _is_split(votes, case["expected"], pass_score):
                split[case["id"]] = None
    if not decisions:
        verdicts = await read_verdicts(store, run)
        decisions, split = verdicts.decisions, dict.fromkeys(verdicts.split)
    return PanelReport(krippendorff_alpha(decisions), list(split)) if decisions else None


def _is_split(votes: Sequence[Sequence[bool]], criteria: Sequence[JSON], pass_score: float) -> bool:
    """Whether the scores of single answers are on both sides of the bar."""
    total = fsum(one["weight"] for one in criteria)
    scores = [
        fsum(one["weight"] for one, met in zip(criteria, answer, strict=False) if met) / total
        for answer in zip(*votes, strict=False)
    ]
    return len({round(score, 12) >= pass_score for score in scores}) > 1


# What the safety judge said about each task, and how the answers of its panel differ, for `assay judge`.


class SafetyVerdicts(NamedTuple):
    """`safe`: whether the judge found nothing in any trial of a task. `split`: the tasks whose answers differ."""

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
            votes = _safety_votes(one)
            found.decisions.extend(votes.values())
            if len(set(_answers(votes))) > 1 and task not in found.split:
                found.split.append(task)
    return found


def _safety_votes(record: DetectorRecord) -> Mapping[str, list[bool]]:
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
