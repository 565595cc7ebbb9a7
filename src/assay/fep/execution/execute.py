"""
Drives the scorer: begins the cases of a run in their order, and counts their results.

`Execution.begin` is the one way from a context to its scorer. Each of its three callers waits in another way:
`Execution.score_in_place` not at all, `stream.py` on an event loop, in constant memory, and `inline.py` for all cases
of a request at once.
"""

import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from assay.checks.missing_parts import MISSING, without_missing
from assay.concurrency.interrupts import Interrupts
from assay.errors import BudgetExceeded
from assay.fep.planning.plan import Plan
from assay.fep.planning.scorer import OpenCase, ScoredCase, Scorer
from assay.inputs.context import Context
from assay.results.case_answers import Answers
from assay.results.tally import Tally
from assay.runs.run_options import CostBudget

WINDOW = 1_024  # open cases behind a slow one
CONCURRENCY = 16
FOLD = 4_096  # cases between two folds of the tally
CountAnswers = Callable[[], None]


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
    window: int = WINDOW  # open cases behind a slow one
    deferred: bool = False  # yield cases of compiled checks without their bytes, as CompiledCase


class Execution:
    """
    The cases of one run, in order. `stopped`: the cases that follow are skipped.

    `score_in_place` scores the cases before the first one that needs an event loop. `stream` scores the others. What
    the caller does with a case that they yield is in one section of `interrupts` with its scoring and counting.
    """

    def __init__(
        self,
        plan: Plan,
        contexts: Iterable[Context] | AsyncIterator[Context],
        tally: Tally,
        options: ExecutionOptions,
        interrupts: Interrupts | None = None,
    ) -> None:
        self.plan, self.tally, self.options = plan, tally, options
        self.interrupts = interrupts or Interrupts()
        self.contexts = contexts if isinstance(contexts, AsyncIterator) else iter(contexts)
        self.cost_budget = CostBudget(options.max_cost, tally.spending.known_cost_usd)
        self.stopped = self.is_complete = False
        self.open_case: OpenCase | None = None  # begun, and left to `stream`
        self._shared, self._deferred = plan.shared, options.deferred
        self._may_stop = options.fail_fast or options.max_cost is not None
        self._number = options.first  # of the next case; unused if all cases have one scorer
        self._answers: dict[Scorer, Answers] = {}
        self._until = time.monotonic() + options.run_seconds

    @property
    def remaining_seconds(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def begin(self, context: Context) -> ScoredCase | OpenCase:
        """
        Score the next case; an OpenCase has checks that wait, or tasks for worker processes.

        Raises InvalidRequest if the case cannot be planned, BudgetExceeded if the cost limit is reached.
        """
        scorer = self._scorer_of(context)
        return self._begin(context, scorer, self._answers.get(scorer) or self._answers_of(scorer))

    def begin_behind(self, context: Context) -> tuple[ScoredCase | OpenCase, CountAnswers | None]:
        """The same for a case behind an open one. A ScoredCase comes with what counts its answers at its turn."""
        scorer = self._scorer_of(context)
        answers = self._answers.get(scorer) or self._answers_of(scorer)
        apart = answers.apart()
        case = self._begin(context, scorer, apart)
        if isinstance(case, OpenCase):
            case.answers = answers
            return case, None
        return case, partial(answers.merge, apart)

    def _scorer_of(self, context: Context) -> Scorer:
        scorer = self._shared
        if scorer is None or context.checks is not None:
            scorer = self.plan.scorer_for(self._number, context)
            self._number += 1
        return scorer

    def _begin(self, context: Context, scorer: Scorer, answers: Answers) -> ScoredCase | OpenCase:
        metadata = context.document["output"].get("metadata")
        interpreted = metadata is not None and MISSING in metadata
        if interpreted:
            context = replace(context, document=without_missing(context.document))
        if scorer.waits or self.stopped or self._may_stop:
            return self._begin_or_skip(context, scorer, answers)
        if interpreted:
            return scorer.score_interpreted(context, answers)
        return scorer.begin(context, answers, deferred=self._deferred)

    def _begin_or_skip(self, context: Context, scorer: Scorer, answers: Answers) -> ScoredCase | OpenCase:
        if self.cost_budget.exhausted and not self.options.skip_rest:
            raise self.budget_exceeded()
        if self.cost_budget.exhausted or self.stopped:
            return scorer.skip_case(context, answers)
        if scorer.waits:
            return OpenCase(context, scorer, answers)
        if not self.options.fail_fast:
            return scorer.begin(context, answers, deferred=self._deferred)
        case = scorer.score_interpreted(context, answers, fail_fast=True)
        self.stopped = case.status == "error"
        return case

    def _answers_of(self, scorer: Scorer) -> Answers:
        if len(self._answers) >= WINDOW:
            self._answers.clear()
        answers = self._answers[scorer] = scorer.answers_in(self.tally)
        return answers

    def score_in_place(self) -> Iterator[ScoredCase]:
        """
        Score cases without an event loop. If a case needs one, it is `open_case`, and `is_complete` stays false: then
        call `stream` for it and the rest.
        """
        assert isinstance(self.contexts, Iterator)
        begin, count, now, until = self.begin, self.tally.count_case, time.monotonic, self._until
        interrupts, has_end = self.interrupts, until < math.inf
        try:
            for at, context in enumerate(self.contexts, 1):
                interrupts.held = True
                if has_end and now() > until:
                    self.stopped = True
                if at % FOLD == 0:
                    self.tally.fold()
                case = begin(context)
                if isinstance(case, OpenCase):
                    self.open_case = case
                    interrupts.release()
                    return
                count(case.status, case.spending)
                yield case
                interrupts.release()
        finally:
            interrupts.held = False
        self.is_complete = True

    def budget_exceeded(self) -> BudgetExceeded:
        budget = self.cost_budget
        assert budget.ceiling is not None
        return BudgetExceeded(budget.spent, budget.ceiling)
