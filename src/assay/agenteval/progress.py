"""
Live progress of eval runs for clients that follow them (openwop-contract §5.1). It is not logged and has no content.
"""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from assay.agenteval.run_header import KIND
from assay.ports import Event, Run
from assay.protocol.event_record import decode_event
from assay.protocol.events import EvalScored, TrialEnded

Tell = Callable[[str, bytes], None]  # takes a run and a progress document
_encode = msgspec.json.Encoder().encode


class ProgressStep(Struct, frozen=True, kw_only=True, rename="camel"):
    """A trial of a task has started, or its result is recorded."""

    run_id: str
    task_id: str
    trial: int
    state: Literal["started", "ended"]


class EvalProgress:
    """Reports trials that start in this process. Until a listener is set, reports are dropped."""

    def __init__(self) -> None:
        self.tell: Tell | None = None

    def start_trial(self, run: str, task_id: str, trial: int) -> None:
        if self.tell is not None:
            self.tell(run, _encode(ProgressStep(run_id=run, task_id=task_id, trial=trial, state="started")))


def progress_of(run: Run, event: Event) -> bytes | None:
    """The progress that an event of the log means; the same in every process."""
    ended = None
    if run.kind == KIND and event.type == "assay.trial.ended":
        ended = msgspec.json.decode(decode_event(event.data).payload, type=TrialEnded)
    elif run.kind == KIND and event.type == "eval.scored" and run.metadata.get("trials", 1) == 1:
        ended = msgspec.json.decode(decode_event(event.data).payload, type=EvalScored)
    if ended is None:
        return None
    trial = ended.trial if isinstance(ended, TrialEnded) else 0
    return _encode(ProgressStep(run_id=run.id, task_id=ended.task_id, trial=trial, state="ended"))
