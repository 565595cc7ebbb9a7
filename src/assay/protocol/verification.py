"""What a verified run came to, without content (contract §8.1, §8.5); and the same with what was committed, for whoever had it made."""

from typing import Any

from msgspec import Struct


class Said(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A verdict. `self_verified`: who gave it is whose work it is about."""

    iteration: int
    agent_id: str
    target: str
    verdict: str
    actor_id: str | None = None
    self_verified: bool = False
    criteria: tuple[str, ...] = ()
    confidence: float | None = None


class Report(Struct, frozen=True, kw_only=True, rename="camel"):
    run_id: str
    workflow_id: str
    status: str
    goal_satisfied: bool
    committed: bool
    turns: int
    verdicts: tuple[Said, ...] = ()
    success_criteria: tuple[dict[str, Any], ...] = ()
    waiting: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class Verification(Report, frozen=True, kw_only=True, rename="camel"):
    """The same, with what was committed: for whoever had it made."""

    result: Any = None
