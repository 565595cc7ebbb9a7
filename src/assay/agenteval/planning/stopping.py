"""An eval that stops when it has decided: its tasks are in a random order, and each round is looked at (ADR-0239)."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from assay.protocol.events import EvalScored
from assay.results.last_look import LastLook
from assay.stats.sequential import round_size
from assay.stats.stopping import BarLooks, DifferenceLooks, Look

T = TypeVar("T")


class EvalUntil(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What is decided: the difference to the scores of a baseline, by task, or the share of passed tasks against a bar.

    `seed`: of the order of the tasks.
    """

    seed: int = 0
    bar: float | None = None
    margin: float | None = None
    baseline: str = ""  # the run that the scores are of
    scores: dict[str, float] = {}

    def shuffled(self, tasks: Sequence[T]) -> tuple[T, ...]:
        """The tasks in the order of this seed."""
        order = list(tasks)
        random.Random(self.seed).shuffle(order)  # noqa: S311  # an order, not a secret
        return tuple(order)


class EvalRounds:
    """The tasks that have ended, and a look after each round. Equal results have equal looks, also after a restart."""

    def __init__(self, until: EvalUntil, order: Sequence[str]) -> None:
        self._until, self._order = until, order
        self._looks = DifferenceLooks(until.margin) if until.bar is None else BarLooks(until.bar)
        self._ended: dict[str, EvalScored | None] = {}
        self._news = asyncio.Event()
        self.size = round_size(len(order))
        self.looked = 0  # tasks
        self.last: LastLook | None = None

    def end_task(self, id: str, scored: EvalScored | None) -> None:
        """A task has a score, or all its trials ended and it could not be measured."""
        self._ended[id] = scored
        self._news.set()

    async def decided(self, tasks: int) -> bool:
        """Wait until so many tasks have ended, look, and return whether the run has decided."""
        while not all(id in self._ended for id in self._order[self.looked : tasks]):
            self._news.clear()
            await self._news.wait()
        self.look(tasks)
        return self.has_decided

    def look_at_all(self) -> None:
        """Look at the last round, if all its tasks have ended."""
        if not self.has_decided and len(self._ended) == len(self._order):
            self.look(len(self._order))

    @property
    def has_decided(self) -> bool:
        return self.last is not None and self.last.look.decision is not None

    def look(self, tasks: int) -> None:
        """Look at the first tasks of the order. Later ones that have ended are not seen."""
        seen = self._order[:tasks]
        scored = {id: found for id in seen if (found := self._ended.get(id)) is not None}
        missing = [id for id in seen if id not in scored]
        self.looked = tasks
        self.last = LastLook(
            look=self._look(scored, missing),
            bar=self._until.bar,
            rounds=-(-tasks // self.size),
            cases=tasks,
            total=len(self._order),
        )

    def _look(self, scored: Mapping[str, EvalScored], missing: Sequence[str]) -> Look:
        scores = self._until.scores
        if isinstance(self._looks, BarLooks):
            passed = (float(one.passed) for one in scored.values())
            return self._looks.look("passed", passed, ((0.0, 1.0) for _ in missing))
        changes = (one.score - scores[id] for id, one in scored.items() if id in scores)
        ranges = ((-scores[id], 1.0 - scores[id]) for id in missing if id in scores)
        return self._looks.look("score", changes, ranges)
