"""
The criterion keys that events may hold (openwop-contract §8.1): a closed vocabulary, because an agent's own key may be
any text.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from assay.protocol.json_types import is_object
from assay.protocol.verification import CRITERION
from assay.workflow.definition import Workflow

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
