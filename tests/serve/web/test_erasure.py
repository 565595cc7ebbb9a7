"""Erasing: what a run was asked and answered goes, what it came to stays."""

import sqlite3
from contextlib import closing

import pytest

from support.canaries import Canaries
from support.evals import AGENT, golden, suite_of
from support.servers.rest_client import Server, request_of, slow
from support.stores.database_dump import dump_of


@pytest.fixture(scope="module")
def host(database):
    with Server(database, keys_known_for=0, seeded=True) as host:
        yield host


def planted(canary):
    """A request whose every text is looked for later."""
    return request_of(2, experiment_metadata={"name": "kept", "metadata": {"note": canary}}) | {
        "test_cases": [{"id": "a", "input": canary}, {"id": "b", "input": "x"}],
        "outputs": [{"value": f"Paris {canary}"}, {"value": "Rome"}],
    }


def rows_of(address, run):
    """The evidence of a run as it lies in the file: compressed, so that a search for its texts would find nothing."""
    with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as file:
        return [data for (data,) in file.execute("SELECT data FROM evidence WHERE run = ?", [run])]


def test_erased_content_is_gone_and_another_run_keeps_its_own(host):
    canaries = Canaries()
    with host.client() as client:
        ids = {}
        for name in ("goes", "stays"):
            key = {"idempotency-key": f"key-{name}"}
            answer = client.post("/v1/evaluate", json=planted(canaries(name)), headers=key)
            ids[name] = answer.json()["evaluation_id"]
        batch = {"evaluations": [planted(canaries("goes"))]}
        batched = client.post("/v1/evaluate:batch", json=batch, headers={"idempotency-key": "batch"}).json()
        ids["batched"] = batched["results"][0]["evaluation_id"]
        assert canaries.found_in(dump_of(host.address).decode("latin-1")) == {"goes", "stays"}
        lying = rows_of(host.address, ids["goes"]) if host.address.startswith("sqlite") else []
        for name in ("goes", "batched"):
            erased = client.delete(f"/v1/evaluations/{ids[name]}")
            assert erased.status_code == 200, erased.text
            assert erased.json()["evaluation_id"] == ids[name]
            again = client.delete(f"/v1/evaluations/{ids[name]}")
            assert again.json() == erased.json()
        left = dump_of(host.address)
        assert canaries.found_in(left.decode("latin-1")) == {"stays"}
        assert not [data for data in lying if data in left]
        for path in ("", "?page_size=1", "/events"):
            gone = client.get(f"/v1/evaluations/{ids['goes']}{path}", headers={"if-none-match": "*"})
            assert (gone.status_code, gone.json()["error"]) == (404, "not_found")
            assert gone.json()["details"]["reason"] == "erased"
        operation = client.get(f"/v1/operations/{ids['goes']}").json()
        assert (operation["status"], operation["progress"]["completed_test_cases"]) == ("completed", 2)
        assert canaries("stays") in client.get(f"/v1/evaluations/{ids['stays']}").text
        log = host.do(_audit(host.store))
        assert [line for line in log if b"run.erase" in line and ids["goes"].encode() in line]


async def _audit(store):
    return [line.data for line in await store.audit("acme")]


def test_the_log_and_the_scorecard_of_an_agent_eval_stay(host):
    canaries = Canaries()
    suite = suite_of(golden("t", canaries("input"), "x"))
    with host.client() as client:
        assert client.post("/v1/host/assay/suites", json=suite).status_code == 201
        request = {"mode": "eval", "evalSuiteRef": suite["suiteId"], "agentId": AGENT}
        run = client.post("/v1/runs", json=request).json()["runId"]
        while not client.get(f"/v1/runs/{run}/events/poll?lastSequence=100&timeout=1").json()["isComplete"]:
            pass
        note = {"signal": {"kind": "label", "label": canaries("note")}}
        assert client.post(f"/v1/runs/{run}/annotations", json=note).status_code == 201
        card = client.get(f"/v1/runs/{run}/eval-summary").json()
        report = f"/v1/host/assay/runs/{run}/eval-report"
        assert canaries("input") in client.get(report).text
        erased = client.delete(f"/v1/host/assay/runs/{run}")
        assert erased.json() | {"erasedAt": ""} == {"runId": run, "status": "completed", "erasedAt": ""}
        assert client.get(f"/v1/runs/{run}/eval-summary").json() == card
        for gone in (
            client.get(report),
            client.get(f"/v1/runs/{run}/annotations"),
            client.post(f"/v1/runs/{run}:fork", json={"mode": "replay"}),
        ):
            assert (gone.status_code, gone.json()["details"]["reason"]) == (404, "erased")
        events = client.get(f"/v1/runs/{run}/events/poll?lastSequence=-1&timeout=1")
        types = [event["type"] for event in events.json()["events"]]
        assert (types[0], types[-1]) == ("run.started", "run.completed")
        snapshot = client.get(f"/v1/runs/{run}")
        assert (snapshot.status_code, snapshot.json()["status"]) == (200, "completed")
        for answer in (events, snapshot):
            assert not canaries.found_in(answer.text)
        stored = dump_of(host.address).decode("latin-1")
        assert canaries.found_in(stored) == {"input"}  # the suite is the tenant's, not the run's


def test_a_run_in_flight_or_of_another_tenant_is_not_erased(host):
    with (
        host.client() as client,
        host.client(tenant="other") as stranger,
        host.client(scopes={"runs:read"}) as reader,
    ):
        run = client.post("/v1/evaluations", json=request_of(1, [slow(30)])).json()["operation_id"]
        refused = client.delete(f"/v1/evaluations/{run}")
        assert (refused.status_code, refused.json()["error"]) == (409, "conflict")
        client.post(f"/v1/evaluations/{run}:cancel")
        done = client.post("/v1/evaluate", json=request_of(1)).json()["evaluation_id"]
        unknown = stranger.delete(f"/v1/evaluations/{done}")
        assert (unknown.status_code, "reason" in unknown.json().get("details", {})) == (404, False)
        assert reader.delete(f"/v1/evaluations/{done}").status_code == 403
        assert client.get(f"/v1/evaluations/{done}").status_code == 200
