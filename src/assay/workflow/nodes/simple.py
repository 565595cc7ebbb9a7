"""Simple nodes: noop, identity, delay, fail, and the approval gate (openwop-contract §11)."""

from typing import Any, Literal

from msgspec import UNSET

from assay.protocol.events import ProviderUsage
from assay.protocol.orchestration import EnvelopeRefusal, ReplayDivergedAtRefusal
from assay.workflow.state.definition import Node
from assay.workflow.state.effects import AskModel, Delay
from assay.workflow.state.execution_state import Execution, RunStopped, Steps
from assay.workflow.state.interrupts import approval, require_accepted
from assay.workflow.state.turns import USABLE, invocation, invoke_agent

LONGEST = 60_000  # milliseconds


def noop(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    yield from ()
    return {}


def identity(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    """The inputs of the node. If it binds the channel of an agent, the agent gets them (RFC 0082 §B)."""
    inputs = inputs_of(execution, node)
    if node.channel is not None:
        turn = yield from invoke_agent(execution, node.id, node.agent_id or "", inputs, channel=node.channel)
        with invocation(execution, node.id, turn):
            pass
        if turn.outcome not in USABLE:
            raise RunStopped("agent_failed", f"the agent's turn ended as {turn.outcome}", node=node.id)
    return inputs


def delay(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    ms = inputs_of(execution, node).get("delayMs", node.config.get("delayMs", 0))
    if not isinstance(ms, int | float) or isinstance(ms, bool) or not 0 <= ms <= LONGEST:
        raise RunStopped("validation_error", f"delayMs: expected a number from 0 to {LONGEST}", node=node.id)
    yield from execution.perform(Delay(node=node.id, ms=ms))
    return {}


def fail(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    yield from ()
    raise RunStopped("node_failed", "this node always fails", node=node.id)


def approval_gate(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    answer = yield from approval(
        execution,
        node.id,
        node.config.get("title", node.name),
        node.id,
        actions=tuple(node.config.get("actions", ("accept", "reject"))),
        seconds=node.config.get("expiresSeconds"),
    )
    require_accepted(execution, answer, "the gate", node.id)
    return {"action": answer.action}


# The inputs of a node: the values of its ports (`PortValue`), from constants, variables and earlier nodes.


def inputs_of(execution: Execution, node: Node) -> dict[str, Any]:
    """By port. A variable that is not set, or a node without that output, leaves its port absent."""
    inputs: dict[str, Any] = {}
    for name, port in node.inputs.items():
        match port:
            case {"type": "static", "value": value}:
                inputs[name] = value
            case {"type": "variable", "variableName": variable}:
                if variable in execution.variables:
                    inputs[name] = execution.variables[variable]
            case {"type": "connection", "nodeId": source, "outputKey": key}:
                if key in (outputs := execution.outputs.get(source, {})):
                    inputs[name] = outputs[key]
            case _:
                what = f"the input {name!r} has a type that is not supported"
                raise RunStopped("validation_error", what, node=node.id)
    return inputs


# core.ai.structuredOutput: a model's structured answer or refusal; a replay reports if that has changed
# (openwop-contract §13.4, §13.9).


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
