"""The workflows that can be started here, and the transaction that creates a run of one."""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from assay.errors import InvalidRequest, Problem
from assay.ports import CreateRun, DeleteDocument, EvidenceChunk, PutDocument, RunUpdate, Transaction
from assay.ports.audit import audit_entry as audited
from assay.ports.kinds import LOCAL_ONLY
from assay.protocol.event_record import CONTENT
from assay.protocol.redaction import redact
from assay.runs.run_names import name_documents
from assay.workflow import KIND
from assay.workflow.nodes import NODES
from assay.workflow.state.definition import Workflow, problems
from assay.workflow.state.effects import stable_id
from assay.workflow.state.execution_state import WorkflowRequest, request_chunk

INPUTS = "inputs"  # in the metadata of a run: its inputs are the content of its first event


class Library:
    """The workflows that can be started here, by id. `add` refuses one that cannot run with these node types."""

    def __init__(self, workflows: Iterable[Workflow] = (), nodes: Collection[str] = NODES) -> None:
        self._nodes = nodes
        self._workflows: dict[str, Workflow] = {}
        for workflow in workflows:
            self.add(workflow)

    def add(self, workflow: Workflow) -> None:
        if found := problems(workflow, self._nodes):
            place = f'workflows."{workflow.id}"'
            raise InvalidRequest([Problem(f"{place}.{one.place}", one.message) for one in found])
        self._workflows[workflow.id] = workflow

    def get(self, id: str) -> Workflow | None:
        return self._workflows.get(id)

    def ids(self) -> list[str]:
        return sorted(self._workflows)


def open_transaction(
    run: str,
    request: WorkflowRequest,
    tenant: str,
    holder: str | None,
    lease: float,
    documents: Iterable[PutDocument | DeleteDocument] = (),
) -> Transaction:
    """The transaction that creates a pending run for `holder`, without secrets (openwop-contract §6.5)."""
    request = msgspec.structs.replace(request, inputs=redact(request.inputs))
    evidence = [request_chunk(request)]
    metadata: dict[str, Any] = {"workflowId": request.workflow.id}
    if request.inputs:
        content = msgspec.json.encode({"inputs": request.inputs})
        evidence.append(EvidenceChunk(kind=CONTENT, key=stable_id("ev", run, 0), data=content))
        metadata[INPUTS] = True
    metadata |= {name: request.owner[name] for name in ("principal", "workspace") if name in request.owner}
    if request.parent is not None:
        metadata["parent"] = request.parent
    if request.source is not None:
        metadata |= {"source": request.source, "mode": "replay" if request.replay else "branch"}
    if request.agent_specs:
        metadata[LOCAL_ONLY] = True
    if request.traceparent:
        metadata["traceparent"] = request.traceparent
    if request.tags:
        metadata["tags"] = list(request.tags)
    opens = CreateRun(tenant=tenant, kind=KIND, name=request.workflow.id, holder=holder, seconds=lease)
    entry = RunUpdate(run=run, opens=opens, metadata=metadata, evidence=evidence)
    lines = [audited(tenant, "run.start", run)]
    named = name_documents(tenant, run, metadata)
    return Transaction(entries=[entry], documents=[*documents, *named], lines=lines)
