"""Who may do what: every route, for everybody who should not come in. A route without a row here fails."""

import re
from itertools import product
from typing import NamedTuple

import pytest

from assay.auth.keys import SCOPES
from assay.serve.application import ROUTES
from support.evals import AGENT, golden, suite_of
from support.packs import body_arguments, build_pack
from support.servers.rest_client import Server, invalid_keys, request_of, slow

EVALUATION = request_of(1)
SUITE = suite_of(golden("t", "x", "x"))
EVAL = {"mode": "eval", "evalSuiteRef": SUITE["suiteId"], "agentId": AGENT}

PACK = build_pack()
REGISTERED, ENDPOINT = "local.shop.registered", {"url": "http://127.0.0.1:9/agent"}

# By operation: the scope it needs (None: open to everybody), a body, whether it names a run.
ROWS = {
    "runEvaluation": ("evaluations:create", EVALUATION, False),
    "runBatch": ("evaluations:create", {"evaluations": [EVALUATION]}, False),
    "startEvaluation": ("evaluations:create", EVALUATION, False),
    "listEvaluations": ("evaluations:read", None, False),
    "getEvaluation": ("evaluations:read", None, True),
    "compareEvaluation": ("evaluations:read", None, True),
    "getComparison": ("evaluations:read", None, True),
    "listComparedCases": ("evaluations:read", None, True),
    "getComparisonGrid": ("evaluations:read", None, True),
    "getComparisonDiff": ("evaluations:read", None, True),
    "followEvaluation": ("evaluations:read", None, True),
    "cancelEvaluation": ("evaluations:cancel", {}, True),
    "getOperation": ("evaluations:read", None, True),
    "listChecks": ("evaluations:read", None, False),
    "eraseEvaluation": ("runs:delete", None, True),
    "eraseRun": ("runs:delete", None, True),
    "healthCheck": (None, None, False),
    "readinessProbe": (None, None, False),
    "livenessProbe": (None, None, False),
    "getMetrics": ("metrics:read", None, False),
    "getOpenAPI": (None, None, False),
    "getDocs": (None, None, False),
    "getCapabilities": (None, None, False),
    "getAsyncAPI": (None, None, False),
    "createRun": ("runs:create", EVAL, False),
    "getRun": ("runs:read", None, True),
    "getEvalSummary": ("runs:read", None, True),
    "getEvalReport": ("runs:read", None, True),
    "streamRunEvents": ("runs:read", None, True),
    "pollRunEvents": ("runs:read", None, True),
    "cancelRun": ("runs:cancel", {}, True),
    "cancelRunByVerb": ("runs:cancel", {}, True),
    "bulkCancelRuns": ("runs:cancel", {"runIds": ["run-unknown"]}, False),
    "forkRun": ("runs:create", {"mode": "replay"}, True),
    "resolveInterrupt": ("approvals:respond", {"resumeValue": {"action": "accept"}}, True),
    "getRunAncestry": ("runs:read", None, True),
    "getWorkflow": ("manifest:read", None, False),
    "getVerification": ("runs:read", None, True),
    "listTurns": ("runs:read", None, True),
    "diffRuns": ("runs:read", None, True),
    "annotateRun": ("", {"signal": {"kind": "flag"}}, True),
    "listAnnotations": ("runs:read", None, True),
    "annotateEvaluation": ("", {"signal": {"kind": "flag"}}, True),
    "listEvaluationAnnotations": ("evaluations:read", None, True),
    "listAgents": ("manifest:read", None, False),
    "getAgent": ("manifest:read", None, False),
    "listDeployments": ("manifest:read", None, False),
    "transitionDeployment": ("", {"version": "0.0.0", "transition": "promote"}, False),
    "putSuite": ("suites:write", SUITE, False),
    "listSuites": ("suites:read", None, False),
    "suiteHistory": ("runs:read", None, False),
    "getSuite": ("suites:read", None, False),
    "queryRuns": ("", {}, False),
    "watchRuns": ("", {"waitSeconds": 0}, False),
    "getCase": ("", None, True),
    "searchCases": ("", {"text": "x"}, True),
    "getRunOverview": ("", None, True),
    "getRunSlices": ("", None, True),
    "getRunDistributions": ("", None, True),
    "queryRunHistory": ("", {"name": "x", "kind": "agent-eval"}, False),
    "getReview": ("", None, True),
    "drawReview": ("", {}, True),
    "queryCases": ("", {}, True),
    "gateRun": ("", {"policy": {"preset": "strict"}}, True),
    "listRuns": ("runs:read", None, False),
    "listTraceWindows": ("evaluations:read", None, False),
    "registerAgent": ("agents:write", ENDPOINT, False),
    "listRegisteredAgents": ("manifest:read", None, False),
    "getRegisteredAgent": ("manifest:read", None, False),
    "removeAgent": ("agents:write", None, False),
    "createKey": ("keys:manage", {}, False),
    "listKeys": ("keys:manage", None, False),
    "revokeKey": ("keys:manage", None, False),
    "publishPack": ("packs:publish", PACK.tarball, False),
    "verifyPack": ("packs:publish", PACK.tarball, False),
    "listPacks": ("manifest:read", None, False),
    "getPack": ("manifest:read", None, False),
    "removePack": ("packs:yank", None, False),
    "getSession": ("", None, False),
    "getSignIn": (None, None, False),
    "createSession": (None, {"code": "assay_code_unknown"}, False),
    "endSession": ("", None, False),
    "createSessionCode": ("", {}, False),
    "exportTraces": ("traces:write", {"resourceSpans": []}, False),
    "exportLogs": ("traces:write", {"resourceLogs": []}, False),
}
ALSO = {
    "forkRun": {"runs:read"},
    "queryRuns": {"runs:read"},
    "watchRuns": {"runs:read"},
    "getCase": {"runs:read"},
    "searchCases": {"runs:read"},
    "getRunOverview": {"runs:read"},
    "getRunSlices": {"runs:read"},
    "getRunDistributions": {"runs:read"},
    "queryRunHistory": {"runs:read"},
    "getReview": {"runs:read"},
    "drawReview": {"runs:read"},
    "queryCases": {"runs:read"},
    "gateRun": {"runs:read"},
    "transitionDeployment": {"deploy:promote"},
}  # a scope by the body of the request
CLOSED = [route for route in ROUTES if ROWS.get(route.id, ("",))[0] is not None]
NAMING = [route for route in ROUTES if ROWS.get(route.id, ("", None, False))[2]]


def name_of(route):
    return route.id


@pytest.fixture(scope="module")
def host(database):
    traces = {"support": {"checks": [{"contains": "x"}]}}
    with Server(database, keys_known_for=0, seeded=True, traces=traces) as host:
        yield host


@pytest.fixture(scope="module")
def keys(host):
    return invalid_keys(host)


class Ours(NamedTuple):
    """What routes name: an evaluation and a run of our tenant that have ended; or ids that never were."""

    evaluation: str
    run: str
    flow: str  # of a workflow, and it waits
    erased_evaluation: str = "eval_unknown"  # an evaluation and a run that are erased
    erased_run: str = "run-unknown"
    key: str = "unknownx"  # the id of a key

    def filled(self, path):
        for place in ("{evaluation_id}", "{operation_id}"):
            path = path.replace(place, self.evaluation)
        if path.endswith(("{node_id}", "/verification", "/turns")):
            path = path.replace("{run_id}", self.flow)
        path = path.replace("/host/assay/agents/{agent_id}", f"/host/assay/agents/{REGISTERED}")
        path = path.replace("{run_id}", self.run).replace("{agent_id}", AGENT)
        path = path.replace("{node_id}", "gate").replace("{workflow_id}", "conformance-noop")
        path = (
            path.replace("{suite_id}", SUITE["suiteId"])
            .replace("{position}", "0")
            .replace("{project}", "support")
        )
        path = path.replace("{suite_ref}", SUITE["suiteId"]).replace("{pack_ref}", PACK.manifest.key)
        path = path.replace("{key_id}", self.key)
        if "/host/assay/comparison" in path:
            return f"{path}?runs={self.evaluation},{self.evaluation}"
        if path.endswith("/comparison"):
            return f"{path}?baseline={self.evaluation}"
        return f"{path}?against={self.run}" if path.endswith(":diff") else path


UNKNOWN = Ours("eval_unknown", "run-unknown", "run-unknown")


def complete_run(client):
    run = client.post("/v1/runs", json=EVAL).json()["runId"]
    while not client.get(f"/v1/runs/{run}/events/poll?lastSequence=100&timeout=1").json()["isComplete"]:
        pass
    return run


@pytest.fixture(scope="module")
def ours(host):
    with host.client() as client:
        done = client.post("/v1/evaluate", json=EVALUATION).json()["evaluation_id"]
        assert client.post("/v1/host/assay/suites", json=SUITE).status_code == 201
        assert client.post("/v1/host/assay/packs", **body_arguments(PACK.tarball)).status_code == 201
        agent = client.put(f"/v1/host/assay/agents/{REGISTERED}", json=ENDPOINT)
        assert agent.status_code == 201
        run = complete_run(client)
        flow = client.post("/v1/runs", json={"workflowId": "conformance-approval"}).json()["runId"]
        while client.get(f"/v1/runs/{flow}").json()["status"] != "waiting-approval":
            pass
        spare = client.post("/v1/evaluate", json=EVALUATION).json()["evaluation_id"]
        key = client.post("/v1/host/assay/keys", json={}).json()["id"]
        return Ours(done, run, flow, spare, complete_run(client), key)


def ask(client, route, named=UNKNOWN):
    if route.id.startswith("erase"):
        named = named._replace(evaluation=named.erased_evaluation, run=named.erased_run)
    return client.request(route.method, named.filled(route.path), **body_arguments(ROWS[route.id][1]))


def test_every_route_has_a_row_and_every_row_a_route():
    assert {route.id for route in ROUTES} == ROWS.keys()
    assert {route.id: route.scope for route in ROUTES} == {id: row[0] for id, row in ROWS.items()}


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("none", "unauthenticated"),
        ("invented", "unauthenticated"),
        ("no key at all", "unauthenticated"),
        ("cut off", "unauthenticated"),
        ("expired", "key_expired"),
        ("revoked", "key_revoked"),
    ],
)
def test_a_request_without_a_valid_key_is_401(host, keys, ours, key, code):
    with host.client(key=keys[key]) as client:
        for route, run in product(CLOSED, (ours, UNKNOWN)):  # the answer does not show whether there is one
            answer = ask(client, route, run)
            assert (answer.status_code, answer.json()["error"]) == (401, code), route.id
            assert answer.headers["www-authenticate"].startswith("Bearer"), route.id
            assert keys[key] == "" or keys[key] not in answer.text, route.id


OPEN = {
    "/v1/health",
    "/v1/ready",
    "/v1/live",
    "/v1/openapi.json",
    "/v1/docs",
    "/v1/asyncapi.json",
    "/.well-known/openwop",
    "/v1/host/assay/session:exchange",
    "/v1/host/assay/sign-in",
}
UNSERVED = [
    "/v1/",
    "/v1/nothing",
    "/v1//health",
    "/v1/runs/r/artifacts/a",
    "/v1/runs/r:stop",
    "/v1/packsx",
    "/v1/host/sample/x",
]


def test_an_unknown_path_without_a_valid_key_is_401(host, keys):
    asked = list(product(["GET", "POST", "DELETE"], UNSERVED))
    for key in keys.values():
        with host.client(key=key) as client:
            assert {(client.request(*one).status_code, *one) for one in asked} == {
                (401, *one) for one in asked
            }
    with host.client(scopes=set()) as client:
        assert {(client.request(*one).status_code, *one) for one in asked} == {(404, *one) for one in asked}


REGISTRY = ["/v1/packs", "/v1/packs/", "/v1/packs/x", "/v1/packs/core.x/-/1.0.0.tgz", "/v1/packs/-/search"]


def test_the_registry_of_packs_is_not_served(host, keys):
    """In plain text: a client takes JSON, and a 401, for a registry."""
    asked = list(product(["GET", "HEAD", "POST", "PUT", "DELETE"], REGISTRY))
    for key in ("", None, *keys.values()):
        with host.client(key=key) as client:
            for one in asked:
                answer = client.request(*one)
                found = (answer.status_code, answer.headers["content-type"])
                assert found == (404, "text/plain; charset=utf-8"), one


def test_public_routes_are_one_table(host):
    assert {route.path for route in ROUTES if route.scope is None} == OPEN
    with host.client(key="") as client:
        for route in ROUTES:  # a method that it has not
            status = client.request("PATCH", UNKNOWN.filled(route.path)).status_code
            assert status == (405 if route.path in OPEN else 401), route.path
        assert client.get("/nothing").status_code == 404


@pytest.mark.sample(2)
@pytest.mark.parametrize("route", [route for route in CLOSED if route.scope], ids=name_of)
def test_a_key_without_the_scope_is_forbidden(host, ours, route):
    scopes = frozenset(SCOPES) - {route.scope}
    with host.client(scopes=scopes) as client:
        answer = ask(client, route, ours)
        assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
        assert answer.json()["details"] == {"scopeRequired": route.scope}


@pytest.mark.sample(2)
@pytest.mark.parametrize("route", CLOSED, ids=name_of)
def test_the_scope_alone_is_enough(host, ours, route):
    with host.client(scopes={route.scope, *ALSO.get(route.id, ())} - {""}) as client:
        assert ask(client, route, ours).status_code in (200, 201, 202, 409)


@pytest.mark.parametrize("route", [route for route in ROUTES if ROWS[route.id][0] is None], ids=name_of)
def test_public_routes_need_no_key(host, keys, route):
    for key in keys.values():
        with host.client(key=key) as client:
            assert ask(client, route).status_code == (401 if route.id == "createSession" else 200)


@pytest.mark.parametrize("route", NAMING, ids=name_of)
def test_a_run_of_another_tenant_is_not_found_like_an_unknown_one(host, ours, route):
    with host.client(tenant="other") as client:
        unknown = Ours(*(one[:5] + "0" * (len(one) - 5) for one in ours))
        theirs, none = ask(client, route, ours), ask(client, route, unknown)
    assert (theirs.status_code, none.status_code) == (404, 404)
    text = theirs.text
    for one, other in zip(ours[:5], unknown[:5], strict=True):
        text = text.replace(one, other)
    assert text == none.text
    apart = {"date", "x-request-id"}
    assert {k: v for k, v in theirs.headers.items() if k not in apart} == {
        k: v for k, v in none.headers.items() if k not in apart
    }


def test_a_running_run_is_not_cancelled_listed_or_followed_by_another_tenant(host):
    with host.client() as client, host.client(tenant="other") as other:
        run = client.post("/v1/evaluations", json=request_of(3, [slow(60)])).json()["operation_id"]
        for route in NAMING:
            assert ask(other, route, Ours(run, run, run)).status_code == 404
        assert run not in other.get("/v1/evaluations").text
        assert client.get(f"/v1/operations/{run}").json()["status"] in ("pending", "running")
        client.post(f"/v1/evaluations/{run}:cancel")


@pytest.mark.parametrize(
    ("path", "named"), [("/v1/evaluations", "next_page_token"), ("/v1/host/assay/runs", "nextPageToken")]
)
def test_a_page_token_of_another_tenant_is_refused(host, ours, path, named):
    with host.client() as client, host.client(tenant="other") as other:
        for _ in range(2):
            client.post("/v1/evaluate", json=EVALUATION)
        token = client.get(f"{path}?page_size=1").json()[named]
        assert client.get(f"{path}?page_size=1&page_token={token}").status_code == 200
        assert other.get(f"{path}?page_size=1&page_token={token}").status_code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/evaluate", EVALUATION),
        ("/v1/evaluations", EVALUATION),
        ("/v1/evaluate:batch", {"evaluations": [EVALUATION]}),
        ("/v1/runs", {"workflowId": "conformance-noop"}),
    ],
    ids=["run", "start", "batch", "workflow"],
)
def test_an_idempotency_key_belongs_to_its_tenant(host, path, body):
    once = {"Idempotency-Key": "the same"}
    with host.client(tenant="one") as one, host.client(tenant="two") as two:
        first, again, others = [client.post(path, json=body, headers=once) for client in (one, one, two)]
    assert first.status_code == again.status_code == others.status_code
    named = [set(re.findall(r"(?:eval_|run-)\w+", answer.text)) for answer in (first, again, others)]
    assert named[0] == named[1]
    assert named[0].isdisjoint(named[2])
    assert "openwop-idempotent-replay" not in others.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": "{key}"},
        {"Authorization": "Bearer {key}"},
        {"Authorization": "bearer {key}"},
        {"Authorization": "Bearer {key}", "X-API-Key": "{key}"},
    ],
)
def test_a_key_is_read_from_either_header(host, headers):
    key = host.key()
    with host.client(key="") as client:
        sent = {name: value.format(key=key) for name, value in headers.items()}
        assert client.get("/v1/checks", headers=sent).status_code == 200
        two = {"Authorization": f"Bearer {key}", "X-API-Key": host.key(tenant="other")}
        assert client.get("/v1/checks", headers=two).status_code == 401
        assert client.get("/v1/checks", headers={"Authorization": f"Basic {key}"}).status_code == 401


@pytest.mark.parametrize("name", ["X-API-Key", "Authorization"])
def test_two_keys_in_one_request_are_refused(host, name):
    """Else one of a client's own would stand beside the one a proxy put there, and who is asking were a matter of order."""
    keys = [host.key(), host.key(tenant="other")]
    lines = [(name, f"Bearer {key}" if name == "Authorization" else key) for key in keys]
    with host.client(key="") as client:
        for headers in (lines, lines[::-1], [lines[0], lines[0]]):
            assert client.get("/v1/checks", headers=headers).status_code == 401
        assert client.get("/v1/checks", headers=lines[:1]).status_code == 200


# FEP-39: what a request cannot make the server do.


@pytest.mark.parametrize(
    "check",
    [
        {"type": "llm_judge", "arguments": {"prompt": "x", "response_format": {"type": "object"}, "provider_config": {"base_url": "http://169.254.169.254/"}}},
        {"type": "llm_judge", "arguments": {"prompt": "x", "response_format": {"type": "object"}, "provider_config": {"api_key": "${HOME}"}}},
        {"type": "os:system", "arguments": {"command": "id"}},
        {"type": "json_schema", "arguments": {"value": "$.output.value", "schema": {"$ref": "file:///etc/passwd"}}},
        {"type": "json_schema", "arguments": {"value": "$.output.value", "schema": {"$ref": "http://127.0.0.1:1/x"}}},
    ],
)  # fmt: skip
def test_no_request_makes_the_server_fetch_read_or_execute(host, check):
    with host.client() as client:
        answer = client.post("/v1/evaluate", json=request_of(1, [check]))
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:  # it is then the check's own answer, and nothing was fetched
        (result,) = answer.json()["results"][0]["check_results"]
        assert result["status"] == "error"
    assert "root:" not in answer.text
