"""The OpenAPI document is the routes, both ways; and schemathesis finds nothing in it that is not so."""

import re
from pathlib import Path
from typing import get_args

import httpx
import pytest
from hypothesis import HealthCheck, Phase, settings
from msgspec import json as wire

from assay import errors
from assay.auth.keys import SCOPES
from assay.packs.archive import Code
from assay.serve.application import ROUTES, http_schemas
from assay.serve.page.routes import FILES
from assay.serve.web.openapi import ERRORS, HEADERS, TAGS, document
from assay.serve.web.responses import STATUS
from support.evals import FunctionAgent
from support.servers.rest_client import Server, request_of, slow, sqlite
from support.spec_files import SHARED, needs_shared
from support.waiting import PATIENCE

DOCUMENT = document(ROUTES, http_schemas())


def test_the_document_has_exactly_the_routes():
    documented = {
        (method.upper(), path, operation["operationId"])
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }
    assert documented == {(route.method, route.path, route.id) for route in ROUTES}


def test_the_server_answers_exactly_at_the_documented_paths(host):
    served = {re.sub(r":part\}", "}", route.path) for route in host.app.router.routes}
    files = {route.path for route in FILES}  # of the page: for a browser, not for a client
    assert served == DOCUMENT["paths"].keys() | files
    assert httpx.get(f"{host.url}/v1/openapi.json", timeout=60).json() == wire.decode(wire.encode(DOCUMENT))


def test_the_document_is_openapi_3_1_and_every_reference_resolves():
    assert re.match(r"^3\.[1-9]", DOCUMENT["openapi"])
    text = wire.encode(DOCUMENT).decode()
    for place in re.findall(r'"\$ref":"#/([^"]+)"', text):
        found = DOCUMENT
        for part in place.split("/"):
            found = found[part]
    assert '"nullable"' not in text
    for name in HEADERS:
        assert f"#/components/headers/{name}" in text


def test_every_operation_has_its_scope_and_errors():
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        assert bool(operation["security"]) == (route.scope is not None)
        wanted = {"429", "500", "503"} | (set() if route.scope is None else {"401", "403"})
        assert wanted <= operation["responses"].keys()
        assert {int(status) for status in operation["responses"]} <= ERRORS.keys() | route.responses.keys()


def test_every_request_body_is_documented():
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        reads = route.method in ("POST", "PUT") and route.id != "createSessionCode"
        assert ("requestBody" in operation) == reads, route.id
    options = DOCUMENT["components"]["schemas"]["BatchOptions"]["properties"]
    assert (options["max_concurrent"]["minimum"], options["timeout_ms"]["minimum"]) == (1, 1)


def test_the_rest_page_has_every_status_with_its_codes():
    page = (Path(__file__).parents[3] / "docs" / "rest.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", page, re.MULTILINE)
    documented = {int(status): set(re.findall(r"`([a-z_]+)`", codes)) for status, codes in rows}
    codes = {status: set[str]() for status in STATUS.values()}
    for kind, status in STATUS.items():
        codes[status] |= {kind.code} if kind is not errors.EnvironmentFailure else {"unavailable"}
    codes[403] = {"forbidden", "eval_gate_unmet", "mock_provider_forbidden", "force_engine_version_forbidden"}
    codes[400] |= {"unsupported_stream_mode", "no_active_deployment"}
    too_large = {"tarball_too_large", "tarball_entry_too_large"}
    with_manifest = {
        "manifest_name_mismatch",
        "manifest_version_mismatch",
    }  # a client sends no version manifest
    codes[400] |= set(get_args(Code)) - too_large - with_manifest
    codes[413] |= too_large
    codes[422] = {"invalid_from_seq", "replay_memory_snapshot_unavailable"}
    codes |= {500: {"internal_error"}, 401: set(get_args(errors.KeyTrouble))}
    assert documented == codes
    routes = re.findall(r"^\| `(\w+) (\S+)` \| (?:`(\S+)`|none|any key) \|", page, re.MULTILINE)
    assert set(routes) == {(route.method, route.path, route.scope or "") for route in ROUTES}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("openapi"))) as host:
        yield host


def test_every_route_has_a_group_and_the_title_both_protocols():
    groups = {tag["name"] for tag in DOCUMENT["tags"]}
    used = {
        tag
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
        for tag in operation["tags"]
    }
    assert groups == used == set(TAGS) - {"conformance"}
    assert all(name in DOCUMENT["info"]["title"] for name in ("FEP", "OpenWOP"))


WANTED = {
    "createRun": 201,
    "putSuite": 201,
    "registerAgent": 201,
    "createKey": 201,
    "annotateRun": 201,
    "forkRun": 201,
    "startEvaluation": 202,
    "createSession": 401,
}


def test_the_example_bodies_of_the_document_work(tmp_path):
    """In the order of a client: the suite before its run, and the run before what names it."""
    agent = FunctionAgent(lambda task: task, agent_id="local.shop.answer")
    with (
        Server(sqlite(tmp_path), agents=[agent], seeded=True) as host,
        host.client(scopes=SCOPES) as client,
    ):
        names = {
            "agent_id": "local.shop.answer",
            "evaluation_id": client.post("/v1/evaluations", json=request_of(1, [slow(60)])).json()[
                "operation_id"
            ],
        }
        waits = client.post("/v1/runs", json={"workflowId": "conformance-approval"}).json()["runId"]
        while client.get(f"/v1/runs/{waits}").json()["status"] != "waiting-approval":
            pass
        names |= {"run_id": waits, "node_id": "gate"}
        last = {"cancelRun": 2, "cancelRunByVerb": 3, "createRun": 1, "putSuite": -1}
        tried = []
        for route in sorted(
            (route for route in ROUTES if route.body), key=lambda route: last.get(route.id, 0)
        ):
            operation = DOCUMENT["paths"][route.path][route.method.lower()]
            content = operation["requestBody"]["content"]["application/json"]
            if route.id in (
                "annotateRun",
                "annotateEvaluation",
                "drawReview",  # of a run with a judge: tests/serve/overview/test_review.py
                "forkRun",
                "gateRun",
                "queryCases",
                "searchCases",
            ):
                continue  # of the run that is made below
            agent = {"agent_id": "local.shop.bot"} if route.id == "registerAgent" else {}
            path = route.path.format(**names | agent)
            answer = client.request(route.method, path, json=content["example"])
            tried.append((route.id, answer.status_code))
            assert answer.status_code == WANTED.get(route.id, 200), answer.text
        run = client.post(
            "/v1/runs", json=DOCUMENT["components"]["schemas"]["RunRequest"]["examples"][0]
        ).json()["runId"]
        while not client.get(f"/v1/runs/{run}/events/poll?lastSequence=100&timeout=1").json()["isComplete"]:
            pass
        assert client.get(f"/v1/runs/{run}/eval-summary").json()["passed"] is True
        for path, schema, status in (
            (f"/v1/runs/{run}/annotations", "AnnotationCreate", 201),
            (f"/v1/runs/{run}:fork", "ForkRequest", 201),
            (f"/v1/host/assay/runs/{run}:gate", "GateRequest", 200),
            (f"/v1/host/assay/runs/{run}/cases:query", "CasesQuery", 200),
            (f"/v1/host/assay/runs/{run}/cases:search", "SearchBody", 200),
        ):
            example = DOCUMENT["components"]["schemas"][schema]["examples"][0]
            assert client.post(path, json=example).status_code == status, path
        assert len(tried) > 8


LINES = "application/x-ndjson"  # of which a schema says only that it is text: written down, what is none is text too


def test_a_head_without_lines_is_a_completed_empty_run(host):
    """FEP-36. It is what schemathesis writes down for an object where text is wanted."""
    headers = {"X-API-Key": _key(host), "Content-Type": LINES}
    answer = httpx.post(f"{host.url}/v1/evaluate", content=b"{}", headers=headers, timeout=60)
    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["results"]) == ("completed", [])


GZIP = "application/gzip"


def as_lines(_, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def api():
    import schemathesis  # a second that only the process of these tests needs
    from schemathesis.checks import load_all_checks

    load_all_checks()
    schemathesis.serializer(LINES)(as_lines)
    schemathesis.serializer(GZIP)(as_lines)
    schemathesis.serializer("application/x-protobuf")(as_lines)
    return schemathesis.openapi.from_dict(DOCUMENT)


@pytest.mark.sample(10)  # to think of cases takes long; other files send every route bad and hostile values
@pytest.mark.parametrize("route", ROUTES, ids=[route.id for route in ROUTES])
def test_schemathesis(route, api, host, series):
    """By hand what `api.parametrize()` does as tests are collected, which is in every process: to think of cases takes long."""
    from schemathesis.generation.feedback import FeedbackSources
    from schemathesis.pytest._test_builder import build_operation_test

    @settings(
        max_examples=series(2, 40), deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def bounded(case, host):
        conforms(case, host)

    tried = build_operation_test(
        config=api.config,
        operation=api[route.path][route.method],
        test_func=bounded,
        given_kwargs={},
        feedback=FeedbackSources(),
    )
    tried(host=host)


def as_number(value):
    return value if isinstance(value, int | float) and not isinstance(value, bool) else -1


def conforms(case, host):
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    key = _key(host)
    body = case.body
    if (
        isinstance(body, dict)
        and case.path.endswith("runs:changes")
        and 0 <= as_number(body.get("waitSeconds", 20)) <= 25
    ):
        body["waitSeconds"] = 0  # a right body waits for changes: to wait forty times shows no more
    # What schemathesis finds and a spec allows; FEP-33: lengths that differ, unknown types, literals that
    # do not fit: between members, so no schema says it
    allowed = [positive_data_acceptance, *([negative_data_rejection] if case.media_type == LINES else [])]
    case.call_and_validate(
        base_url=host.url,
        headers={"X-API-Key": key, "Authorization": f"Bearer {key}"},
        excluded_checks=allowed,
        timeout=PATIENCE,
    )


_keys: dict = {}


def _key(host):
    if host.url not in _keys:
        _keys[host.url] = host.key()
    return _keys[host.url]


@needs_shared
def test_versions_and_page_tokens_are_as_the_specification_says():
    parts = DOCUMENT["components"]
    assert parts["securitySchemes"]["BearerAuth"]["bearerFormat"] == "JWT"
    version, null = parts["schemas"]["Check"]["properties"]["version"]["anyOf"]
    assert null == {"type": "null"}
    text = (SHARED / "spec" / "fep-0.0.1.md").read_text("utf-8")
    assert f"pattern: '{version['pattern']}'" in text
