"""
What a verdict gates (RFC 0090 §B, openwop-contract §8.2), and when a run has reached its goal (openwop-contract §8.5).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Verdict = Literal["pass", "fail", "revise"]
Step = Literal["commit", "retry", "breach", "escalate"]
VERDICTS: tuple[Verdict, ...] = ("fail", "revise", "pass")  # the worst first


def next_step(verdict: Verdict | None, *, turn: int, max_turns: int, gating: bool) -> Step:
    """
    The next step after a verdict: commit, another turn of the actor, stop at the limit, or ask a person.

    Without gating a verdict is only an observation. Without a verdict, the result is committed.
    """
    if verdict in (None, "pass") or not gating:
        return "commit"
    if verdict == "revise":
        return "retry" if turn < max_turns else "breach"
    return "escalate"


def combine(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The strictest of several verdicts: fail, then revise, then pass. None: there is no verdict."""
    present = set(verdicts)
    return next((verdict for verdict in VERDICTS if verdict in present), None)


def is_below(confidence: float | None, minimum: float | None) -> bool:
    """Whether a person must decide. An agent that gives no confidence is never below the floor."""
    return confidence is not None and minimum is not None and confidence < minimum


def goal_satisfied(status: str, decision: Mapping[str, Any] | None, verdict: Verdict | None = None) -> bool:
    """
    Whether a run reached its goal: it completed, its last decision did not give up, and its last verdict, if it has
    one, is a pass.

    A `terminate` with any `met: false` gives up, however the run ended. A workflow without a supervisor reaches its
    goal when it completes.
    """
    if status != "completed" or verdict not in (None, "pass"):
        return False
    criteria = (decision or {}).get("successCriteria", ())
    return all(criterion["met"] for criterion in criteria)
