"""The statistics of an eval run, from its log: the score of its tasks, their outcomes, its cost and its latency."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import KIND, read_request, read_tasks
from assay.agenteval.results.scorecard import Scorecard
from assay.agenteval.scoring.safety_records import MODE, read_records
from assay.agenteval.scoring.scoring import bar_of
from assay.fep.records import evaluation_statistics
from assay.fep.records.run_header import KIND as EVALUATION
from assay.ports import CLOSED, Run, Store
from assay.results.statistics import rates_by_k
from assay.runs.log_reader import read_events
from assay.runs.run_statistics import (
    CaseCounts,
    Cost,
    RunStatistics,
    Score,
    cost_parts,
    latency_of,
    stored_statistics,
)
from assay.stats.intervals import UNIT, Method, mean_of, pass_all_k, pass_at_k

SCORED = (EVALUATION, KIND)  # the kinds of runs that have statistics
Kinds = Mapping[str, str]  # the kind of the expectation of each task, in the order of the suite
Interval = tuple[float | None, float | None, Method]


class _Expected(Struct):
    kind: str


class _Task(Struct, rename="camel"):
    task_id: str
    expected: _Expected


_task = msgspec.json.Decoder(_Task).decode


async def read_kinds(store: Store, run: Run) -> dict[str, str]:
    """The tasks of a run, each with the kind of its expectation."""
    return {task.task_id: task.expected.kind async for task in _tasks(store, run)}


async def _tasks(store: Store, run: Run) -> AsyncIterator[_Task]:
    async for _, line in read_tasks(store, run):
        yield _task(line)


class EvalLog:
    """The log of a run, folded into its scorecard. `advance` reads the events since the last call."""

    def __init__(self, scorecard: Scorecard, kinds: Kinds) -> None:
        self.scorecard, self.kinds, self._events = scorecard, kinds, 0

    async def advance(self, store: Store, run: Run) -> None:
        async for event in read_events(store, run.id, after=self._events - 1):
            self.scorecard.add(event)
            self._events = event.sequence + 1
        if MODE in self.scorecard.request.modes:
            async for record in read_records(store, run.id):
                self.scorecard.add_findings(record.task_id, record.trial, record.findings)

    def statistics(self, run: Run) -> RunStatistics:
        return eval_statistics(self.scorecard, self.kinds, ended=run.status in CLOSED)


async def open_log(store: Store, run: Run) -> EvalLog:
    """The log of a run, nothing of it read yet."""
    return EvalLog(Scorecard(await read_request(store, run)), await read_kinds(store, run))


async def read_statistics(store: Store, run: Run) -> RunStatistics | None:
    """
    The recorded statistics of an eval or an evaluation; of one that has not ended, or that a crash ended, those of its
    records.

    None: a run of another kind, or one that has no record (any more).
    """
    stored = stored_statistics(run)
    if stored is not None or run.kind not in SCORED or run.erased or not run.events:
        return stored
    if run.kind == EVALUATION:
        return await evaluation_statistics.read_statistics(store, run)
    log = await open_log(store, run)
    await log.advance(store, run)
    return log.statistics(run)


def eval_statistics(scorecard: Scorecard, kinds: Kinds, *, ended: bool) -> RunStatistics:
    """
    The statistics so far. A task is measured if all its trials are.

    A task of whose trials some are missing counts as skipped when the run has ended, and not before.
    """
    scored = {id: scorecard.tasks[id] for id in kinds if id in scorecard.tasks}
    repeats = Counter(trials_of(scorecard, id, kinds[id]) for id in scored)
    trials = sum(many * tasks for (_, many), tasks in repeats.items())
    score, value = None, scorecard.score
    if scored and value is not None:
        low, high, method = interval_of([task.score for task in scored.values()], trials)
        score = Score(
            name="score",
            scale="score",
            value=value,
            low=low,
            high=high,
            cases=len(scored),
            method=method,
        )
    partial = scorecard.trials.keys() - scorecard.unmeasured.keys() - scored.keys() if ended else ()
    counts = CaseCounts(
        passed=scorecard.passed_count,
        failed=len(scored) - scorecard.passed_count,
        error=len(scorecard.unmeasured),
        skipped=len(partial),
    )
    return RunStatistics(
        score=score,
        cases=counts.all,
        results=trials + sum(map(len, scorecard.trials.values())),
        counts=counts,
        cost=Cost(known_usd=round(scorecard.cost, 12), unknown=scorecard.unknown_costs),
        parts=cost_parts(scorecard.cost - scorecard.judges_cost, scorecard.judges_cost),
        latency=latency_of(scorecard.latencies),
        pass_k=rates_by_k(repeats, pass_all_k),
        pass_at_k=rates_by_k(repeats, pass_at_k),
    )


def trials_of(scorecard: Scorecard, id: str, kind: str) -> tuple[int, int]:
    """How many trials of a scored task passed, and how many it has."""
    bar = bar_of(kind, scorecard.request.pass_score)
    scores = scorecard.trial_scores.get(id)
    if scores is None:
        return int(scorecard.tasks[id].score >= bar), 1
    blocked = scorecard.blocked_trials(id)
    return sum(score >= bar and trial not in blocked for trial, score in scores.items()), len(scores)


def interval_of(scores: Sequence[float], trials: int) -> Interval:
    """The 95% interval of the mean score of tasks, from their scores and the number of all their trials (FEP-52)."""
    if not scores:
        return None, None, "none"
    found = mean_of(scores, trials, UNIT)
    return found.low, found.high, found.method
