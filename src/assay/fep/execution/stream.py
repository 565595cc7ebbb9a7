"""
Scores all cases of a run, also those that wait, and yields the results in the order of the cases. Bounds what is in
flight.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from assay.errors import BudgetExceeded, Refusal
from assay.fep.execution.execute import FOLD, CountAnswers, Execution
from assay.fep.execution.scheduler import CheckScheduler
from assay.fep.planning.scorer import OpenCase, ScoredCase
from assay.inputs.context import Context

WINDOW_BYTES = 64 * 1024 * 1024
YIELD_EVERY, YIELD_SECONDS = 64, 0.02  # cases, or seconds, between two yields to the event loop


async def stream(execution: Execution) -> AsyncGenerator[ScoredCase, None]:
    window = _CaseWindow(execution)
    try:
        async for scored in window.cases():
            yield scored
    finally:
        window.close()


class _BegunCase(NamedTuple):
    """A case, the size of its context, and what counts its answers if they are not counted yet."""

    case: OpenCase | ScoredCase
    size: int
    count_answers: CountAnswers | None = None


class _CaseWindow:
    """The open cases of one run, in order."""

    def __init__(self, execution: Execution) -> None:
        self._execution, self._count = execution, execution.tally.count_case
        self._interrupts = execution.interrupts
        self._scheduler = CheckScheduler(execution)
        self._window: deque[_BegunCase] = deque()
        self._window_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        if (seconds := execution.remaining_seconds) < math.inf:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._scheduler.stop)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._scheduler.close()
        self._interrupts.held = False

    async def cases(self) -> AsyncIterator[ScoredCase]:
        """
        Yield all cases. If the input is refused at a context, or the cost limit is reached, the cases before it count,
        and the refusal comes last (FEP-34).
        """
        number = 0
        until = time.monotonic() + YIELD_SECONDS
        accepted = UntilRefused(self._begun())
        async for begun in accepted:
            case = begun.case
            self._schedule(case)
            number += 1
            if number % FOLD == 0:
                self._execution.tally.fold()
            if not self._window and isinstance(case, ScoredCase):  # no open case before it
                self._count(case.status, case.spending)
                yield case
                self._interrupts.release()
            else:
                self._window.append(begun)
                self._window_bytes += begun.size
                self._interrupts.release()
                while not self._first_done and (self._scheduler.busy or self._is_full):
                    await self._yield_to_loop(self._scheduler.progress)
                for scored in self._completed_cases():
                    yield scored
            if number % YIELD_EVERY == 0 or time.monotonic() > until:
                await self._yield_to_loop(partial(asyncio.sleep, 0))
                until = time.monotonic() + YIELD_SECONDS
        self._interrupts.release()
        async for scored in self._drain():
            yield scored
        try:
            accepted.raise_refusal()
        except BudgetExceeded:
            raise self._execution.budget_exceeded() from None  # with the cost of the cases that were in flight

    async def _begun(self) -> AsyncIterator[_BegunCase]:
        """Begin each case. Yields it in a section that `cases` ends."""
        execution = self._execution
        if (left := execution.open_case) is not None:
            yield _BegunCase(left, len(left.context.line))
        if isinstance(execution.contexts, AsyncIterator):
            async for context in execution.contexts:
                yield self._begin(context)
        else:
            for context in execution.contexts:
                yield self._begin(context)

    def _begin(self, context: Context) -> _BegunCase:
        self._interrupts.held = True
        if not self._window:
            return _BegunCase(self._execution.begin(context), len(context.line))
        case, count_answers = self._execution.begin_behind(context)
        return _BegunCase(case, len(context.line), count_answers)

    def _schedule(self, case: OpenCase | ScoredCase) -> None:
        if self._execution.stopped:
            self._scheduler.stop()  # after an error with fail_fast: the checks that run are skipped too
        if isinstance(case, OpenCase):
            self._scheduler.add(case)

    async def _drain(self) -> AsyncIterator[ScoredCase]:
        """Yield the open cases after the last context."""
        while self._window:
            if not self._first_done:
                await self._yield_to_loop(self._scheduler.progress)
            for scored in self._completed_cases():
                yield scored

    @property
    def _is_full(self) -> bool:
        return len(self._window) >= self._execution.options.window or self._window_bytes >= WINDOW_BYTES

    @property
    def _first_done(self) -> bool:
        head = self._window[0].case
        return isinstance(head, ScoredCase) or head.remaining == 0

    def _completed_cases(self) -> Iterator[ScoredCase]:
        while self._window and self._first_done:
            head, size, count_answers = self._window.popleft()
            self._window_bytes -= size
            self._interrupts.held = True
            if isinstance(head, OpenCase):
                if head.is_skipped and not self._execution.options.skip_rest:
                    raise self._execution.budget_exceeded()
                head = head.result()
            if count_answers is not None:
                count_answers()
            self._count(head.status, head.spending)
            yield head
            self._interrupts.release()

    async def _yield_to_loop(self, wait: Callable[[], Awaitable[None]]) -> None:
        """A function, because an interrupt between the lines would leave a coroutine that nobody awaits."""
        try:
            await wait()
        except asyncio.CancelledError:
            if not self._execution.options.skip_rest:
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
