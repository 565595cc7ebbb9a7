"""The names that stored structs have in databases: they stay when a Python name changes."""

import msgspec
import pytest

from assay.agenteval.results.report import Reason
from assay.backends.stores.records.codec import EncodedMetadata
from assay.protocol.verification import TurnFailure, Verification
from assay.workflow.state.effects import EffectError, Result
from assay.workflow.state.execution_state import WorkflowRequest
from assay.workflow.state.turns import AgentTurn, CriticResult

CRITIC = {"agent": "a", "verdict": "pass", "named": ["Clear"], "met": {"clear": True}}
WORKFLOW = {"id": "w", "name": "w", "version": "1", "metadata": {}, "settings": {}} | {
    name: [] for name in ("nodes", "edges", "triggers", "variables")
}
REPORT = {
    "runId": "r",
    "workflowId": "w",
    "status": "completed",
    "goalSatisfied": True,
    "committed": True,
    "turns": 1,
}


@pytest.mark.parametrize(
    ("kind", "stored", "values"),
    [
        (EncodedMetadata, {"name": "n", "head": {"total": 1}}, {"metadata": {"total": 1}}),
        (EffectError, {"code": "c", "message": "m", "why": "r"}, {"reason": "r"}),
        (
            Result,
            {"at": "2026-01-01T00:00:00Z", "trouble": {"code": "c", "message": "m"}, "over": 7},
            {"error": EffectError("c", "m"), "timed_out_after_ms": 7},
        ),
        (
            WorkflowRequest,
            {"workflow": WORKFLOW, "given": ["m:f"], "laid": [[2, {"x": 1}]]},
            {"agent_specs": ("m:f",), "earlier_overlays": ((2, {"x": 1}),)},
        ),
        (CriticResult, CRITIC, {"agent_criteria": ("Clear",), "criteria_met": {"clear": True}}),
        (
            AgentTurn,
            {"agent": "a", "outcome": "completed", "checked": {"call-1": [CRITIC]}},
            {"tool_verdicts": {"call-1": [msgspec.convert(CRITIC, CriticResult)]}},
        ),
        (TurnFailure, {"iteration": 1, "agentId": "a", "role": "actor", "why": "r"}, {"reason": "r"}),
        (Verification, REPORT | {"asked": {"q": 1}}, {"question": {"q": 1}}),
        (Reason, {"taskId": "t", "trial": 0, "measured": True, "why": "r"}, {"message": "r"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_old_bytes_decode_and_new_ones_have_the_same_names(kind, stored, values):
    found = msgspec.json.decode(msgspec.json.encode(stored), type=kind)
    assert {name: getattr(found, name) for name in values} == values
    assert stored.keys() <= msgspec.to_builtins(found).keys()
