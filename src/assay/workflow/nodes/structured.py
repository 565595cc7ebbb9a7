"""
core.ai.structuredOutput: a model's structured answer or refusal; a replay reports if that has changed (openwop-contract
§13.4, §13.9).
"""

from typing import Any, Literal

from msgspec import UNSET

from assay.protocol.events import ProviderUsage
from assay.protocol.orchestration import EnvelopeRefusal, ReplayDivergedAtRefusal
from assay.workflow.definition import Node
from assay.workflow.effects import AskModel
from assay.workflow.execution_state import Execution, RunStopped, Steps
from assay.workflow.inputs import inputs_of


def structured_output(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    config, given = node.config, inputs_of(execution, node)
    effect = AskModel(
        node=node.id,
        provider=config.get("provider", ""),
        model=config.get("model", ""),
        messages=given.get("messages", []),
        schema=config.get("outputSchema", {}),
    )
    result = yield from execution.perform(effect)
    if result.error is not None:
        raise RunStopped(result.error.code, result.error.message, node=node.id)
    came: dict[str, Any] = result.value
    if usage := came.get("usage"):
        execution.emit("provider.usage", ProviderUsage(node_id=node.id, **usage), node=node.id)
    if original := came.get("original"):
        _compare(execution, node, came, original)
    if "refusal" in came:
        refused = EnvelopeRefusal(node_id=node.id, provider=effect.provider, model=effect.model)
        execution.emit("envelope.refusal", refused, node=node.id, refusalText=came["refusal"] or UNSET)
        raise RunStopped("envelope_refusal", "the model refused to answer", node=node.id)
    return {"output": came["value"]}


def _compare(execution: Execution, node: Node, answer: dict[str, Any], original: dict[str, Any]) -> None:
    """A refusal never replaces a recorded answer, nor an answer a recorded refusal: the replay stops."""
    kind: Literal["valid", "refusal"] = "refusal" if "refusal" in answer else "valid"
    if kind != original["kind"]:
        diverged = ReplayDivergedAtRefusal(
            source_run_id=execution.origin,
            at_sequence=original["sequence"],
            original_event_id=original["event"],
            node_id=node.id,
            original_envelope_kind=original["kind"],
            replay_envelope_kind=kind,
        )
        execution.emit("replay.divergedAtRefusal", diverged, node=node.id)
        what = f"the recorded answer was {original['kind']}, the new one is {kind}"
        raise RunStopped("replay_diverged_at_refusal", what, node=node.id)
