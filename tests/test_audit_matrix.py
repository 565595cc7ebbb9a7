"""What every route leaves in the audit log (FEP 6.4): a route without a row here fails."""

import msgspec
import pytest

from assay.access.audit import lines, verify
from assay.ports.audit import Placed
from assay.serve.rest.routes import ROUTES
from evals import AGENT, golden, suite_of
from rest_client import Server, request_of, slow, sqlite

SUITE = suite_of(golden("t", "x", "x"))
EVAL = {"mode": "eval", "evalSuiteRef": SUITE["suiteId"], "agentId": AGENT}
WAITS = {"workflowId": "conformance-approval"}
SHELVED = f"{SUITE['suiteId']}@{SUITE['version']}"
NEW = ""  # a run that the answer names

# By operation: a body, and the lines it leaves, as action and what.
ROWS = {
    "runEvaluation": (request_of(1), [("run.start", NEW)]),
    "runBatch": ({"evaluations": [request_of(1)]}, [("run.start", NEW)]),
    "startEvaluation": (request_of(1), [("run.start", NEW)]),
    "listEvaluations": (None, []),
    "getEvaluation": (None, [("run.read", "evaluation")]),
    "followEvaluation": (None, [("run.read", "evaluation")]),
    "cancelEvaluation": ({}, [("run.cancel", "slow")]),
    "getOperation": (None, []),  # how far it is, and nothing of what is in it
    "listChecks": (None, []),
    "healthCheck": (None, []),
    "getMetrics": (None, []),
    "getOpenAPI": (None, []),
    "getDocs": (None, []),
    "getCapabilities": (None, []),
    "getAsyncAPI": (None, []),
    "createRun": (EVAL, [("run.start", NEW)]),
    "getRun": (None, [("run.read", "run")]),
    "getEvalSummary": (None, [("run.read", "run")]),
    "getEvalReport": (None, [("run.read", "run")]),
    "streamRunEvents": (None, [("run.read", "run")]),
    "pollRunEvents": (None, [("run.read", "run")]),
    "cancelRun": ({}, [("run.cancel", "flow")]),
    "cancelRunByVerb": ({}, [("run.cancel", "flow")]),
    "bulkCancelRuns": ({"runIds": ["flow", "none"]}, [("refused", "none"), ("run.cancel", "flow")]),
    "forkRun": ({"mode": "replay"}, [("run.read", "run"), ("run.start", NEW)]),
    "resolveInterrupt": ({"resumeValue": {"action": "accept"}}, [("run.respond", "flow")]),
    "getRunAncestry": (None, []),
    "getWorkflow": (None, []),
    "getVerification": (None, [("run.read", "flow")]),
    "diffRuns": (None, [("run.read", "run"), ("run.read", "run")]),
    "annotateRun": ({"signal": {"kind": "flag"}}, [("run.annotate", "run")]),
    "listAnnotations": (None, [("run.read", "run")]),
    "listAgents": (None, []),
    "getAgent": (None, []),
    "putSuite": (SUITE | {"version": "9.9.9"}, [("suite.put", f"{SUITE['suiteId']}@9.9.9")]),
    "listSuites": (None, []),
    "getSuite": (None, []),
    "listRuns": (None, []),
}
ENDS = {"cancelRun", "cancelRunByVerb", "bulkCancelRuns", "resolveInterrupt"}  # each a run of its own


class Asked:
    """A host, a tenant of it with some runs, and another without."""

    def __init__(self, host):
        self.host, self.key, self.other = host, host.key(tenant="ours"), host.key(tenant="theirs")
        with host.client(self.key) as client:
            assert client.post("/v1/host/assay/suites", json=SUITE).status_code == 201
            self.evaluation = client.post("/v1/evaluate", json=request_of(1)).json()["evaluation_id"]
            self.slow = client.post("/v1/evaluations", json=request_of(1, [slow(60)])).json()["operation_id"]
            self.run = client.post("/v1/runs", json=EVAL).json()["runId"]
            while not client.get(f"/v1/runs/{self.run}/events/poll?lastSequence=99").json()["isComplete"]:
                pass
            self.flow = self.waiting(client)

    def waiting(self, client):
        run = client.post("/v1/runs", json=WAITS).json()["runId"]
        while client.get(f"/v1/runs/{run}").json()["status"] != "waiting-approval":
            pass
        return run

    def path(self, route, flow):
        path = route.path
        naming = {"{evaluation_id}": self.evaluation, "{operation_id}": self.evaluation}
        if route.id == "cancelEvaluation":
            naming = {"{evaluation_id}": self.slow}
        ours = flow if route.id in ENDS or route.id == "getVerification" else self.run
        naming |= {"{run_id}": ours, "{node_id}": "gate", "{agent_id}": AGENT}
        naming |= {"{workflow_id}": "conformance-noop", "{suite_ref}": SHELVED}
        for name, value in naming.items():
            path = path.replace(name, value)
        return f"{path}?against={self.run}" if path.endswith(":diff") else path

    def told(self, tenant, request):
        async def all_of_it():
            found = [
                msgspec.json.decode(one.data, type=Placed) async for one in lines(self.host.store, tenant)
            ]
            return [one for one in found if one.request == request]

        return self.host.do(all_of_it())


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("lines")), seeded=True) as host:
        yield Asked(host)
        assert host.do(verify(host.store)).troubles == []


def test_every_route_has_a_row_and_every_row_a_route():
    assert {route.id for route in ROUTES} == ROWS.keys()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.id)
def test_every_route_leaves_its_lines(asked, route):
    body, wanted = ROWS[route.id]
    with asked.host.client(asked.key) as client:
        flow = asked.waiting(client) if route.id in ENDS else asked.flow
        known = {
            "evaluation": asked.evaluation,
            "slow": asked.slow,
            "run": asked.run,
            "flow": flow,
            "none": "run-none",
        }
        if route.id == "bulkCancelRuns":
            body = {"runIds": [known[name] for name in body["runIds"]]}
        sent = {} if body is None else {"json": body}
        answer = client.request(
            route.method, asked.path(route, flow), headers={"X-Request-Id": route.id}, **sent
        )
        assert answer.status_code in (200, 201, 202), answer.text
    found = asked.told("ours", route.id)
    who = asked.key.split("_")[1]
    assert all(
        (one.who, one.outcome) == (who, "not_found" if one.action == "refused" else "ok") for one in found
    )
    assert len(found) == len(wanted)
    for one, (action, what) in zip(sorted(found, key=lambda one: one.action), wanted, strict=True):
        assert one.action == action
        assert one.what in answer.text if what == NEW else one.what == known.get(what, what)


@pytest.mark.parametrize(
    "route", [one for one in ROUTES if "{run_id}" in one.path], ids=lambda route: route.id
)
def test_who_names_anothers_run_is_told_of_in_their_own_log(asked, route):
    body = ROWS[route.id][0]
    request = f"not-{route.id}"
    with asked.host.client(asked.other) as client:
        sent = {} if body is None else {"json": body}
        path = asked.path(route, asked.run)
        assert (
            client.request(route.method, path, headers={"X-Request-Id": request}, **sent).status_code == 404
        )
    (line,) = asked.told("theirs", request)
    assert (line.action, line.what, line.outcome) == ("refused", asked.run, "not_found")
    assert asked.told("ours", request) == []


def test_of_two_runs_the_one_that_is_not_theirs_is_told_of(asked):
    with asked.host.client(asked.key) as client:
        path = f"/v1/runs/{asked.run}:diff?against=run-none"
        assert client.get(path, headers={"X-Request-Id": "two"}).status_code == 404
    assert [(one.action, one.what) for one in asked.told("ours", "two")] == [("refused", "run-none")]
