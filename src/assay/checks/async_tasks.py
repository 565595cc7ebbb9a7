"""
Tasks of worker processes for an event loop (`worker_tasks.py` has the tasks). This file is separate so that
`worker_tasks.py` does not import asyncio.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from assay.checks.worker_tasks import WorkerTask, batches
from assay.concurrency.workers import pool
from assay.concurrency.workers.batch import Batch, Outcome

Report = Callable[[Any], None]


class Submits(Protocol):
    """The worker processes of this host, or a pool of one's own."""

    def submit(self, batch: Batch, /) -> "Future[list[Outcome]]": ...


async def run_tasks_async(tasks: Sequence[WorkerTask], seconds: float | None = None) -> list[Any]:
    """`run_tasks` for an event loop. None for tasks without an answer within `seconds`."""
    answers: list[Any] = [None] * len(tasks)
    submitted = [(asyncio.wrap_future(pool.submit(batch)), places) for batch, places in batches(tasks)]
    futures = [future for future, _ in submitted]
    try:
        await asyncio.wait(futures, timeout=seconds)
    finally:
        for future in futures:
            future.cancel()
    for future, places in submitted:
        if not future.cancelled():
            for at, outcome in zip(places, future.result(), strict=True):
                answers[at] = tasks[at].to_answer(outcome)
    return answers


class TaskBatcher:
    """Batches the tasks of one turn of an event loop, and reports each answer there."""

    def __init__(self, processes: Submits = pool) -> None:
        self._loop, self._processes = asyncio.get_running_loop(), processes
        self._queue: list[tuple[WorkerTask, Report]] = []
        self._futures: set[asyncio.Future[list[Outcome]]] = set()

    def add(self, task: WorkerTask, report: Report) -> None:
        if not self._queue:
            self._loop.call_soon(self._send)
        self._queue.append((task, report))

    def close(self) -> None:
        """Cancel outstanding tasks; nothing more is reported."""
        self._queue.clear()
        for future in list(self._futures):
            future.cancel()

    def _send(self) -> None:
        new, self._queue = self._queue, []
        for batch, places in batches([work for work, _ in new]):
            future = asyncio.wrap_future(self._processes.submit(batch))
            self._futures.add(future)
            future.add_done_callback(lambda done, part=[new[at] for at in places]: self._report(done, part))

    def _report(self, future: "asyncio.Future[list[Outcome]]", part: list[tuple[WorkerTask, Report]]) -> None:
        self._futures.discard(future)
        if not future.cancelled():
            for (work, report), outcome in zip(part, future.result(), strict=True):
                report(work.to_answer(outcome))
