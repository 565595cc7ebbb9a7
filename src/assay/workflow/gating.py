"""What follows from a verdict (RFC 0090 §B, contract §8.2), and when a run has reached its goal (§8.5)."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Verdict = Literal["pass", "fail", "revise"]
Step = Literal["commit", "retry", "breach", "escalate"]
VERDICTS: tuple[Verdict, ...] = ("fail", "revise", "pass")  # the worst first


def after(verdict: Verdict | None, *, turn: int, max_turns: int, gating: bool) -> Step:
    """
    Commit, take another actor turn, stop at the bound, or hand it to a person.

    Only a gating host is bound by a verdict; on any other it is an observation. Where nobody gave one, nothing gates.
    """
    if verdict in (None, "pass") or not gating:
        return "commit"
    if verdict == "revise":
        return "retry" if turn < max_turns else "breach"
    return "escalate"


def combined(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Of several critics over one target the strictest: fail, then revise, then pass; None where there is none."""
    given = set(verdicts)
    return next((verdict for verdict in VERDICTS if verdict in given), None)


def below(confidence: float | None, floor: float | None) -> bool:
    """Whether it is too unsure to go on without a person. Who says nothing has no opinion."""
    return confidence is not None and floor is not None and confidence < floor


def goal_satisfied(status: str, decision: Mapping[str, Any] | None, verdict: Verdict | None = None) -> bool:
    """
    Whether a run reached its goal: it completed, its last decision did not give up, and its last verdict, if it has one, is a pass.

    A `terminate` with any `met: false` is a give-up, however the run ended. A workflow in which nobody decides has no other goal than its end.
    """
    if status != "completed" or verdict not in (None, "pass"):
        return False
    criteria = (decision or {}).get("successCriteria", ())
    return all(criterion["met"] for criterion in criteria)
