"""
Every case through its checks, results in the order the cases came in.

`score` is for checks that do not wait: no loop, no threads. `stream` is for all: it holds what is in flight.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from assay.checks.worker_tasks import WorkerTask, run_tasks
from assay.errors import BudgetExceeded
from assay.fep.context import Context
from assay.fep.plan import Plan
from assay.fep.scheduler.scheduler import CheckScheduler, Open, OpenCase
from assay.fep.scorer import PendingCase, ScoredCase, Scorer
from assay.fep.scorer_source import ScoredParts
from assay.fep.tally import Answers, Tally
from assay.runs.budgets import CostBudget

WINDOW = 1_024  # open cases behind one that is slow
WINDOW_BYTES = 64 * 1024 * 1024
CONCURRENCY = 16
FOLD = 4_096  # cases between two counts of what they answered
YIELD_EVERY, BREATH_SECONDS = 64, 0.02  # cases, or time, between two looks at the rest of the program


class ExecutionOptions(NamedTuple):
    """How a run is carried out."""

    concurrency: int = CONCURRENCY
    seconds: float = 60.0  # a check
    run_seconds: float = 86_400.0
    fail_fast: bool = False
    first: int = 0  # the number of the first case: checks may be listed per case
    keep: bool = False  # cancelled or out of money, it goes on with `skip` to the end instead of raising
    max_cost: float | None = None  # US dollars, what the tally holds already included


def score(
    plan: Plan,
    contexts: Iterable[Context],
    tally: Tally,
    first: int = 0,
    told: list[ScoredParts | None] | None = None,
) -> Iterator[ScoredCase]:
    """For a plan of which no check waits; `first` is the number of the first case. This thread waits for work of other processes."""
    held: list[ScoredCase | PendingCase] = []
    size = 0
    for context, begun in begin(plan, contexts, tally, first, told):
        if not held and isinstance(begun, ScoredCase):
            tally.case(begun.status)
            yield begun
            continue
        held.append(begun)
        size += len(context.line)
        if len(held) >= WINDOW or size >= WINDOW_BYTES:
            yield from _closed(held, tally)
            held, size = [], 0
    yield from _closed(held, tally)


def begin(
    plan: Plan,
    contexts: Iterable[Context],
    tally: Tally,
    first: int = 0,
    told: list[ScoredParts | None] | None = None,
) -> Iterator[tuple[Context, ScoredCase | PendingCase]]:
    """Every case to its end, or to where another process has to work for it."""
    counts: dict[Scorer, Answers] = {}
    for at, context in enumerate(contexts, first):
        sheet = plan.sheet(at, context)
        counted = counts.get(sheet) or counts.setdefault(sheet, sheet.counts(tally))
        yield context, sheet.begin(context, counted, told)
        if at % FOLD == 0:
            tally.fold()


def works_of(begun: Iterable[Any]) -> list[WorkerTask]:
    return [work for one in begun if isinstance(one, PendingCase) for work in one.works]


def _closed(held: Sequence[ScoredCase | PendingCase], tally: Tally) -> Iterator[ScoredCase]:
    answers = iter(run_tasks(works_of(held)))
    for one in held:
        scored = one.closed(islice(answers, len(one.works))) if isinstance(one, PendingCase) else one
        tally.case(scored.status)
        yield scored


async def stream(
    plan: Plan, contexts: AsyncIterator[Context] | Iterator[Context], tally: Tally, how: ExecutionOptions
) -> AsyncGenerator[ScoredCase, None]:
    run = _CaseWindow(plan, tally, how)
    try:
        async for scored in run.cases(_async(contexts)):
            yield scored
    finally:
        run.close()


class _CaseWindow:
    """One run: the window of open cases, in the order they came."""

    def __init__(self, plan: Plan, tally: Tally, how: ExecutionOptions) -> None:
        self._plan, self._tally, self._how = plan, tally, how
        self._cost_budget = CostBudget(how.max_cost, tally.spending.known_cost_usd)
        self._floor = CheckScheduler(
            plan.services,
            plan.options,
            how.concurrency,
            how.seconds,
            fail_fast=how.fail_fast,
            cost_budget=self._cost_budget,
        )
        self._counts: dict[Scorer, Answers] = {}
        self._window: deque[tuple[OpenCase | Open | ScoredCase, int]] = deque()
        self._held = 0
        self._timer = asyncio.get_running_loop().call_later(how.run_seconds, self._floor.stop)

    def close(self) -> None:
        self._timer.cancel()
        self._floor.close()

    async def cases(self, contexts: AsyncIterator[Context]) -> AsyncIterator[ScoredCase]:
        at = self._how.first
        more = False
        until = time.monotonic() + BREATH_SECONDS
        async for context in contexts:
            if more := self._cost_budget.exhausted and not self._how.keep:
                break
            entry = self._begun(context, self._plan.sheet(at, context))
            at += 1
            if at % YIELD_EVERY == 0 or time.monotonic() > until:
                await self._breathe(asyncio.sleep(0))
                until = time.monotonic() + BREATH_SECONDS
            if not self._window and isinstance(entry, ScoredCase):  # nobody is before it
                yield self._counted(entry)
                continue
            self._window.append((entry, len(context.line)))
            self._held += len(context.line)
            while not self._head_done and (self._floor.busy or self._full):
                await self._breathe(self._floor.progress())
            for scored in self._finished():
                yield scored
        async for scored in self._rest():
            yield scored
        if more:
            raise self._spent()

    async def _rest(self) -> AsyncIterator[ScoredCase]:
        """What is still open when there are no more cases."""
        while self._window:
            if not self._head_done:
                await self._breathe(self._floor.progress())
            for scored in self._finished():
                yield scored

    def _begun(self, context: Context, sheet: Scorer) -> OpenCase | Open | ScoredCase:
        counts = self._counts.get(sheet)
        if counts is None:
            if len(self._counts) >= WINDOW:
                self._counts.clear()
            counts = self._counts[sheet] = sheet.counts(self._tally)
        if self._floor.stopped or self._cost_budget.exhausted:
            return sheet.skipped(context, counts)
        if sheet.waits:
            case = OpenCase(context, sheet, counts)
            self._floor.add(case)
            return case
        if not self._how.fail_fast:
            begun = sheet.begin(context, counts)
            return begun if isinstance(begun, ScoredCase) else self._floor.open(begun)
        scored = sheet.plainly(context, counts, fail_fast=True)
        if scored.status == "error":
            self._floor.stop()
        return scored

    @property
    def _full(self) -> bool:
        return len(self._window) >= WINDOW or self._held >= WINDOW_BYTES

    @property
    def _head_done(self) -> bool:
        head, _ = self._window[0]
        return isinstance(head, ScoredCase) or head.left == 0

    def _finished(self) -> Iterator[ScoredCase]:
        while self._window and self._head_done:
            head, size = self._window.popleft()
            self._held -= size
            if isinstance(head, OpenCase) and head.dropped and not self._how.keep:
                raise self._spent()
            yield self._counted(head if isinstance(head, ScoredCase) else head.scored())

    def _counted(self, scored: ScoredCase) -> ScoredCase:
        self._tally.case(scored.status, scored.spending)
        if self._tally.cases % FOLD == 0:
            self._tally.fold()
        return scored

    def _spent(self) -> BudgetExceeded:
        assert self._cost_budget.ceiling is not None
        return BudgetExceeded(self._cost_budget.spent, self._cost_budget.ceiling)

    async def _breathe(self, what: Any) -> None:
        try:
            await what
        except asyncio.CancelledError:
            if not self._how.keep:
                raise
            self._floor.stop()  # cancelling keeps what is done, and marks the rest


async def _async(contexts: AsyncIterator[Context] | Iterator[Context]) -> AsyncIterator[Context]:
    if isinstance(contexts, AsyncIterator):
        async for context in contexts:
            yield context
    else:
        for context in contexts:
            yield context
