"""
Asks an agent for each case of a stream and yields the results in order. Nothing is stored; only cases in progress are
in memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

from assay.errors import BudgetExceeded
from assay.fep.agent_runs.agent_output import AgentDependencies, run_trial
from assay.fep.execution.execute import WINDOW, ExecutionOptions
from assay.fep.execution.stream import UntilRefused
from assay.inputs.context import Context
from assay.results.tally import Tally
from assay.runs.run_options import CostBudget

Trial = asyncio.Task[tuple[bytes, Tally]]


async def stream_agent(
    deps: AgentDependencies,
    contexts: AsyncIterator[Context],
    tally: Tally,
    options: ExecutionOptions,
) -> AsyncGenerator[bytes]:
    """
    A TestCaseResult for each trial of each case.

    It stops when it is cancelled, when the cost limit is reached, or after an error with `fail_fast`. With
    `options.skip_rest` the other cases are then `skip`; else it raises. If a context is refused, the refusal comes
    after the cases before it.
    """
    run, request = _TrialWindow(deps, tally, options), deps.request
    try:
        number, more = 0, False
        accepted = UntilRefused(contexts)
        async for context in accepted:
            if more := run.exhausted and not options.skip_rest:
                break
            for _ in range(request.trials):
                run.add(context, number)
                number += 1
                while run.full and not run.stopped:
                    await run.progress()
                for line in run.take_completed():
                    yield line
        while run.open:
            await run.progress()
            for line in run.take_completed():
                yield line
        if more:
            assert request.max_cost is not None
            raise BudgetExceeded(run.budget.spent, request.max_cost)
        accepted.raise_refusal()
    finally:
        await run.close()


class _TrialWindow:
    """The trials in progress, in order. A trial that was not started, or was cut off, is None: it is skipped."""

    def __init__(self, deps: AgentDependencies, tally: Tally, options: ExecutionOptions) -> None:
        self._deps, self._tally, self._options = deps, tally, options
        self.budget = CostBudget(deps.request.max_cost)
        self._window: deque[tuple[Context, int, Trial | None]] = deque()
        self._running: set[Trial] = set()
        self.stopped = False

    @property
    def open(self) -> bool:
        return bool(self._window)

    @property
    def exhausted(self) -> bool:
        return self.budget.exhausted

    @property
    def full(self) -> bool:
        return len(self._running) >= self._options.concurrency or len(self._window) >= WINDOW

    def add(self, context: Context, number: int) -> None:
        trial = None
        if not self.stopped and not self.exhausted:
            options = self._options._replace(skip_rest=False, fail_fast=False)
            work = run_trial(self._deps, context, number, options)
            trial = asyncio.ensure_future(work)
            self._running.add(trial)
        self._window.append((context, number, trial))

    async def progress(self) -> None:
        """Wait until a trial ends. When cancelled, stop all of them; without `skip_rest`, raise."""
        if not self._running:
            return
        try:
            done, self._running = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not self._options.skip_rest:
                raise
            self.stopped = True
            await self.close()
            return
        for trial in done:
            _, tally = trial.result()
            self.budget.charge(tally.spending.known_cost_usd)
            if self._options.fail_fast and tally.error_cases:
                self.stopped = True

    def take_completed(self) -> list[bytes]:
        """The results before the first trial in progress."""
        lines: list[bytes] = []
        while self._window:
            context, number, trial = self._window[0]
            if trial is not None and not trial.done():
                break
            self._window.popleft()
            if trial is None or trial.cancelled():
                lines.append(self._skip(context, number))
                continue
            line, tally = trial.result()
            self._tally.add(tally.record())
            lines.append(line)
        return lines

    def _skip(self, context: Context, number: int) -> bytes:
        scorer = self._deps.plan.scorer_for(number // self._deps.request.trials, context)
        skipped = scorer.skip_case(context, scorer.answers_in(self._tally))
        self._tally.count_case(skipped.status)
        return skipped.line

    async def close(self) -> None:
        for trial in self._running:
            trial.cancel()
        if self._running:
            await asyncio.wait(self._running)
        self._running = set()
