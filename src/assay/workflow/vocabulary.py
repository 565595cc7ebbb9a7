"""The keys of criteria that events may hold (contract §8.1): a closed vocabulary, since a key of an agent's own may be any text."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from assay.protocol.json_types import is_object
from assay.protocol.verification import CRITERION
from assay.workflow.definition import Workflow

KEY = re.compile(CRITERION)
UNDECLARED = "undeclared"  # stands for all keys that no operator wrote down
VERIFIED, VERDICT = "verified", "verdict"  # of the plain rule
RULE_KEYS = frozenset({VERIFIED, VERDICT, UNDECLARED})


def event_keys(
    named: Iterable[str], configured: Collection[str], declared: Collection[str] = ()
) -> tuple[str, ...]:
    """
    Keys as an event may hold them, in their order and each once.

    `configured` are the loop's, `declared` the agent's own by its settings; any other is `undeclared`.
    """
    return tuple(dict.fromkeys(event_key(key, configured, declared) for key in named))


def event_key(key: str, configured: Collection[str], declared: Collection[str]) -> str:
    return key if key in configured or (key in declared and KEY.fullmatch(key)) else UNDECLARED


def configured_keys(workflow: Workflow) -> frozenset[str]:
    """All that the nodes of a workflow are configured with."""
    found = set(RULE_KEYS)
    for node in workflow.nodes:
        for table in (node.config, node.settings):
            if is_object(table):
                found.update(table.get("criteria", ()))
    return frozenset(found)


def closed_decision(
    decision: Mapping[str, Any], configured: Collection[str], declared: Collection[str]
) -> dict[str, Any]:
    """A decision whose success criteria have keys of the vocabulary; several that have none are one, and met if all are."""
    if "successCriteria" not in decision:
        return dict(decision)
    met: dict[str, bool] = {}
    for one in decision["successCriteria"]:
        key = event_key(one["key"], configured, declared)
        met[key] = met.get(key, True) and one["met"]
    return {**decision, "successCriteria": [{"key": key, "met": held} for key, held in met.items()]}
