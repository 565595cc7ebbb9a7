"""Schemas of OpenWOP's requests and responses. Of open objects they list the required members (contract §1.1, §3.3, §7.7, §9.1)."""

from typing import Any

from assay.agenteval.detail import EvalDetail
from assay.agenteval.suite_store import SuiteEntry
from assay.protocol import annotations, runs, scorecard, suite, verification
from assay.serve.web.openapi import components


def _list(of: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{of}"}}


def _open(*required: str, **members: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": members}


TEXT: dict[str, Any] = {"type": "string"}
_OPEN: dict[str, Any] = {
    "Capabilities": _open("protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"),
    "Channels": _open("asyncapi", "channels", "components"),
    "RunSnapshot": _open("runId", "workflowId", "status", runId=TEXT, workflowId=TEXT, status=TEXT),
    "WorkflowDefinition": _open(
        "id", "name", "version", "nodes", "edges", "triggers", "variables", "metadata", "settings"
    ),
    "Ancestry": _open("runId", "hostId", "parent", runId=TEXT, hostId=TEXT),
    "RunDiff": _open("a", "b", "divergedAtSeq", "eventDiffs", "stateDiff"),
    "AgentEntry": _open(
        "agentId",
        "persona",
        "label",
        "modelClass",
        "packName",
        "packVersion",
        "toolAllowlist",
        "hasHandoffSchemas",
    ),
    "AgentInventory": _open("agents", "total", agents=_list("AgentEntry"), total={"type": "integer"}),
    "AnnotationList": _open("annotations", annotations=_list("Annotation")),
    "SuiteEntryList": _open("suites", suites=_list("SuiteEntry")),
    "RunEntry": _open("runId", "workflowId", "status", "createdAt"),
    "RunList": _open("runs", runs=_list("RunEntry"), nextPageToken=TEXT),
}


def openwop_schemas() -> dict[str, Any]:
    types = (
        EvalDetail,
        annotations.Annotation,
        annotations.AnnotationCreate,
        runs.BulkCancelResponse,
        runs.BulkCancelRequest,
        runs.CancelResponse,
        runs.EraseResponse,
        runs.CancelRequest,
        runs.EventPage,
        runs.ForkCreated,
        runs.ForkRequest,
        runs.InterruptRequest,
        runs.InterruptResponse,
        runs.RunCreated,
        runs.RunRequest,
        scorecard.EvalSummary,
        SuiteEntry,
        suite.AgentEvalSuite,
        verification.VerificationReport,
    )
    return components(types) | _OPEN
