"""Compares an eval run with an earlier run of its suite, task by task, and says what makes the two hard to compare."""

from collections.abc import Iterable, Sequence
from math import fsum

from msgspec import Struct

from assay.agenteval.planning.modes import covered_tasks
from assay.agenteval.results.report import EvalReport, TaskReport
from assay.protocol.agent_evals import AgentEvalSuite

NAMED = 5  # tasks that a note names


class BaselineRun(Struct, frozen=True, kw_only=True):
    """A completed run to compare with."""

    report: EvalReport
    suite_digest: str

    @property
    def run_id(self) -> str:
        return self.report.run


class TaskChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """A task whose score differs."""

    task_id: str
    before: float
    after: float


class Comparison(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    A run beside its baseline.

    The scores are means over the `tasks` that both runs scored; without such a task they are None.
    """

    baseline_run_id: str
    tasks: int
    score_before: float | None
    score_after: float | None
    score_delta: float | None
    better: tuple[TaskChange, ...] = ()
    worse: tuple[TaskChange, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def same_version_differs(baseline: BaselineRun, version: str, digest: str) -> bool:
    """Whether the suite changed and its version did not."""
    return baseline.report.suite_version == version and baseline.suite_digest != digest


def fits_regression(baseline: BaselineRun, suite: AgentEvalSuite, modes: Sequence[str]) -> bool:
    """Whether `regression` takes this baseline (openwop-contract §3.2 step 12): the same suite version and tasks."""
    if baseline.report.part:
        return False
    scored = {task.task_id for task in baseline.report.tasks}
    tasks = {task.task_id for task in covered_tasks(suite, modes)}
    return baseline.report.suite_version == suite.version and scored == tasks


def compare(baseline: BaselineRun, report: EvalReport, digest: str) -> Comparison:
    """The comparison of a run with its baseline, in the order of the run's suite."""
    before, after = _scores(baseline.report.tasks), _scores(report.tasks)
    both = [task for task in after if task in before]
    changes = [TaskChange(task_id=task, before=before[task], after=after[task]) for task in both]
    old = {task.task_id for task in baseline.report.tasks}
    new = {task.task_id for task in report.tasks}
    added = tuple(task.task_id for task in report.tasks if task.task_id not in old)
    removed = tuple(task.task_id for task in baseline.report.tasks if task.task_id not in new)
    first, second = _mean(before[task] for task in both), _mean(after[task] for task in both)
    return Comparison(
        baseline_run_id=baseline.run_id,
        tasks=len(both),
        score_before=first,
        score_after=second,
        score_delta=None if first is None or second is None else round(second - first, 12),
        better=tuple(change for change in changes if change.after > change.before),
        worse=tuple(change for change in changes if change.after < change.before),
        added=added,
        removed=removed,
        notes=(*_settings_notes(baseline, report, digest), *_task_notes(added, removed)),
    )


def _settings_notes(baseline: BaselineRun, report: EvalReport, digest: str) -> list[str]:
    old, notes = baseline.report, list[str]()
    if old.suite_version != report.suite_version:
        notes.append(f"the baseline ran version {old.suite_version} of the suite, not {report.suite_version}")
    elif baseline.suite_digest != digest:
        notes.append(
            f"the baseline ran other content of the suite, under the same version {report.suite_version}"
        )
    if old.agent_id != report.agent_id:
        notes.append(f"the baseline ran another agent, {old.agent_id}, not {report.agent_id}")
    if old.part:
        notes.append(f"the baseline has {old.part}")
    if report.part:
        notes.append(f"this run has {report.part}")
    if old.trials != report.trials:
        notes.append(f"the baseline tried each task {_times(old.trials)}, this run {_times(report.trials)}")
    return notes


def _task_notes(new_tasks: Sequence[str], missing_tasks: Sequence[str]) -> list[str]:
    notes = [f"not in the baseline: {_join_names(new_tasks)}"] if new_tasks else []
    return [*notes, f"only in the baseline: {_join_names(missing_tasks)}"] if missing_tasks else notes


def _join_names(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - NAMED:,} more" if len(tasks) > NAMED else ""
    return f"task{'s' if len(tasks) > 1 else ''} {', '.join(tasks[:NAMED])}{more}"


def _times(trials: int) -> str:
    return "once" if trials == 1 else f"{trials} times"


def _scores(tasks: Iterable[TaskReport]) -> dict[str, float]:
    return {task.task_id: task.score for task in tasks if task.score is not None}


def _mean(scores: Iterable[float]) -> float | None:
    found = list(scores)
    return round(fsum(found) / len(found), 12) if found else None
