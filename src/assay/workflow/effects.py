"""
What a workflow asks of the world, and what comes back. Between two of these it only thinks.

A run is a function of its definition, its request and these results: kept, they bring it back to where it was, event by event.
"""

from datetime import datetime
from hashlib import blake2s
from typing import Any, Literal

from msgspec import Struct

Actions = tuple[str, ...]
About = Literal["gate", "result", "retry", "decision", "outputs", "question"]


class Effect(Struct, frozen=True, kw_only=True, tag_field="effect"):
    node: str = ""  # on whose behalf


class Begin(Effect, frozen=True, kw_only=True, tag="begin"):
    """Nothing but the time."""


class Delay(Effect, frozen=True, kw_only=True, tag="delay"):
    ms: float


class Wait(Effect, frozen=True, kw_only=True, tag="wait"):
    """For a person: the run rests. `about` is what they are asked, `deadline` when silence becomes a refusal."""

    kind: Literal["approval", "clarification", "low-confidence"]
    interrupt: str
    about: About = "gate"
    actions: Actions = ("accept", "reject")
    deadline: datetime | None = None


class Invoke(Effect, frozen=True, kw_only=True, tag="invoke"):
    """An agent's turn. With `critics`, what its tools answer is verified before it is used."""

    agent: str
    task: Any
    invocation: str
    critics: tuple[dict[str, Any], ...] = ()
    criteria: tuple[str, ...] = ()
    gating: bool = True
    memory: str | None = None


class Verify(Effect, frozen=True, kw_only=True, tag="verify"):
    """A critic's turn over one target."""

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
    """A model, for an answer in a form."""

    provider: str
    model: str
    messages: list[dict[str, Any]]
    schema: dict[str, Any]


AnyEffect = Begin | Delay | Wait | Invoke | Verify | StartChild | AwaitChild | AskModel


class EffectError(Struct, frozen=True):
    """An effect that did not come about. The words hold no content; `why` may, and is its owner's."""

    code: str
    message: str
    why: str = ""


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came back, and when; `over` milliseconds after the start, if the run had to stop there."""

    at: datetime
    value: Any = None
    trouble: EffectError | None = None
    over: int | None = None


class StepRecord(Struct, frozen=True, kw_only=True):
    """One step as it is kept: evidence of the kind `step`, by its number."""

    effect: AnyEffect
    result: Result
    events: int  # how many the run had when it was recorded, its own included


def stable_id(prefix: str, *parts: object) -> str:
    """An id that is the same whenever it is made of the same parts."""
    return f"{prefix}-{blake2s(repr(parts).encode(), digest_size=12).hexdigest()}"
