"""What a verdict gates (RFC 0090 §B), and when a run is at its goal (openwop-contract §8.2, openwop-contract §8.5)."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from assay.protocol.json_types import is_object
from assay.protocol.verification import CRITERION
from assay.workflow.state.definition import Workflow

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


# The criterion keys that events may hold (openwop-contract §8.1): a closed vocabulary, because an agent's own key
# may be any text.

KEY = re.compile(CRITERION)
UNDECLARED = "undeclared"  # replaces every key that no operator configured
VERIFIED, VERDICT = "verified", "verdict"  # keys of the rule that decides without a supervisor agent
RULE_KEYS = frozenset({VERIFIED, VERDICT, UNDECLARED})


def event_keys(
    keys: Iterable[str], loop_keys: Collection[str], agent_keys: Collection[str] = ()
) -> tuple[str, ...]:
    """
    The keys for an event, in order, each once.

    `loop_keys` are the keys of the loop, `agent_keys` those that the agent's settings declare. Any other becomes
    `undeclared`.
    """
    return tuple(dict.fromkeys(event_key(key, loop_keys, agent_keys) for key in keys))


def event_key(key: str, loop_keys: Collection[str], agent_keys: Collection[str]) -> str:
    return key if key in loop_keys or (key in agent_keys and KEY.fullmatch(key)) else UNDECLARED


def configured_keys(workflow: Workflow) -> frozenset[str]:
    """All keys in the configuration of a workflow's nodes."""
    found = set(RULE_KEYS)
    for node in workflow.nodes:
        for table in (node.config, node.settings):
            if is_object(table):
                found.update(table.get("criteria", ()))
    return frozenset(found)


def closed_decision(
    decision: Mapping[str, Any], loop_keys: Collection[str], agent_keys: Collection[str]
) -> dict[str, Any]:
    """The decision with keys of the vocabulary. Criteria that become `undeclared` are merged: met if all are."""
    if "successCriteria" not in decision:
        return dict(decision)
    met: dict[str, bool] = {}
    for one in decision["successCriteria"]:
        key = event_key(one["key"], loop_keys, agent_keys)
        met[key] = met.get(key, True) and one["met"]
    return {**decision, "successCriteria": [{"key": key, "met": held} for key, held in met.items()]}
