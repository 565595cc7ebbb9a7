"""A child run, from its dispatch to the merge of its outputs (openwop-contract §8.3, §13.3, §13.5)."""

from hashlib import sha256
from typing import Any, Literal

from msgspec import UNSET, Struct, structs

from assay.protocol.canonical import canonical
from assay.protocol.events import ErrorOf
from assay.protocol.orchestration import Attestation, ChainEvent, NodeDispatched, Phase
from assay.workflow.state.effects import AwaitChild, StartChild, stable_id
from assay.workflow.state.execution_state import Execution, RunStopped, Steps
from assay.workflow.state.interrupts import approval
from assay.workflow.state.turns import CriticResult, verify
from assay.workflow.state.verdict_gating import Verdict, combine

PHASES: dict[str, Phase] = {
    "completed": "child.completed",
    "failed": "child.failed",
    "cancelled": "child.cancelled",
}


class ChildSpec(Struct, frozen=True, kw_only=True):
    """What a child run gets, and under which conditions its outputs are merged."""

    node: str
    worker: str
    key: tuple[object, ...]  # makes its id: the child is created once, and found again
    cause: str  # the event that dispatched it
    kind: Literal["core.subWorkflow", "core.dispatch"] = "core.dispatch"
    inputs: dict[str, str] = {}  # child's variable: parent's
    values: dict[str, Any] = {}  # child's variable: its value
    outputs: dict[str, str] = {}  # parent's variable: child's
    only: str = ""  # critics see this output alone, not an object of outputs
    attest: bool = False
    approve: bool = False
    expires: float | None = None
    critics: tuple[dict[str, Any], ...] = ()
    criteria: tuple[str, ...] = ()
    gating: bool = True


class ChildResult(Struct, frozen=True, kw_only=True):
    """How a child run ended, and whether its outputs were merged."""

    run: str
    status: str
    error: str | None = None  # if it did not complete
    gave_up: bool = False  # it completed without reaching its goal
    harvest: dict[str, Any] = {}
    merged: bool = False
    verdict: Verdict | None = None
    verdicts: tuple[CriticResult, ...] = ()
    workers: tuple[str, ...] = ()  # the agents that worked in it


def child_run(execution: Execution, spec: ChildSpec) -> Steps[ChildResult]:
    """
    Start a child run, wait for it, and take its outputs.

    Each hand-off event is caused by the one before. Outputs are harvested, attested, verified and approved, and only
    then merged.
    """
    began = _chain(execution, spec, "dispatch.began", spec.cause)
    inputs = {
        child: execution.variables[parent]
        for child, parent in spec.inputs.items()
        if parent in execution.variables
    } | spec.values
    effect = StartChild(
        node=spec.node,
        child=stable_id("run", execution.run, *spec.key),
        workflow=spec.worker,
        inputs=inputs,
        cause=spec.kind,
    )
    started = yield from execution.perform(effect)
    if started.error is not None:
        error = ErrorOf(code=started.error.code, message=started.error.message)
        _chain(execution, spec, "dispatch.failed", began, error=error)
        raise RunStopped(error.code, error.message, node=spec.node, workerId=spec.worker)
    run: str = started.value["run"]
    succeeded = _chain(execution, spec, "dispatch.succeeded", began, child_run_id=run)
    dispatched = NodeDispatched(child_run_id=run, child_workflow_id=spec.worker)
    execution.emit("node.dispatched", dispatched, node=spec.node, cause=spec.cause)
    ended = yield from execution.perform(AwaitChild(node=spec.node, child=run))
    status: str = ended.value["status"]
    if status != "completed":
        error = ErrorOf(**ended.value["error"])
        _chain(execution, spec, PHASES[status], succeeded, child_run_id=run, error=error)
        return ChildResult(run=run, status=status, error=f"{error.code}: {error.message}")
    done = _chain(execution, spec, "child.completed", succeeded, child_run_id=run)
    if not ended.value.get("goalSatisfied", True):
        return ChildResult(run=run, status=status, gave_up=True)  # a run that gave up has no outputs to take
    result = yield from _take_outputs(execution, spec, run, done, ended.value["variables"])
    return structs.replace(result, workers=tuple(ended.value.get("workers", ())))


def _take_outputs(
    execution: Execution, spec: ChildSpec, run: str, completion_id: str, variables: dict[str, Any]
) -> Steps[ChildResult]:
    harvest = {name: variables[name] for name in spec.outputs.values() if name in variables}
    carrier = completion_id
    if spec.outputs:
        keys = tuple(parent for parent, child in spec.outputs.items() if child in harvest)
        proof = attestation(harvest) if spec.attest else UNSET
        carrier = _chain(
            execution,
            spec,
            "output.harvested",
            completion_id,
            child_run_id=run,
            harvested_keys=keys,
            attestation=proof,
        )
    found: list[CriticResult] = []
    for critic in spec.critics:
        one = yield from verify(
            execution,
            spec.node,
            critic,
            task=execution.variables.get("task"),
            result=harvest.get(spec.only) if spec.only else harvest,
            target=run,
            cause=carrier,
            criteria=spec.criteria,
        )
        found.append(one)
    verdict = combine(one.verdict for one in found)
    may = verdict in (None, "pass") or not spec.gating
    if may and spec.approve:
        answer = yield from approval(
            execution, spec.node, "The output of a child run", run, about="outputs", seconds=spec.expires,
            cause=carrier, actions=("accept", "edit-accept", "reject"), outputs=harvest,
        )  # fmt: skip
        may = answer.is_accepted
        if answer.action == "edit-accept":
            harvest |= {name: value for name, value in answer.value["outputs"].items() if name in harvest}
    if may:
        for parent, child in spec.outputs.items():
            if child in harvest:
                execution.set(parent, harvest[child], node=spec.node, cause=spec.cause)
    return ChildResult(
        run=run, status="completed", harvest=harvest, merged=may, verdict=verdict, verdicts=tuple(found)
    )


def attestation(outputs: dict[str, Any]) -> Attestation:
    """A digest of the outputs that a client can recompute (RFC 0063): SHA-256 over their RFC 8785 form."""
    digest = sha256(canonical(outputs).encode("utf-8", "surrogatepass")).hexdigest()
    return Attestation(checksum=digest, algorithm="sha256")


def _chain(execution: Execution, spec: ChildSpec, phase: Phase, cause: str, **more: Any) -> str:
    event = ChainEvent(phase=phase, worker_id=spec.worker, parent_run_id=execution.origin, **more)
    return execution.emit("core.workflowChain.event", event, node=spec.node, cause=cause)
