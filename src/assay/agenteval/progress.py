"""What is under way just now, for whoever looks on: it is in no log, and says nothing of what it is about (contract §5.1)."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

import msgspec
from msgspec import Struct

Tell = Callable[[str, bytes], None]  # of a run, what is told


class Step(Struct, frozen=True, kw_only=True, rename="camel"):
    """A trial of a task begins, or has come back; its score is recorded after that."""

    run_id: str
    task_id: str
    trial: int
    state: Literal["started", "ended"]


class Progress:
    """One process's; nobody listens until somebody does."""

    def __init__(self) -> None:
        self.tell: Tell | None = None

    @contextmanager
    def of(self, run: str, task_id: str, trial: int) -> Generator[None]:
        self._say(Step(run_id=run, task_id=task_id, trial=trial, state="started"))
        try:
            yield
        finally:
            self._say(Step(run_id=run, task_id=task_id, trial=trial, state="ended"))

    def _say(self, step: Step) -> None:
        if self.tell is not None:
            self.tell(step.run_id, _encode(step))


_encode = msgspec.json.Encoder().encode
