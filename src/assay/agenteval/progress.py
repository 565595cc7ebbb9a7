"""What is under way just now, for whoever looks on: it is in no log, and says nothing of what it is about (contract §5.1)."""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from assay.agenteval.run_header import KIND
from assay.ports import Event, Run
from assay.protocol.event_record import decode_event
from assay.protocol.events import EvalScored, TrialEnded

Tell = Callable[[str, bytes], None]  # of a run, what is told
_encode = msgspec.json.Encoder().encode


class ProgressStep(Struct, frozen=True, kw_only=True, rename="camel"):
    """A trial of a task begins, or has come back and is recorded."""

    run_id: str
    task_id: str
    trial: int
    state: Literal["started", "ended"]


class EvalProgress:
    """What begins, one process's; nobody listens until somebody does."""

    def __init__(self) -> None:
        self.tell: Tell | None = None

    def began(self, run: str, task_id: str, trial: int) -> None:
        if self.tell is not None:
            self.tell(run, _encode(ProgressStep(run_id=run, task_id=task_id, trial=trial, state="started")))


def progress_of(run: Run, event: Event) -> bytes | None:
    """What an event of the log says of that; so it is the same in every process."""
    ended = None
    if run.kind == KIND and event.type == "assay.trial.ended":
        ended = msgspec.json.decode(decode_event(event.data).payload, type=TrialEnded)
    elif run.kind == KIND and event.type == "eval.scored" and run.head.get("trials", 1) == 1:
        ended = msgspec.json.decode(decode_event(event.data).payload, type=EvalScored)
    if ended is None:
        return None
    trial = ended.trial if isinstance(ended, TrialEnded) else 0
    return _encode(ProgressStep(run_id=run.id, task_id=ended.task_id, trial=trial, state="ended"))
