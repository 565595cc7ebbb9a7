"""Agents and suites: who can be run here, and against what (contract §7.4, §7.7)."""

from typing import Any

import msgspec

from assay.errors import InvalidRequest, NotFound, Problem
from assay.protocol.agents import AgentCard
from assay.runs.large import off_loop
from assay.serve.fep.request import decoded
from assay.serve.openwop.host import OpenWopHost, host_of
from assay.serve.web.body import body_format, read_body
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer, encode

_any = msgspec.json.Decoder().decode
LOCAL = "local.assay"


def listed(card: AgentCard) -> dict[str, Any]:
    """One entry of the inventory: no prompt, no schema, no secret."""
    entry: dict[str, Any] = {
        "agentId": card.agent_id,
        "persona": card.persona or card.label or card.agent_id,
        "label": card.label or card.persona or card.agent_id,
        "modelClass": card.model_class,
        "packName": LOCAL,
        "packVersion": card.version,
        "toolAllowlist": list(card.tools or ()),
        "hasHandoffSchemas": card.task_schema is not None or card.return_schema is not None,
    }
    if card.description:
        entry["description"] = card.description
    if card.threshold is not None:
        entry["confidenceThreshold"] = card.threshold
    if any((card.memory.scratchpad, card.memory.conversation, card.memory.longTerm)):
        entry["memoryShape"] = msgspec.to_builtins(card.memory)
    return entry


def _cards(surface: OpenWopHost) -> list[AgentCard]:
    cards = surface.cards()
    if not cards:
        raise NotFound("no agents are declared here; [agents] in assay.toml declares them")
    return sorted(cards, key=lambda card: card.agent_id)


async def list_agents(call: HttpRequest) -> Response:
    call.query()
    cards = _cards(host_of(call))
    return answer({"agents": [listed(card) for card in cards], "total": len(cards)})


async def get_agent(call: HttpRequest) -> Response:
    call.query()
    (said,) = call.scope["path_params"].values()
    for card in _cards(host_of(call)):
        if card.agent_id == said:
            return answer(listed(card))
    raise NotFound(f"there is no agent {said[:256]!r}")


async def put_suite(call: HttpRequest) -> Response:
    """201 a new one, 200 the same again; another content under a version that is there is 409."""
    call.query()
    body_format(call)
    body = await read_body(call)
    limits = call.server.limits
    document = await off_loop(len(body), lambda: decoded(_any, body, limits))
    shelved, new = await host_of(call).shelf.put(call.tenant, document)
    headers = ((b"location", f"/v1/host/assay/suites/{shelved.suite_id}@{shelved.version}".encode()),)
    return answer(shelved, 201 if new else 200, headers)


async def list_suites(call: HttpRequest) -> Response:
    asked = call.query("after", "limit")
    limit = asked.get("limit", "100")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:6]) <= 1000):
        raise InvalidRequest(Problem("limit", f"expected a number from 1 to 1000, got {limit[:40]!r}"))
    suites = await host_of(call).shelf.list(call.tenant, after=asked.get("after", ""), limit=int(limit))
    return answer({"suites": suites})


async def get_suite(call: HttpRequest) -> Response:
    call.query()
    (said,) = call.scope["path_params"].values()
    found = await host_of(call).shelf.get(call.tenant, said)
    if found is None:
        raise NotFound(f"there is no suite {said[:200]!r}")
    return Response(encode(found))
