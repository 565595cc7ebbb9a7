"""
Runs the checks of every case and yields the results in the order of the cases.

`score` and `InPlaceRun` are for checks that do not wait: no event loop, no threads. `stream.py` is for all checks.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from assay.checks.worker_tasks import WorkerTask, run_tasks
from assay.errors import Refusal
from assay.fep.planning.plan import Plan
from assay.fep.planning.scorer import PendingCase, ScoredCase, Scorer
from assay.inputs.context import Context
from assay.results.tally import Answers, Tally

WINDOW = 1_024  # open cases behind a slow one
WINDOW_BYTES = 64 * 1024 * 1024
CONCURRENCY = 16
FOLD = 4_096  # cases between two folds of the tally
YIELD_EVERY, YIELD_SECONDS = 64, 0.02  # cases, or seconds, between two yields to the event loop


class ExecutionOptions(NamedTuple):
    """How a run is executed."""

    concurrency: int = CONCURRENCY
    seconds: float = 60.0  # a check
    run_seconds: float = 86_400.0
    fail_fast: bool = False
    first: int = 0  # the number of the first case, for plans with a list of checks per case
    skip_rest: bool = (
        False  # when cancelled or over budget, mark the remaining cases as `skip` instead of raising
    )
    max_cost: float | None = None  # US dollars, including what the tally already holds
    deferred: bool = False  # yield cases of compiled checks without their bytes, as CompiledCase


def score(
    plan: Plan,
    contexts: Iterable[Context],
    tally: Tally,
    first: int = 0,
    *,
    deferred: bool = False,
) -> Iterator[ScoredCase]:
    """
    Score a plan without waiting checks; `first` is the number of the first case.

    The thread blocks for tasks of worker processes.

    `deferred`: cases of compiled checks do not have their bytes yet, as CompiledCase.
    """
    window: list[ScoredCase | PendingCase] = []
    size = 0
    shared, answers_by_scorer = plan.shared, dict[Scorer, Answers]()
    try:
        for at, context in enumerate(
            contexts, first
        ):  # the steps of `begin`, without a generator for each case
            scorer = plan.scorer_for(at, context) if shared is None or context.checks is not None else shared
            answers = answers_by_scorer.get(scorer)
            if answers is None:
                answers = answers_by_scorer[scorer] = scorer.answers_in(tally)
            case = scorer.begin_deferred(context, answers) if deferred else scorer.begin(context, answers)
            if at % FOLD == 0:
                tally.fold()
            if not window and isinstance(case, ScoredCase):
                tally.count_case(case.status)
                yield case
                continue
            window.append(case)
            size += len(context.line)
            if len(window) >= WINDOW or size >= WINDOW_BYTES:
                full, window, size = window, [], 0
                yield from _complete(full, tally)
    except Refusal:  # a line that is not a context: the cases before it count (FEP-34)
        yield from _complete(window, tally)
        raise
    yield from _complete(window, tally)


def begin(
    plan: Plan,
    contexts: Iterable[Context],
    tally: Tally,
    first: int = 0,
) -> Iterator[tuple[Context, ScoredCase | PendingCase]]:
    """Score every case, or yield a PendingCase if worker processes have tasks for it."""
    answers_by_scorer: dict[Scorer, Answers] = {}
    for at, context in enumerate(contexts, first):
        scorer = plan.scorer_for(at, context)
        answers = answers_by_scorer.get(scorer) or answers_by_scorer.setdefault(
            scorer, scorer.answers_in(tally)
        )
        yield context, scorer.begin(context, answers)
        if at % FOLD == 0:
            tally.fold()


def tasks_of(cases: Iterable[Any]) -> list[WorkerTask]:
    return [work for one in cases if isinstance(one, PendingCase) for work in one.tasks]


def _complete(cases: Sequence[ScoredCase | PendingCase], tally: Tally) -> Iterator[ScoredCase]:
    answers = iter(run_tasks(tasks_of(cases)))
    for one in cases:
        scored = one.complete(islice(answers, len(one.tasks))) if isinstance(one, PendingCase) else one
        tally.count_case(scored.status)
        yield scored


class InPlaceRun:
    """
    `stream` without an event loop, as far as cases need none. The results are those of `stream`.

    `cases` ends before a case with a check that waits, and after a case with tasks for worker processes has begun. Then
    `is_complete` is false, and `stream` takes `contexts`, `options` and `pending` for the rest.
    """

    def __init__(
        self, plan: Plan, contexts: Iterable[Context], tally: Tally, options: ExecutionOptions
    ) -> None:
        self._plan, self._tally = plan, tally
        self.contexts, self.options = iter(contexts), options
        self.pending: PendingCase | None = None
        self.is_complete = False

    def cases(self) -> Iterator[ScoredCase]:
        until = time.monotonic() + self.options.run_seconds
        stopped = False
        answers_by_scorer: dict[Scorer, Answers] = {}
        for at, context in enumerate(self.contexts, self.options.first):
            scorer = self._plan.scorer_for(at, context)
            stopped = stopped or time.monotonic() > until
            if scorer.waits and not stopped:
                self.contexts = chain([context], self.contexts)
                self._leave(at, until)
                return
            answers = answers_by_scorer.get(scorer)
            if answers is None:
                if len(answers_by_scorer) >= WINDOW:
                    answers_by_scorer.clear()
                answers = answers_by_scorer[scorer] = scorer.answers_in(self._tally)
            if stopped:
                case = scorer.skip_case(context, answers)
            elif self.options.fail_fast:
                case = scorer.score_interpreted(context, answers, fail_fast=True)
                stopped = case.status == "error"
            else:
                case = (
                    scorer.begin_deferred(context, answers)
                    if self.options.deferred
                    else scorer.begin(context, answers)
                )
                if isinstance(case, PendingCase):
                    self.pending = case
                    self._leave(at + 1, until)
                    return
            self._tally.count_case(case.status, case.spending)
            if at % FOLD == 0:
                self._tally.fold()
            yield case
        self.is_complete = True

    def _leave(self, first: int, until: float) -> None:
        """Leave the cases from number `first` on to `stream`."""
        seconds = max(0.0, until - time.monotonic())
        self.options = self.options._replace(first=first, run_seconds=seconds)
