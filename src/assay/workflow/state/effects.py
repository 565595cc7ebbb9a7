"""
The effects that a workflow requests, and their results. Between two effects it only computes.

A run is a function of its definition, its request and these results. Replaying the recorded results restores it, event
by event.
"""

from datetime import datetime
from hashlib import blake2s
from typing import Any, Literal

from msgspec import Struct, field

Actions = tuple[str, ...]
About = Literal["gate", "result", "retry", "decision", "outputs", "question"]


class Effect(Struct, frozen=True, kw_only=True, tag_field="effect"):
    node: str = ""  # that requests it


class Begin(Effect, frozen=True, kw_only=True, tag="begin"):
    """Records the start time; has no side effect."""


class Delay(Effect, frozen=True, kw_only=True, tag="delay"):
    ms: float


class Wait(Effect, frozen=True, kw_only=True, tag="wait"):
    """Waits for a person, who decides `about`: the run rests. After `deadline` no answer is a rejection."""

    kind: Literal["approval", "clarification", "low-confidence"]
    interrupt: str
    about: About = "gate"
    actions: Actions = ("accept", "reject")
    deadline: datetime | None = None


class Invoke(Effect, frozen=True, kw_only=True, tag="invoke"):
    """An agent's turn. With `critics`, the answers of its tools are verified before the agent gets them."""

    agent: str
    task: Any
    invocation: str
    critics: tuple[dict[str, Any], ...] = ()
    criteria: tuple[str, ...] = ()
    gating: bool = True
    memory: str | None = None
    channel: str | None = None  # of a deployment
    version: str | None = None  # that the run has resolved the channel to before


class Verify(Effect, frozen=True, kw_only=True, tag="verify"):
    """A critic's turn about one target."""

    critic: dict[str, Any]
    task: Any
    result: Any
    target: str
    criteria: tuple[str, ...]
    invocation: str


class StartChild(Effect, frozen=True, kw_only=True, tag="start-child"):
    child: str
    workflow: str
    inputs: dict[str, Any]
    cause: Literal["core.subWorkflow", "core.dispatch"]


class AwaitChild(Effect, frozen=True, kw_only=True, tag="await-child"):
    child: str


class AskModel(Effect, frozen=True, kw_only=True, tag="ask"):
    """A model call whose answer has a schema."""

    provider: str
    model: str
    messages: list[dict[str, Any]]
    schema: dict[str, Any]


AnyEffect = Begin | Delay | Wait | Invoke | Verify | StartChild | AwaitChild | AskModel


class EffectError(Struct, frozen=True):
    """An effect that failed. `message` has no content; `reason` may have some, for the owner of the run alone."""

    code: str
    message: str
    reason: str = field(default="", name="why")


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of an effect. `timed_out_after_ms`: the run's time was up, this many milliseconds after its start."""

    at: datetime
    value: Any = None
    error: EffectError | None = field(default=None, name="trouble")
    timed_out_after_ms: int | None = field(default=None, name="over")


class StepRecord(Struct, frozen=True, kw_only=True):
    """A recorded step: evidence of the kind `step`, by its number."""

    effect: AnyEffect
    result: Result
    events: int  # of the run so far, including those of this step


def stable_id(prefix: str, *parts: object) -> str:
    """An id that depends only on its parts."""
    return f"{prefix}-{blake2s(repr(parts).encode(), digest_size=12).hexdigest()}"
