"""The inventory of agents, and the stored eval suites (openwop-contract §7.4, §7.7)."""

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import msgspec

from assay.comparison.views.history import rows_of, suite_runs
from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, NotFound, Problem
from assay.packs.requirements import Supplied, unmet
from assay.promotion.states import deployment_states
from assay.protocol.agents import AgentCard
from assay.protocol.json_types import JSON, is_object
from assay.serve.fep.operations import page_start
from assay.serve.fep.request_parser import read_json
from assay.serve.openwop.discovery import document
from assay.serve.openwop.host import OpenWopHost, host_of
from assay.serve.web import responses as pages
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import TOKEN, Parameter, ResponseSpec, RouteSpec
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer, encode

_any = msgspec.json.Decoder().decode
LOCAL = "local.assay"
TOGETHER = 100  # agents that are made and encoded at a time


def agent_document(card: AgentCard) -> dict[str, Any]:
    """One entry of the inventory. It has no prompt, no schema and no secret."""
    entry: dict[str, Any] = {
        "agentId": card.agent_id,
        "persona": card.persona or card.label or card.agent_id,
        "label": card.label or card.persona or card.agent_id,
        "modelClass": card.model_class,
        "packName": card.pack or LOCAL,
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


def _advertises(capabilities: Any, name: str) -> bool:
    """Whether the discovery document has this dotted capability, and does not say that it is not supported."""
    for part in name.split("."):
        capabilities = capabilities.get(part) if is_object(capabilities) else None
    return bool(capabilities.get("supported", True) if is_object(capabilities) else capabilities)


class _Capabilities(NamedTuple):
    """What this host advertises, and what it supplies to packs."""

    advertised: dict[str, Any]
    supplied: Supplied

    @staticmethod
    def of(host: OpenWopHost) -> "_Capabilities":
        supplied: Supplied = {} if host.packs is None else host.packs.reader.supplied
        return _Capabilities(document(host.capabilities()), supplied)

    def entry(self, card: AgentCard) -> dict[str, Any]:
        """An entry, with the capabilities that the agent or its pack names and this host does not have."""
        missing = [name for name in card.requires if not _advertises(self.advertised, name)]
        missing += unmet(card.optional_peers, self.supplied)
        entry = agent_document(card)
        return entry | {"degraded": list(dict.fromkeys(missing))} if missing else entry


def _host(call: HttpRequest) -> OpenWopHost:
    host = host_of(call)
    if not host.offers_agents:
        raise NotFound("this host does not offer an inventory of agents")
    return host


async def list_agents(call: HttpRequest) -> Response:
    """All agents. Many are made and sent some at a time, off the event loop."""
    call.query()
    host = _host(call)
    cards, capabilities = await host.tenant_cards(call.tenant), _Capabilities.of(host)
    if len(cards) <= TOGETHER:
        return answer({"agents": [capabilities.entry(card) for card in cards], "total": len(cards)})
    return Response(_agents(cards, capabilities))


async def _agents(cards: list[AgentCard], capabilities: _Capabilities) -> AsyncGenerator[bytes]:
    comma = b'{"agents":['
    for first in range(0, len(cards), TOGETHER):
        some = cards[first : first + TOGETHER]
        yield comma
        yield await in_thread(lambda some=some: encode([capabilities.entry(card) for card in some])[1:-1])
        comma = b","
    yield b'],"total":%d}' % len(cards)


async def get_agent(call: HttpRequest) -> Response:
    call.query()
    (ref,) = call.scope["path_params"].values()
    host = _host(call)
    card = await host.tenant_card(call.tenant, ref)
    if card is None:
        raise NotFound(f"there is no agent {ref[:256]!r}")
    return answer(_Capabilities.of(host).entry(card))


async def put_suite(call: HttpRequest) -> Response:
    """201 for a new suite, 200 for the same one again; other content under an existing version is 409."""
    call.query()
    body_format(call)
    body = await read_document(call)
    content = await read_json(call, _any, body)
    entry, new = await host_of(call).suites.put(call.tenant, content)
    headers = ((b"location", f"/v1/host/assay/suites/{entry.suite_id}@{entry.version}".encode()),)
    return answer(entry, 201 if new else 200, headers)


async def list_suites(call: HttpRequest) -> Response:
    params = call.query("after", "limit")
    limit = params.get("limit", "100")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 6 and 1 <= int(limit) <= 1000):
        raise InvalidRequest(Problem("limit", f"expected a number from 1 to 1000, got {limit[:40]!r}"))
    suites = await host_of(call).suites.list(call.tenant, after=params.get("after", ""), limit=int(limit))
    return answer({"suites": suites})


async def get_suite(call: HttpRequest) -> Response:
    call.query()
    (ref,) = call.scope["path_params"].values()
    suite = await host_of(call).suites.get(call.tenant, ref)
    if suite is None:
        raise NotFound(f"there is no suite {ref[:200]!r}")
    return Response(encode(suite))


# GET /v1/host/assay/suites/{suiteId}/history: the eval runs of a suite with their scores, newest first.

MAX_ROWS = 100  # of a page: each row reads a scorecard


async def suite_history(call: HttpRequest) -> Response:
    """A page may be short, or empty, although there is a next one: the runs of other agents are skipped."""
    params = call.query("agentId", "page_size", "page_token")
    (suite_id,) = call.scope["path_params"].values()
    agent = params.get("agentId")
    for name, text in (("suiteId", suite_id), ("agentId", agent or "")):
        if "\0" in text:
            raise InvalidRequest(Problem(name, "expected a name without NUL"))
    size = pages.size(params.get("page_size"), min(MAX_ROWS, call.server.serving.max_page))
    digest = pages.digest(call.tenant, "history", suite_id, agent)
    before = page_start(params.get("page_token"), digest)
    host, store = host_of(call), call.server.executor.store
    runs, position = await suite_runs(store, call.tenant, suite_id, agent=agent, before=before, limit=size)
    if not runs and before is None and await host.suites.get(call.tenant, suite_id) is None:
        raise NotFound(f"there is no suite {suite_id[:200]!r}, and no run of it")
    following: JSON = {}
    if position is not None:
        following = {"nextPageToken": pages.token(pages.RunCursor(*position, digest))}
    agents = {str(run.metadata.get("agentId", "")) for run in runs}
    rows = await rows_of(store, runs, await deployment_states(store, call.tenant, agents))
    return answer({"suiteId": suite_id, "rows": rows, **following})


HISTORY_ROUTES = [
    RouteSpec(
        method="GET",
        path="/v1/host/assay/suites/{suite_id}/history",
        endpoint=suite_history,
        scope="runs:read",
        id="suiteHistory",
        summary="List the eval runs of a suite with their scores, newest first",
        responses={200: ResponseSpec("One page of runs.", "SuiteHistory")},
        parameters=(
            Parameter("agentId", {"type": "string"}, "Only runs of this agent."),
            Parameter(
                "page_size",
                {"type": "integer", "minimum": 1, "maximum": MAX_ROWS},
                "The largest number of rows.",
            ),
            TOKEN,
        ),
    )
]
