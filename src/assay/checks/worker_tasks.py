"""Tasks that a check gives to a worker process instead of answering in place."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from assay.concurrency.workers import pool
from assay.concurrency.workers.batch import Batch, Outcome
from assay.errors import Fault

BATCH_ITEMS = 256  # items of one batch: several batches run at once


class WorkerTask(Struct, frozen=True):
    """
    A task of a worker process (`assay.concurrency.workers`) and one item for it; `to_answer` converts the outcome to the check's
    answer.

    A check may return it instead of an answer. Tasks of many cases with the same function and `common` run in one
    batch.
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
