"""
Runs all checks of every case, also those that wait, and yields the results in the order of the cases. Bounds what is in
flight.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

from assay.errors import BudgetExceeded, Refusal
from assay.fep.execution.execute import (
    FOLD,
    WINDOW,
    WINDOW_BYTES,
    YIELD_EVERY,
    YIELD_SECONDS,
    ExecutionOptions,
)
from assay.fep.execution.scheduler import CheckScheduler, OffloadedCase, OpenCase
from assay.fep.planning.plan import Plan
from assay.fep.planning.scorer import PendingCase, ScoredCase, Scorer
from assay.inputs.context import Context
from assay.results.tally import Answers, Tally
from assay.runs.run_options import CostBudget


async def stream(
    plan: Plan,
    contexts: AsyncIterator[Context] | Iterator[Context],
    tally: Tally,
    options: ExecutionOptions,
    pending: PendingCase | None = None,
) -> AsyncGenerator[ScoredCase, None]:
    """`pending` is a case before the first context. It has begun, and has tasks for worker processes."""
    run = _CaseWindow(plan, tally, options)
    if pending is not None:
        run.add(pending)
    try:
        async for scored in run.cases(contexts):
            yield scored
    finally:
        run.close()


class _CaseWindow:
    """The open cases of one run, in order."""

    def __init__(self, plan: Plan, tally: Tally, options: ExecutionOptions) -> None:
        self._plan, self._tally, self._options = plan, tally, options
        self._cost_budget = CostBudget(options.max_cost, tally.spending.known_cost_usd)
        self._scheduler = CheckScheduler(
            plan.services,
            plan.options,
            options.concurrency,
            options.seconds,
            fail_fast=options.fail_fast,
            cost_budget=self._cost_budget,
        )
        self._answers: dict[Scorer, Answers] = {}
        self._window: deque[tuple[OpenCase | OffloadedCase | ScoredCase, int]] = deque()
        self._window_bytes = 0
        self._timer = asyncio.get_running_loop().call_later(options.run_seconds, self._scheduler.stop)

    def close(self) -> None:
        self._timer.cancel()
        self._scheduler.close()

    def add(self, pending: PendingCase) -> None:
        self._window.append((self._scheduler.offload(pending), 0))

    async def cases(self, contexts: AsyncIterator[Context] | Iterator[Context]) -> AsyncIterator[ScoredCase]:
        """
        Yield all cases. If the input is refused at a context, the cases before it count, and the refusal comes last
        (FEP-34).
        """
        at = self._options.first
        interrupted = False
        until = time.monotonic() + YIELD_SECONDS
        accepted = UntilRefused(self._planned(contexts))
        async for context, scorer in accepted:
            if interrupted := self._cost_budget.exhausted and not self._options.skip_rest:
                break
            entry = self._open_case(context, scorer)
            at += 1
            if at % YIELD_EVERY == 0 or time.monotonic() > until:
                await self._yield_to_loop(asyncio.sleep(0))
                until = time.monotonic() + YIELD_SECONDS
            if not self._window and isinstance(entry, ScoredCase):  # no open case before it
                yield self._count(entry)
                continue
            self._window.append((entry, len(context.line)))
            self._window_bytes += len(context.line)
            while not self._first_done and (self._scheduler.busy or self._is_full):
                await self._yield_to_loop(self._scheduler.progress())
            for scored in self._completed_cases():
                yield scored
        async for scored in self._drain():
            yield scored
        if interrupted:
            raise self._budget_exceeded()
        accepted.raise_refusal()

    async def _planned(
        self, contexts: AsyncIterator[Context] | Iterator[Context]
    ) -> AsyncIterator[tuple[Context, Scorer]]:
        """Yield each context with its scorer."""
        scorer_for, first = self._plan.scorer_for, self._options.first
        if isinstance(contexts, AsyncIterator):
            at = first
            async for context in contexts:
                yield context, scorer_for(at, context)
                at += 1
        else:
            for at, context in enumerate(contexts, first):
                yield context, scorer_for(at, context)

    async def _drain(self) -> AsyncIterator[ScoredCase]:
        """Yield the open cases after the last context."""
        while self._window:
            if not self._first_done:
                await self._yield_to_loop(self._scheduler.progress())
            for scored in self._completed_cases():
                yield scored

    def _open_case(self, context: Context, scorer: Scorer) -> OpenCase | OffloadedCase | ScoredCase:
        answers = self._answers.get(scorer)
        if answers is None:
            if len(self._answers) >= WINDOW:
                self._answers.clear()
            answers = self._answers[scorer] = scorer.answers_in(self._tally)
        if self._scheduler.stopped or self._cost_budget.exhausted:
            return scorer.skip_case(context, answers)
        if scorer.waits:
            case = OpenCase(context, scorer, answers)
            self._scheduler.add(case)
            return case
        if not self._options.fail_fast:
            begin = scorer.begin_deferred if self._options.deferred else scorer.begin
            started = begin(context, answers)
            return started if isinstance(started, ScoredCase) else self._scheduler.offload(started)
        scored = scorer.score_interpreted(context, answers, fail_fast=True)
        if scored.status == "error":
            self._scheduler.stop()
        return scored

    @property
    def _is_full(self) -> bool:
        return len(self._window) >= WINDOW or self._window_bytes >= WINDOW_BYTES

    @property
    def _first_done(self) -> bool:
        head, _ = self._window[0]
        return isinstance(head, ScoredCase) or head.remaining == 0

    def _completed_cases(self) -> Iterator[ScoredCase]:
        while self._window and self._first_done:
            head, size = self._window.popleft()
            self._window_bytes -= size
            if isinstance(head, OpenCase) and head.is_skipped and not self._options.skip_rest:
                raise self._budget_exceeded()
            yield self._count(head if isinstance(head, ScoredCase) else head.result())

    def _count(self, case: ScoredCase) -> ScoredCase:
        self._tally.count_case(case.status, case.spending)
        if self._tally.cases % FOLD == 0:
            self._tally.fold()
        return case

    def _budget_exceeded(self) -> BudgetExceeded:
        assert self._cost_budget.ceiling is not None
        return BudgetExceeded(self._cost_budget.spent, self._cost_budget.ceiling)

    async def _yield_to_loop(self, awaitable: Any) -> None:
        try:
            await awaitable
        except asyncio.CancelledError:
            if not self._options.skip_rest:
                raise
            self._scheduler.stop()  # results so far are kept; the remaining checks are skipped


# The items of an input up to one that is refused: the cases before it count (FEP-34).

T = TypeVar("T")


class UntilRefused(Generic[T]):
    """Iterates over an input. Its refusal ends the iteration; `raise_refusal` raises it after the cases in progress."""

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items = items
        self._refusal: Refusal | None = None

    async def __aiter__(self) -> AsyncIterator[T]:
        try:
            async for item in self._items:
                yield item
        except Refusal as refusal:
            self._refusal = refusal

    def raise_refusal(self) -> None:
        if self._refusal is not None:
            raise self._refusal
