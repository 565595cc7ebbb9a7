"""Agents that tenants register over REST: they run at once, are of their tenant alone, and show no secret."""

import json
import threading
from types import SimpleNamespace
from typing import ClassVar

import pytest

from assay.agents.registered import KIND, MOST, TenantAgents
from assay.auth.keys import DEFAULT
from assay.backends.stores.memory import MemoryStore
from assay.ports import PutDocument, Transaction
from assay.protocol.agents import AgentCard
from support.evals import golden
from support.servers.openwop_client import finish_run, run_request, store_suite, suite, wait_for_run
from support.servers.rest_client import Server, sqlite
from support.servers.thread_server import Handler, HandlerServer

AGENT = "local.shop.bot"
PATH = f"/v1/host/assay/agents/{AGENT}"
SECRET = "Bearer canary-of-a-header-7391"
SUITE = suite(golden("same", "x", "x"), golden("other", "y", "x"), name="registered")


class Endpoint(Handler):
    """An agent that answers with its task, and a record of the headers it got."""

    seen: ClassVar[list] = []

    def do_POST(self):
        body = json.loads(self.body())
        Endpoint.seen.append((self.path, self.headers.get("Authorization"), sorted(body)))
        answer = json.dumps({"result": body["task"]}).encode()
        if self.path.startswith("/away"):
            self.send(302, headers={"Location": "/agent"})
        else:
            self.send(200, answer)


@pytest.fixture(scope="module")
def endpoint():
    with HandlerServer(Endpoint) as server:
        yield f"{server.url}/agent"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("registered"))) as host:
        yield host


def test_a_registered_agent_runs_at_once_and_its_headers_reach_it_alone(client, endpoint):
    made = client.put(PATH, json={"url": endpoint, "version": "1.2.0", "headers": {"Authorization": SECRET}})
    assert made.status_code == 201, made.text
    assert made.headers["location"] == PATH
    assert made.json() | {"registeredAt": ""} == {
        "agentId": AGENT,
        "registeredAt": "",
        "url": endpoint,
        "version": "1.2.0",
        "headerNames": ["Authorization"],
    }
    assert client.get(PATH).json() == made.json()
    run = finish_run(client, SUITE, AGENT)
    snapshot = client.get(f"/v1/runs/{run}").json()
    assert snapshot["status"] == "completed", snapshot
    assert snapshot["agent"] == {"agentId": AGENT, "version": "1.2.0"}
    assert {task["taskId"]: task["passed"] for task in snapshot["outputs"]["tasks"]} == {
        "same": True,
        "other": False,
    }
    assert {seen[1] for seen in Endpoint.seen} == {SECRET}
    assert all("callback" not in seen[2] for seen in Endpoint.seen)
    everything = "".join(
        client.get(path).text
        for path in (
            PATH,
            "/v1/host/assay/agents",
            "/v1/agents",
            f"/v1/agents/{AGENT}",
            f"/v1/runs/{run}",
            f"/v1/runs/{run}/events/poll?timeout=1",
            f"/v1/host/assay/runs/{run}/eval-report",
        )
    )
    assert AGENT in everything
    assert SECRET not in everything


def test_the_inventory_lists_it_and_a_second_registration_replaces_it(client, endpoint):
    other = "local.shop.second"
    path = f"/v1/host/assay/agents/{other}"
    assert client.put(path, json={"url": endpoint, "label": "Second"}).status_code == 201
    entry = client.get(f"/v1/agents/{other}").json()
    assert (entry["label"], entry["packVersion"]) == ("Second", "0.0.0")
    replaced = client.put(path, json={"url": endpoint, "version": "2.0.0"})
    assert replaced.status_code == 200
    assert client.get(f"/v1/agents/{other}").json()["packVersion"] == "2.0.0"
    removed = client.delete(path)
    assert removed.status_code == 200
    assert removed.json()["agentId"] == other
    for answer in (client.get(path), client.delete(path), client.get(f"/v1/agents/{other}")):
        assert answer.status_code == 404
    refused = client.post("/v1/runs", json=run_request(store_suite(client, SUITE), other))
    assert refused.status_code == 400
    assert "there is no agent" in refused.text


class PackCards(list):
    """The cards of a tenant's packs, and the threads that read them."""

    threads: ClassVar[set] = set()

    def __iter__(self):
        self.threads.add(threading.get_ident())
        return super().__iter__()


class Packs:
    def __init__(self, cards):
        self.found = PackCards(cards)

    async def cards(self, tenant):
        return self.found


class Endpoints:
    def make(self, agent_id, registration):
        return SimpleNamespace(card=AgentCard(agent_id=agent_id, version=registration.version))


@pytest.mark.anyio
@pytest.mark.parametrize("registered", [[], ["local.many.a2", "local.shop.bot"]])
async def test_the_cards_of_many_agents_are_not_merged_on_the_event_loop(registered):
    store = MemoryStore()
    packs = Packs([AgentCard(agent_id=f"local.many.a{at}", version="1.0.0") for at in range(5)])
    data = json.dumps({"url": "http://127.0.0.1:9/", "version": "2.0.0"}).encode()
    puts = [PutDocument(tenant="t", kind=KIND, key=id, data=data) for id in registered]
    await store.commit(Transaction(documents=puts))
    PackCards.threads.clear()
    cards = await TenantAgents(store, packs, Endpoints).cards("t")
    assert threading.get_ident() not in PackCards.threads
    ids = {
        **dict.fromkeys((f"local.many.a{at}" for at in range(5)), "1.0.0"),
        **dict.fromkeys(registered, "2.0.0"),
    }
    assert [(card.agent_id, card.version) for card in cards] == sorted(ids.items())


def test_a_registered_agent_is_of_its_tenant_alone(host, client, endpoint):
    mine = "local.shop.mine"
    assert client.put(f"/v1/host/assay/agents/{mine}", json={"url": endpoint}).status_code == 201
    with host.client(tenant="other") as other:
        assert other.get(f"/v1/host/assay/agents/{mine}").status_code == 404
        assert other.get(f"/v1/agents/{mine}").status_code == 404
        assert other.get("/v1/host/assay/agents").json() == {"agents": []}
        refused = other.post("/v1/runs", json=run_request(store_suite(other, SUITE), mine))
        assert refused.status_code == 400


def test_a_key_needs_the_scope(host, endpoint):
    with host.client(scopes=DEFAULT - {"agents:write"}) as client:
        for answer in (client.put(PATH, json={"url": endpoint}), client.delete(PATH)):
            assert answer.status_code == 403
            assert "agents:write" in answer.text
        assert client.get("/v1/host/assay/agents").status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (PATH, {"url": "http://169.254.169.254/latest"}, 400, "is not a public address"),
        (PATH, {"url": "http://[::1]:1/"}, 400, "agent_hosts"),
        (PATH, {"url": "shop:bot"}, 400, "expected an address such as"),
        (PATH, {"url": "cmd:rm -rf /"}, 400, "expected an address such as"),
        (PATH, {"url": "http://127.0.0.1/", "kind": "callable"}, 400, "kind"),
        (PATH, {}, 400, "url"),
        (PATH, {"url": "http://127.0.0.1/", "headers": {"a b": "c"}}, 400, "headers"),
        (PATH, {"url": "http://127.0.0.1/", "headers": {"a": "b\nc: d"}}, 400, "headers"),
        (PATH, {"url": "http://127.0.0.1/", "version": "one"}, 400, "version"),
        (PATH, {"url": "http://127.0.0.1/", "timeoutSeconds": 0}, 400, "timeoutSeconds"),
        ("/v1/host/assay/agents/shop", {"url": "http://127.0.0.1/"}, 400, "expected an id such as"),
        ("/v1/host/assay/agents/local.x." + "y" * 300, {"url": "http://127.0.0.1/"}, 400, "expected an id"),
    ],
)
def test_a_registration_that_is_none_is_refused(client, path, body, status, words):
    answer = client.put(path, json=body)
    assert answer.status_code == status, answer.text
    assert words in answer.text


def test_a_redirect_and_an_agent_that_is_away_are_not_measured(client, endpoint):
    for name, url in (("away", endpoint.replace("/agent", "/away")), ("gone", "http://127.0.0.1:9/agent")):
        agent = f"local.shop.{name}"
        assert client.put(f"/v1/host/assay/agents/{agent}", json={"url": url}).status_code == 201
        run = finish_run(client, SUITE, agent)
        snapshot = client.get(f"/v1/runs/{run}").json()
        assert snapshot["status"] == "failed", snapshot
        assert "outputs" not in snapshot


def test_a_name_that_leads_to_this_machine_is_not_asked(client, endpoint):
    before = len(Endpoint.seen)
    url = endpoint.replace("127.0.0.1", "localhost")
    assert client.put("/v1/host/assay/agents/local.shop.local", json={"url": url}).status_code == 201
    run = finish_run(client, SUITE, "local.shop.local")
    assert client.get(f"/v1/runs/{run}").json()["status"] == "failed"
    assert len(Endpoint.seen) == before


def test_a_tenant_registers_a_bounded_number(host, endpoint):
    async def fill(tenants):
        puts = [
            PutDocument(
                tenant=tenants,
                kind=KIND,
                key=f"local.many.a{at}",
                data=json.dumps({"url": endpoint}).encode(),
            )
            for at in range(MOST)
        ]
        await host.store.commit(Transaction(documents=puts))

    host.do(fill("many"))
    with host.client(tenant="many") as client:
        assert len(client.get("/v1/host/assay/agents").json()["agents"]) == MOST
        refused = client.put(PATH, json={"url": endpoint})
        assert refused.status_code == 400
        assert f"expected at most {MOST} agents" in refused.text
        again = client.put("/v1/host/assay/agents/local.many.a1", json={"url": endpoint, "label": "x"})
        assert again.status_code == 200


def test_registrations_survive_a_restart(tmp_path, endpoint):
    with Server(sqlite(tmp_path)) as first, first.client() as client:
        assert client.put(PATH, json={"url": endpoint}).status_code == 201
    with Server(sqlite(tmp_path)) as second, second.client() as client:
        run = finish_run(client, SUITE, AGENT)
        assert wait_for_run(client, run)["status"] == "completed"
