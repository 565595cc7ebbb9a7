"""What a check asks of a worker process instead of answering where it stands."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from assay.errors import Fault
from assay.workers import pool
from assay.workers.pool import Batch, Outcome

TOGETHER = 256  # items of one batch: several batches run at once

Report = Callable[[Any], None]


class Work(Struct, frozen=True):
    """
    A task of a worker process (`assay.workers`) and one item for it; `answer` makes the check's answer of the outcome.

    A check may give it instead of an answer. Those of many cases that have the task and `common` in common go together.
    """

    task: str
    common: bytes
    item: bytes
    seconds: float  # of processor time
    answer: Callable[[Outcome], Mapping[str, Any] | Fault]


def batches(works: Sequence[Work]) -> Iterator[tuple[Batch, list[int]]]:
    """What has its task in common, and which of the works it is."""
    groups: dict[tuple[str, bytes, float], list[int]] = {}
    for at, one in enumerate(works):
        groups.setdefault((one.task, one.common, one.seconds), []).append(at)
    for (task, common, seconds), places in groups.items():
        for first in range(0, len(places), TOGETHER):
            part = places[first : first + TOGETHER]
            yield Batch(task, [works[at].item for at in part], seconds, common=common), part


def answered(works: Iterable[Work]) -> list[Any]:
    """The answer or fault of each; this thread waits."""
    works = list(works)
    answers: list[Any] = [None] * len(works)
    asked = [(pool.submit(batch), places) for batch, places in batches(works)]
    for future, places in asked:
        for at, outcome in zip(places, future.result(), strict=True):
            answers[at] = works[at].answer(outcome)
    return answers


async def answers(works: Sequence[Work], seconds: float | None = None) -> list[Any]:
    """The same for an event loop, which goes on meanwhile; None for those that have no answer within `seconds`."""
    found: list[Any] = [None] * len(works)
    asked = [(asyncio.wrap_future(pool.submit(batch)), places) for batch, places in batches(works)]
    futures = [future for future, _ in asked]
    try:
        await asyncio.wait(futures, timeout=seconds)
    finally:
        for future in futures:
            future.cancel()
    for future, places in asked:
        if not future.cancelled():
            for at, outcome in zip(places, future.result(), strict=True):
                found[at] = works[at].answer(outcome)
    return found


class Works:
    """Works of an event loop as they come: those of one turn go together, and each is reported there."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._new: list[tuple[Work, Report]] = []
        self._asked: set[asyncio.Future[list[Outcome]]] = set()

    def add(self, work: Work, report: Report) -> None:
        if not self._new:
            self._loop.call_soon(self._send)
        self._new.append((work, report))

    def close(self) -> None:
        """Nothing more is reported."""
        self._new.clear()
        for future in list(self._asked):
            future.cancel()

    def _send(self) -> None:
        new, self._new = self._new, []
        for batch, places in batches([work for work, _ in new]):
            future = asyncio.wrap_future(pool.submit(batch))
            self._asked.add(future)
            future.add_done_callback(lambda done, part=[new[at] for at in places]: self._report(done, part))

    def _report(self, done: "asyncio.Future[list[Outcome]]", part: list[tuple[Work, Report]]) -> None:
        self._asked.discard(done)
        if not done.cancelled():
            for (work, report), outcome in zip(part, done.result(), strict=True):
                report(work.answer(outcome))
