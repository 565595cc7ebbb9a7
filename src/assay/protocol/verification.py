"""The report of a verifier loop, without content (openwop-contract §8.1, §8.5), and the full result for its caller."""

from typing import Any, Literal

from msgspec import Struct, field

CRITERION = r"^[a-z0-9][a-z0-9_.-]{0,63}\Z"  # the key of an agent's criterion
Role = Literal["actor", "critic", "supervisor"]


class CriticVerdict(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A verdict. `self_verified`: the agent reviewed its own work."""

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
    """An agent's turn without a usable answer, and the reason."""

    iteration: int
    agent_id: str
    role: Role
    reason: str = field(name="why")


class Verification(VerificationReport, frozen=True, kw_only=True, rename="camel"):
    """The report with its content: the committed result, the failures, and the question for a person."""

    result: Any = None
    failures: tuple[TurnFailure, ...] = ()
    question: dict[str, Any] | None = field(default=None, name="asked")
