"""Tasks that a check gives to a worker process instead of answering in place."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from assay.errors import Fault
from assay.workers import pool
from assay.workers.pool import Batch, Outcome

BATCH_ITEMS = 256  # items of one batch: several batches run at once

Report = Callable[[Any], None]


class WorkerTask(Struct, frozen=True):
    """
    A task of a worker process (`assay.workers`) and one item for it; `answer` converts the outcome to the check's answer.

    A check may return it instead of an answer. Tasks of many cases with the same function and `common` run in one batch.
    """

    task: str
    common: bytes
    item: bytes
    seconds: float  # of processor time
    to_answer: Callable[[Outcome], Mapping[str, Any] | Fault]


def batches(tasks: Sequence[WorkerTask]) -> Iterator[tuple[Batch, list[int]]]:
    """Batches of tasks with the same function and common argument, each with the indexes of its tasks."""
    groups: dict[tuple[str, bytes, float], list[int]] = {}
    for at, one in enumerate(tasks):
        groups.setdefault((one.task, one.common, one.seconds), []).append(at)
    for (task, common, seconds), indexes in groups.items():
        for first in range(0, len(indexes), BATCH_ITEMS):
            part = indexes[first : first + BATCH_ITEMS]
            yield Batch(task, [tasks[at].item for at in part], seconds, common=common), part


def run_tasks(tasks: Iterable[WorkerTask]) -> list[Any]:
    """The answer or fault of each task; the thread blocks."""
    tasks = list(tasks)
    answers: list[Any] = [None] * len(tasks)
    futures = [(pool.submit(batch), places) for batch, places in batches(tasks)]
    for future, places in futures:
        for at, outcome in zip(places, future.result(), strict=True):
            answers[at] = tasks[at].to_answer(outcome)
    return answers


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

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
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
            future = asyncio.wrap_future(pool.submit(batch))
            self._futures.add(future)
            future.add_done_callback(lambda done, part=[new[at] for at in places]: self._report(done, part))

    def _report(self, future: "asyncio.Future[list[Outcome]]", part: list[tuple[WorkerTask, Report]]) -> None:
        self._futures.discard(future)
        if not future.cancelled():
            for (work, report), outcome in zip(part, future.result(), strict=True):
                report(work.to_answer(outcome))
