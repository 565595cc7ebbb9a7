"""Schemas of requests and responses. Open objects list required members (openwop-contract §1.1, §3.3, §7.7, §9.1)."""

from typing import Any

from assay.agenteval.results.detail import EvalDetail
from assay.agenteval.suites.suite_store import SuiteEntry
from assay.comparison.views.history import HistoryRow
from assay.packs.store import PackRecord
from assay.protocol import agent_evals, annotations, deployments, runs, verification
from assay.protocol.agents import AgentRegistration, RegisteredAgent
from assay.serve.web.openapi import components
from assay.workflow.turn_log import TurnLog


def _list(schema: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{schema}"}}


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
    "RegisteredAgentList": _open("agents", agents=_list("RegisteredAgent")),
    "AgentDeploymentList": _list("AgentDeployment"),
    "AnnotationList": _open("annotations", annotations=_list("Annotation")),
    "PackRecordList": _open("packs", packs=_list("PackRecord")),
    "SuiteHistory": _open("suiteId", "rows", suiteId=TEXT, rows=_list("HistoryRow")),
    "SuiteEntryList": _open("suites", suites=_list("SuiteEntry")),
    "RunEntry": _open("runId", "workflowId", "status", "createdAt"),
    "RunList": _open("runs", runs=_list("RunEntry"), nextPageToken=TEXT),
}


EXAMPLES: dict[str, Any] = {  # of request bodies; tests send them to a server
    "AgentEvalSuite": {
        "suiteId": "local.shop.evals.refunds",
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [
            {
                "taskId": "polite",
                "input": "Hello",
                "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "Hello"}},
            }
        ],
    },
    "RunRequest": {
        "mode": "eval",
        "evalSuiteRef": "local.shop.evals.refunds@1.0.0",
        "agentId": "local.shop.answer",
        "configurable": {"trials": 2},
    },
    "CancelRequest": {"reason": "it is no longer needed"},
    "BulkCancelRequest": {"runIds": ["run-0001", "run-0002"], "reason": "the suite was wrong"},
    "ForkRequest": {"mode": "replay"},
    "InterruptRequest": {"resumeValue": {"action": "accept"}},
    "TransitionRequest": {"version": "0.0.0", "transition": "promote", "toState": "test"},
    "AgentRegistration": {"url": "https://agents.example.com/answer", "version": "1.2.0"},
    "AnnotationCreate": {"signal": {"kind": "rating", "rating": 1}, "note": "a good answer"},
}


def openwop_schemas() -> dict[str, Any]:
    types = (
        EvalDetail,
        HistoryRow,
        deployments.AgentDeployment,
        deployments.TransitionPending,
        deployments.TransitionRequest,
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
        agent_evals.EvalSummary,
        SuiteEntry,
        PackRecord,
        AgentRegistration,
        RegisteredAgent,
        agent_evals.AgentEvalSuite,
        verification.VerificationReport,
        TurnLog,
    )
    schemas = components(types)
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    return schemas | _OPEN
