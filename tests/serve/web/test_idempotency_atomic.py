"""An Idempotency-Key and what it made are one transaction: at two servers at once, and through a kill (openwop-contract §3.6)."""

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from assay.auth.keys import DEFAULT
from support.servers.openwop_client import log_of, wait_for_run
from support.servers.rest_client import Server, request_of, slow
from support.stores.postgres import server

NOTE = {"signal": {"kind": "label", "label": "checked"}}
TIMES = 4  # each with a key of its own


@pytest.fixture(scope="module")
def two():
    """Two servers on one PostgreSQL, and a client of each."""
    with server().store_database() as address, contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(Server(address, seeded=True)) for _ in range(2)]
        key = hosts[0].key(scopes=DEFAULT | {"approvals:respond"})
        yield [stack.enter_context(host.client(key)) for host in hosts]


def started(client, workflow):
    return client.post("/v1/runs", json={"workflowId": workflow}).json()["runId"]


def waiting(client):
    run = started(client, "conformance-approval")
    while client.get(f"/v1/runs/{run}").json()["status"] != "waiting-approval":
        client.get(f"/v1/runs/{run}/events/poll?lastSequence=-1&timeout=1")
    return run


def busy(client):
    return client.post("/v1/evaluations", json=request_of(1, [slow(60)])).json()["operation_id"]


def notes(client, run):
    return [one["annotationId"] for one in client.get(f"/v1/runs/{run}/annotations").json()["annotations"]]


class Operation:
    """What is asked for, of what is made ready, and what may be there of it only once."""

    def __init__(self, path, body, made, ready=lambda client: "", once=lambda client, ready: None):
        self.path, self.body, self.made, self.ready, self.once = path, body, made, ready, once


OPERATIONS = {
    "a run": Operation("/v1/runs", {"workflowId": "conformance-noop"}, lambda body: body["runId"]),
    "an evaluation": Operation("/v1/evaluations", request_of(2), lambda body: body["operation_id"]),
    "an evaluation at once": Operation("/v1/evaluate", request_of(2), lambda body: body["evaluation_id"]),
    "a batch": Operation(
        "/v1/evaluate:batch",
        {"evaluations": [request_of(1), request_of(2)]},
        lambda body: [one["evaluation_id"] for one in body["results"]],
    ),
    "an annotation": Operation(
        "/v1/runs/{}/annotations",
        NOTE,
        lambda body: body["annotationId"],
        lambda client: started(client, "conformance-noop"),
        lambda client, run: len(notes(client, run)),
    ),
    "a fork": Operation(
        "/v1/runs/{}:fork",
        {"mode": "replay"},
        lambda body: body["runId"],
        lambda client: wait_for_run(client, started(client, "conformance-noop"))["runId"],
    ),
    "an answer": Operation(
        "/v1/runs/{}/interrupts/gate",
        {"resumeValue": {"action": "accept"}},
        lambda body: body["runId"],
        waiting,
        lambda client, run: [e["type"] for e in log_of(client, run)].count("approval.received"),
    ),
    "a cancel": Operation(
        "/v1/runs/{}/cancel",
        {},
        lambda body: body["status"],
        waiting,
        lambda client, run: [e["type"] for e in log_of(client, run)].count("run.cancelled"),
    ),
    "a cancel of many": Operation(
        "/v1/runs:bulk-cancel", None, lambda body: [one["ok"] for one in body["results"]], waiting
    ),
    "a cancel of an evaluation": Operation(
        "/v1/evaluations/{}:cancel", {}, lambda body: body["cancelled"], busy
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", OPERATIONS)
def test_one_idempotency_key_at_two_servers_creates_once(two, name):
    operation = OPERATIONS[name]
    with ThreadPoolExecutor(4) as pool:
        for at in range(TIMES):
            ready = operation.ready(two[0])
            body = {"runIds": [ready]} if operation.body is None else operation.body
            headers = {"Idempotency-Key": f"{name} {at}"}

            path = operation.path.format(ready)

            def ask(client, path=path, body=body, headers=headers):
                return client.post(path, json=body, headers=headers)

            answers = list(pool.map(ask, two * 2))
            assert len({answer.status_code for answer in answers}) == 1, [a.text for a in answers]
            assert answers[0].status_code < 300, answers[0].text
            assert len({str(operation.made(answer.json())) for answer in answers}) == 1
            replays = [answer.headers.get("openwop-idempotent-replay") for answer in answers]
            # a cancel that comes when the run has ended makes nothing, and needs no key
            assert replays.count(None) == 1 or name.startswith("a cancel"), replays
            assert operation.once(two[1], ready) in (None, 1)
            if "{}" in operation.path:
                changed: Any = (
                    {"reason": "another"} if operation.body == {} else {**(operation.body or {}), "x": 1}
                )
                other = ask(two[1], body=changed)
                assert other.status_code in (400, 409)


def test_a_kill_after_the_commit_of_an_annotation_leaves_it_once(zygote, tmp_path):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    environ["OPENWOP_CONFORMANCE_SEED"] = "true"

    @contextlib.contextmanager
    def serving(failpoint=""):
        more = {"ASSAY_FAILPOINT": failpoint} if failpoint else {}
        process = zygote.start("serve", "--port", "0", folder=tmp_path, pipe=True, environ=environ | more)
        try:
            words = process.stdout.readline().split()
            key = (tmp_path / ".assay" / "local-key").read_text().strip()
            url = words[2] if words else "http://127.0.0.1:9"  # it was killed before it served
            with httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=60) as client:
                yield client
        finally:
            process.close()

    def note(client, key):
        return client.post(f"/v1/runs/{run}/annotations", json=NOTE, headers={"Idempotency-Key": key})

    with serving() as client:
        run = started(client, "conformance-noop")
        wait_for_run(client, run)
    for count in (1, 2):
        with serving(f"commit.after:{count}") as client:
            for key in "abc":
                with contextlib.suppress(httpx.HTTPError):
                    note(client, key)
    with serving() as client:
        made = {note(client, key).json()["annotationId"] for key in "abc"}
        assert sorted(notes(client, run)) == sorted(made)
        assert len(made) == 3
