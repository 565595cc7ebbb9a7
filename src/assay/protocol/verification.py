"""What a verified run came to, without content (contract §8.1, §8.5); and the same with what was committed, for whoever had it made."""

from typing import Any, Literal

from msgspec import Struct

CRITERION = r"^[a-z0-9][a-z0-9_.-]{0,63}\Z"  # the key of a criterion that an agent declares
Role = Literal["actor", "critic", "supervisor"]


class CriticVerdict(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A verdict. `self_verified`: who gave it is whose work it is about."""

    iteration: int
    agent_id: str
    target: str
    verdict: str
    actor_id: str | None = None
    self_verified: bool = False
    criteria: tuple[str, ...] = ()
    confidence: float | None = None


class VerificationReport(Struct, frozen=True, kw_only=True, rename="camel"):
    run_id: str
    workflow_id: str
    status: str
    goal_satisfied: bool
    committed: bool
    turns: int
    verdicts: tuple[CriticVerdict, ...] = ()
    success_criteria: tuple[dict[str, Any], ...] = ()
    waiting: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class TurnFailure(Struct, frozen=True, kw_only=True, rename="camel"):
    """Somebody who was asked and gave nothing that could be used, and why, in whatever words there were."""

    iteration: int
    agent_id: str
    role: Role
    why: str


class Verification(VerificationReport, frozen=True, kw_only=True, rename="camel"):
    """The same with its content: what was committed, who failed and why, and what a person is asked about. For whoever had it made."""

    result: Any = None
    failures: tuple[TurnFailure, ...] = ()
    asked: dict[str, Any] | None = None
