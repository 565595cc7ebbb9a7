"""Schedules checks that wait: many at a time up to a limit, each with a deadline."""

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from assay.checks.arguments import BoundCheck
from assay.checks.async_tasks import TaskBatcher
from assay.checks.checker import Checker
from assay.checks.runner import PreparedCheck, call, fault_of, prepare
from assay.checks.worker_tasks import WorkerTask
from assay.concurrency import threads
from assay.concurrency.check_threads import CheckThreads
from assay.concurrency.foreign_code import LoopBlocked, LoopWatchdog, detach_task, in_check
from assay.concurrency.parking import parking
from assay.concurrency.threads import too_many_abandoned
from assay.concurrency.workers.process_pool import Pool
from assay.errors import CostReached, Fault, ForeignFault, MalformedPath, TimeFault
from assay.fep.execution.execute import Execution
from assay.fep.execution.isolation import isolated_task
from assay.fep.planning.scorer import OpenCase, waits
from assay.jsonpath.query import stopping
from assay.protocol.results import CheckResult
from assay.results.spending import spending_of

T = TypeVar("T")
CANCEL_GRACE = 0.5  # seconds for cleanup after a deadline
INLINE_CONTEXT_BYTES = 32 * 1024  # of a context whose checks are prepared on the event loop


def resolves_inline(bound: BoundCheck, size: int) -> bool:
    """
    Whether resolving the arguments of a check is quick: a small context of `size` bytes and no path that searches.
    """
    return size <= INLINE_CONTEXT_BYTES and all(
        isinstance(path.query, MalformedPath) or path.query.singular for path in bound.paths
    )


class CheckTask:
    """One check of an open case."""

    __slots__ = ("case", "expired", "index", "parked", "prepared", "start_time", "task", "timer")

    def __init__(self, case: OpenCase, index: int) -> None:
        self.case, self.index = case, index
        self.prepared: PreparedCheck | None = None
        self.task: asyncio.Task[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.expired = False
        self.parked = 0  # its calls that wait for hours
        self.start_time = 0.0


class CheckScheduler:
    """Fills open cases with results. When stopped, by a call or by fail_fast, it skips the remaining checks."""

    def __init__(self, execution: Execution) -> None:
        options = execution.options
        self._execution, self._services = execution, execution.plan.services
        self._concurrency, self._seconds, self._fail_fast = (
            options.concurrency,
            options.seconds,
            options.fail_fast,
        )
        self._ready: deque[CheckTask] = deque()
        self._running: set[CheckTask] = set()
        self._parked: set[CheckTask] = set()  # of those that run
        self._park_outside = parking.get()  # the place of the unit whose cases these are
        self._working: set[CheckTask] = set()
        self._batcher = TaskBatcher()
        self._threads = CheckThreads(options.concurrency, options.seconds)
        self._processes = Pool(
            options.concurrency + 1, memory=0, idle=None
        )  # one more than an owner may hold
        self._isolated = TaskBatcher(self._processes)
        self._watchdog = LoopWatchdog(options.seconds, self._extend_deadlines)
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def add(self, case: OpenCase) -> None:
        """
        Run the checks that do not wait, and queue the others. If worker processes have tasks for the case, only these
        are outstanding.
        """
        for at, bound in enumerate(case.scorer.checks):
            if case.results[at] is not None:
                continue
            job = CheckTask(case, at)
            if self._execution.stopped:
                case.set_result(at, case.scorer.skip_check(at))
            elif at in case.tasks:
                self._offload(job, *case.tasks[at])
            elif waits(bound.checker):
                self._ready.append(job)
            else:
                self._run_check(job)
        self._fill_slots()

    def _offload(self, job: CheckTask, prepared: PreparedCheck, task: WorkerTask) -> None:
        """Send the task of a check to the worker processes."""
        job.prepared, job.case.started = prepared, True
        self._working.add(job)
        self._batcher.add(task, lambda answer: self._on_worker_answer(job, answer))

    def _run_check(self, job: CheckTask) -> None:
        """Run a check that does not wait: here, in a thread if it may take long, or as a task of a worker process."""
        self._working.add(job)
        services = self._services

        def prepare_and_call() -> tuple[PreparedCheck, Any]:
            prepared = prepare(job.case.scorer.checks[job.index], job.case.context.document, services)
            return prepared, call(prepared, services)

        self._execute(job, prepare_and_call, self._on_run)

    def _on_run(self, job: CheckTask, outcome: tuple[PreparedCheck, Any]) -> None:
        if job not in self._working:
            return  # stopped meanwhile
        self._working.discard(job)
        prepared, answer = outcome
        if isinstance(answer, WorkerTask):
            self._offload(job, prepared, answer)
        else:
            self._set_result(job, job.case.scorer.to_result(prepared, answer))

    def _execute(
        self, job: CheckTask, call: Callable[[], T], on_result: Callable[[CheckTask, T], None]
    ) -> None:
        """Call `call` here if it is quick, else in a thread of its owner: a path may search for a second."""
        if self._fail_fast or resolves_inline(job.case.scorer.checks[job.index], len(job.case.context.line)):
            on_result(job, call())
            return

        def run_in_span() -> T | None:
            stopping.set(lambda: self._execution.stopped)
            return None if self._execution.stopped else call()

        def on_done(future: "asyncio.Future[T | None]") -> None:
            if self._execution.stopped or future.cancelled():
                return
            if (surprise := future.exception()) is not None:
                self._fail(job, surprise)
            elif (found := future.result()) is not None:
                on_result(job, found)
            self._fill_slots()

        asyncio.wrap_future(threads.submit(run_in_span)).add_done_callback(on_done)

    def _fail(self, job: CheckTask, error: BaseException) -> None:
        """Resolving the arguments raised an unexpected exception."""
        bound = job.case.scorer.checks[job.index]
        fault = fault_of(error, bound.checker)
        self._running.discard(job)
        self._working.discard(job)
        prepared = PreparedCheck(bound, {}, fault, time.perf_counter())
        self._set_result(job, job.case.scorer.to_result(prepared, fault))

    def _on_worker_answer(self, job: CheckTask, answer: Any) -> None:
        if job in self._working and job.prepared is not None:
            self._working.discard(job)
            self._set_result(job, job.case.scorer.to_result(job.prepared, answer))

    @property
    def busy(self) -> bool:
        """Whether more cases would only wait."""
        return self._slots_used >= self._concurrency and len(self._ready) >= self._concurrency

    @property
    def _slots_used(self) -> int:
        return len(self._running) - len(self._parked)

    def _park(self, job: CheckTask, change: int) -> None:
        """A call of a check begins or ends to wait for hours: meanwhile it has no slot and no deadline."""
        job.parked += change
        if self._park_outside is not None:
            self._park_outside(change)
        if job.parked and job in self._running:
            self._parked.add(job)
            if job.timer is not None:
                job.timer.cancel()
            self._fill_slots()
            self._changed.set()  # more cases may begin
        else:
            self._parked.discard(job)
            if job.timer is not None and job in self._running:
                job.timer = self._loop.call_later(self._seconds, self._expire, job)

    async def progress(self) -> None:
        """Wait until a case has a new result."""
        self._changed.clear()
        await self._changed.wait()

    def stop(self) -> None:
        """Skip all checks that run or wait. Completed results stay."""
        self._execution.stopped = True
        self._batcher.close()
        self._isolated.close()
        for job in [*self._running, *self._ready, *self._working]:
            _cancel(job)
            job.case.set_result(job.index, job.case.scorer.skip_check(job.index))
        self._working.clear()
        self._running.clear()
        self._parked.clear()
        self._ready.clear()
        self._changed.set()

    def close(self) -> None:
        self.stop()
        self._threads.close()
        self._processes.close()
        self._watchdog.close()

    def _fill_slots(self) -> None:
        while self._ready and self._slots_used < self._concurrency:
            job = self._ready.popleft()
            if self._execution.cost_budget.exhausted and not job.case.started:
                self._skip(job)
            else:
                self._start(job)

    def _skip(self, job: CheckTask) -> None:
        job.case.is_skipped = True
        job.case.set_result(job.index, job.case.scorer.skip_check(job.index))
        self._changed.set()

    def _start(self, job: CheckTask) -> None:
        bound, context = job.case.scorer.checks[job.index], job.case.context
        self._running.add(job)
        job.case.started = True

        def prepare_check() -> tuple[PreparedCheck, Checker | WorkerTask | Fault]:
            check = prepare(bound, context.document, self._services)
            ready = check.ready
            if isinstance(ready, Fault) or not ready.isolate:
                return check, ready
            return check, isolated_task(ready, self._seconds)

        self._execute(job, prepare_check, self._on_prepared)

    def _on_prepared(
        self, job: CheckTask, prepared: tuple[PreparedCheck, Checker | WorkerTask | Fault]
    ) -> None:
        if job not in self._running:
            return  # stopped meanwhile
        check, ready = prepared
        job.prepared = check
        job.start_time = time.perf_counter()
        if isinstance(ready, Fault):
            self._finish(job, ready)
        elif isinstance(ready, WorkerTask):
            self._isolated.add(ready, lambda answer: self._on_answer(job, answer))
        elif inspect.iscoroutinefunction(ready.run):
            self._await_answer(job, None)
        elif (full := too_many_abandoned()) is not None:
            self._finish(job, full)
        else:
            services = self._services
            self._threads.submit(lambda: call(check, services), lambda answer: self._on_answer(job, answer))

    def _await_answer(self, job: CheckTask, answer: Any) -> None:
        """
        Await an answer; without one, call the check first. The deadline holds even if the check ignores cancellation.
        """
        self._watchdog.start()
        job.task = asyncio.ensure_future(self._answer(job, answer))
        job.task.add_done_callback(lambda task: self._on_task_done(job, task))
        if not job.case.scorer.checks[job.index].checker.keeps_time:
            job.timer = self._loop.call_later(self._seconds, self._expire, job)

    async def _answer(self, job: CheckTask, answer: Any) -> Any:
        assert job.prepared is not None
        in_check.set(True)
        parking.set(partial(self._park, job))
        try:
            result = call(job.prepared, self._services) if answer is None else answer
            return await result if inspect.isawaitable(result) else result
        except SystemExit as surprise:  # a task would re-raise it and end the loop
            return fault_of(surprise, job.prepared.bound.checker)

    def _on_task_done(self, job: CheckTask, task: asyncio.Task[Any]) -> None:
        job.task = None  # its context has `parking`, which has this job: a cycle
        checker = job.case.scorer.checks[job.index].checker
        surprise = None if task.cancelled() else task.exception()
        if job.expired:
            answer = TimeFault(f"no answer within {self._seconds:g} s")
        elif task.cancelled():
            answer = ForeignFault(f"{checker.type} cancelled itself")
        elif isinstance(surprise, LoopBlocked):
            answer = TimeFault(
                f"no answer within {self._seconds:g} s: the check blocks the event loop instead of awaiting"
            )
        else:
            answer = task.result() if surprise is None else fault_of(surprise, checker)
        self._on_answer(job, answer)

    def _expire(self, job: CheckTask) -> None:
        """Cancel a late check; detach it if it has not ended after CANCEL_GRACE."""
        assert job.task is not None
        if job.expired:
            detach_task(job.task)
            self._on_answer(
                job, TimeFault(f"no answer within {self._seconds:g} s, and the check ignores cancellation")
            )
        else:
            job.expired = True
            job.task.cancel()
            job.timer = self._loop.call_later(CANCEL_GRACE, self._expire, job)

    def _extend_deadlines(self) -> None:
        """Restart all deadlines: the blocked loop took time from the other checks."""
        for job in self._running - self._parked:
            if job.timer is not None:
                job.timer.cancel()
                job.timer = self._loop.call_later(self._seconds, self._expire, job)

    def _on_answer(self, job: CheckTask, answer: Any) -> None:
        if job not in self._running:
            return  # stopped meanwhile
        if inspect.isawaitable(answer):  # a synchronous run that returned an awaitable
            self._await_answer(job, answer)
            return
        if isinstance(answer, CostReached) and self._execution.options.max_cost is not None:
            self._running.discard(job)
            self._skip(job)
        else:
            self._finish(job, answer)
        self._fill_slots()

    def _finish(self, job: CheckTask, answer: Any) -> None:
        assert job.prepared is not None
        self._running.discard(job)
        if job.timer is not None:
            job.timer.cancel()
        seconds = time.perf_counter() - job.start_time
        result = job.case.scorer.to_result(job.prepared, answer, seconds=seconds)
        self._set_result(job, result)

    def _set_result(self, job: CheckTask, result: CheckResult) -> None:
        job.case.set_result(job.index, result)
        self._execution.cost_budget.charge(spending_of(result).known_cost_usd)
        self._changed.set()
        if result.status == "error" and self._fail_fast:
            self.stop()


def _cancel(job: CheckTask) -> None:
    if job.timer is not None:
        job.timer.cancel()
    if job.task is not None:
        job.task.cancel()
