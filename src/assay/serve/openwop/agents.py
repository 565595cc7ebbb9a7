"""Agents that a tenant registers by their address, without a restart; never code."""

import re
from typing import cast

import msgspec

from assay.agents.registered import TenantAgents
from assay.errors import Conflict, InvalidRequest, NotFound, Problem
from assay.protocol.agents import AgentRegistration
from assay.protocol.manifest import AGENT_ID
from assay.serve.fep.request_parser import read_json
from assay.serve.openwop.host import OpenWopHost, host_of
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import ResponseSpec, RouteSpec
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

PATH = "/v1/host/assay/agents"
_registration = msgspec.json.Decoder(AgentRegistration).decode


def _agents(call: HttpRequest) -> tuple[OpenWopHost, TenantAgents]:
    host = host_of(call)
    if not host.offers_agents or host.tenant_agents is None:
        raise NotFound("this host does not offer an inventory of agents")
    return host, host.tenant_agents


def _agent_id(call: HttpRequest) -> str:
    (agent_id,) = call.scope["path_params"].values()
    return cast("str", agent_id)


async def register_agent(call: HttpRequest) -> Response:
    """201 for a new agent, 200 for one that is replaced."""
    call.query()
    body_format(call)
    body = await read_document(call)
    registration = await read_json(call, _registration, body)
    host, agents = _agents(call)
    agent_id = _agent_id(call)
    if re.search(AGENT_ID, agent_id) is None or len(agent_id) > 256:
        raise InvalidRequest(
            Problem("agentId", f"expected an id such as local.shop.bot, got {agent_id[:100]!r}")
        )
    if any(card.agent_id == agent_id for card in host.cards()):
        raise Conflict("exists", f"agent {agent_id}", "it is an agent of this host; choose another id")
    found, new = await agents.register(call.tenant, agent_id, registration)
    return answer(found, 201 if new else 200, ((b"location", f"{PATH}/{agent_id}".encode()),))


async def list_registered(call: HttpRequest) -> Response:
    call.query()
    _, agents = _agents(call)
    return answer({"agents": await agents.list(call.tenant)})


async def get_registered(call: HttpRequest) -> Response:
    call.query()
    _, agents = _agents(call)
    return answer(await agents.registered(call.tenant, _agent_id(call)))


async def remove_agent(call: HttpRequest) -> Response:
    call.query()
    _, agents = _agents(call)
    return answer(await agents.remove(call.tenant, _agent_id(call)))


AGENT_ROUTES = [
    RouteSpec(
        method="PUT",
        path=f"{PATH}/{{agent_id}}",
        endpoint=register_agent,
        scope="agents:write",
        id="registerAgent",
        summary="Register an agent of this tenant by its address, or replace it",
        body="AgentRegistration",
        responses={
            200: ResponseSpec("Replaced.", "RegisteredAgent", headers=("Location",)),
            201: ResponseSpec("Registered.", "RegisteredAgent", headers=("Location",)),
        },
        errors=(409,),
    ),
    RouteSpec(
        method="GET",
        path=PATH,
        endpoint=list_registered,
        scope="manifest:read",
        id="listRegisteredAgents",
        summary="List the agents that this tenant registered",
        responses={200: ResponseSpec("The agents by id.", "RegisteredAgentList")},
        errors=(404,),
    ),
    RouteSpec(
        method="GET",
        path=f"{PATH}/{{agent_id}}",
        endpoint=get_registered,
        scope="manifest:read",
        id="getRegisteredAgent",
        summary="Get an agent that this tenant registered",
        responses={200: ResponseSpec("The agent, without the values of its headers.", "RegisteredAgent")},
    ),
    RouteSpec(
        method="DELETE",
        path=f"{PATH}/{{agent_id}}",
        endpoint=remove_agent,
        scope="agents:write",
        id="removeAgent",
        summary="Remove an agent that this tenant registered",
        responses={200: ResponseSpec("Removed.", "RegisteredAgent")},
    ),
]
