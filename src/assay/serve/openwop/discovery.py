"""
GET /.well-known/openwop: the capabilities of this host (openwop-contract §1.1).

Every family is at the root; all but `multiAgent` are repeated under `capabilities`, for older clients (openwop-contract
§0.2).
"""

import hashlib
from typing import Any

from assay.protocol.annotations import SIGNALS
from assay.serve.openwop.host import Capabilities, host_of
from assay.serve.web.request import HttpRequest, matches
from assay.serve.web.responses import Response, encode

CACHE = (b"cache-control", b"public, max-age=300")


def document(capabilities: Capabilities) -> dict[str, Any]:
    families = _families(capabilities)
    multi = (
        {"multiAgent": {"executionModel": capabilities.execution_model}}
        if capabilities.execution_model
        else {}
    )
    return {
        "protocolVersion": "1.1",
        "implementation": {"name": "assay", "version": capabilities.version},
        "engineVersion": 1,
        "eventLogSchemaVersion": 2,
        "supportedTransports": ["rest"],
        "supportedEnvelopes": list(capabilities.envelopes),
        "schemaVersions": dict.fromkeys(capabilities.envelopes, 1),
        "limits": {
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxRequestBodyBytes": capabilities.max_body_bytes,
            "maxRunDurationMs": capabilities.max_run_ms,
            **capabilities.limits,
        },
        **families,
        **multi,
        "capabilities": families,
    }


def _agents(capabilities: Capabilities) -> dict[str, Any]:
    agents: dict[str, Any] = dict(capabilities.agents_more)
    if capabilities.evals is not None:
        agents["evalSuite"] = {
            "supported": True,
            "modes": list(capabilities.evals.modes),
            "maxTasksPerSuite": capabilities.evals.max_tasks,
            **(
                {}
                if capabilities.evals.max_cost_usd is None
                else {"maxCostUsdPerSuite": capabilities.evals.max_cost_usd}
            ),
        }
    if capabilities.deployment is not None:
        agents["deployment"] = capabilities.deployment
    if capabilities.agents:
        agents["manifestRuntime"] = {"supported": True, "handoffValidation": True, "installScope": "tenant"}
    if capabilities.agents and capabilities.live:
        agents["liveRuntime"] = {
            "supported": True,
            "structuredOutput": True,
            "confidenceEscalation": "workflow-node"
            in capabilities.live,  # an eval only measures and never asks a person
            "sources": list(capabilities.live),
        }
    return agents


def _families(capabilities: Capabilities) -> dict[str, Any]:
    families: dict[str, Any] = {}
    if agents := _agents(capabilities):
        families["agents"] = {"supported": True, **agents}
    if capabilities.fixtures:
        families["fixtures"] = list(capabilities.fixtures)
    if capabilities.replay:
        families["replay"] = {"supported": True, "modes": list(capabilities.replay)}
    if capabilities.usage:
        families["providerUsage"] = {"supported": True, "costEstimates": True, "currency": "USD"}
    if capabilities.feedback:
        families["feedback"] = {
            "supported": True,
            "targets": ["run", "event", "node"],
            "signals": list(SIGNALS),
        }
    if capabilities.deployment is not None:
        families["authorization"] = {"supported": True, "failClosed": True}
    if capabilities.memory:
        families["memory"] = {"supported": True}
    if capabilities.seeded:
        families["conformance"] = {"mockAgent": True}
    return families


async def discover(call: HttpRequest) -> Response:
    """Needs no key, and is the same for all clients."""
    call.query()
    body = encode(document(host_of(call).capabilities()))
    tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()
    headers = (CACHE, (b"etag", tag), (b"capabilities-etag", tag))
    if matches(call, tag):
        return Response(b"", 304, headers=headers)
    return Response(body, headers=headers)
