"""
GET /.well-known/openwop: what this host offers, said truthfully (contract §1.1).

Every family stands at the root; all but `multiAgent` are repeated under `capabilities`, where older readers look (contract §0.2).
"""

import hashlib
from typing import Any

from assay.protocol.annotations import SIGNALS
from assay.serve.openwop.capabilities import Capabilities
from assay.serve.openwop.host import host_of
from assay.serve.web.etag import matches
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, encode

CACHE = (b"cache-control", b"public, max-age=300")


def document(offer: Capabilities) -> dict[str, Any]:
    families = _families(offer)
    multi = {"multiAgent": {"executionModel": offer.execution_model}} if offer.execution_model else {}
    return {
        "protocolVersion": "1.1",
        "implementation": {"name": "assay", "version": offer.version},
        "engineVersion": 1,
        "eventLogSchemaVersion": 2,
        "supportedTransports": ["rest"],
        "supportedEnvelopes": list(offer.envelopes),
        "schemaVersions": dict.fromkeys(offer.envelopes, 1),
        "limits": {
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxRequestBodyBytes": offer.max_body_bytes,
            "maxRunDurationMs": offer.max_run_ms,
            **offer.limits,
        },
        **families,
        **multi,
        "capabilities": families,
    }


def _agents(offer: Capabilities) -> dict[str, Any]:
    agents: dict[str, Any] = dict(offer.agents_more)
    if offer.evals is not None:
        agents["evalSuite"] = {
            "supported": True,
            "modes": list(offer.evals.modes),
            "maxTasksPerSuite": offer.evals.max_tasks,
            **({} if offer.evals.max_cost_usd is None else {"maxCostUsdPerSuite": offer.evals.max_cost_usd}),
        }
    if offer.agents:
        agents["manifestRuntime"] = {"supported": True, "handoffValidation": True, "installScope": "host"}
    if offer.agents and offer.live:
        agents["liveRuntime"] = {
            "supported": True,
            "structuredOutput": True,
            "confidenceEscalation": "workflow-node" in offer.live,  # an eval measures, and asks no person
            "sources": list(offer.live),
        }
    return agents


def _families(offer: Capabilities) -> dict[str, Any]:
    families: dict[str, Any] = {}
    if agents := _agents(offer):
        families["agents"] = {"supported": True, **agents}
    if offer.fixtures:
        families["fixtures"] = list(offer.fixtures)
    if offer.replay:
        families["replay"] = {"supported": True, "modes": list(offer.replay)}
    if offer.usage:
        families["providerUsage"] = {"supported": True, "costEstimates": True, "currency": "USD"}
    if offer.feedback:
        families["feedback"] = {
            "supported": True,
            "targets": ["run", "event", "node"],
            "signals": list(SIGNALS),
        }
    if offer.memory:
        families["memory"] = {"supported": True}
    if offer.seeded:
        families["conformance"] = {"mockAgent": True}
    return families


async def discover(call: HttpRequest) -> Response:
    """Open to everybody, and the same for everybody."""
    call.query()
    body = encode(document(host_of(call).offer()))
    tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()
    headers = (CACHE, (b"etag", tag), (b"capabilities-etag", tag))
    if matches(call, tag):
        return Response(b"", 304, headers=headers)
    return Response(body, headers=headers)
