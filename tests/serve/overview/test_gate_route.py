"""`POST …/runs/{id}:gate`: verdicts over REST, on both databases. tests/api/test_three_doors.py compares the doors."""

import pytest

from assay.serve.fep import comparison
from assay.serve.overview import gate
from support.evals import golden
from support.servers.openwop_client import finish_run, suite
from support.servers.rest_client import Server, request_of

SUITE = suite(golden("right", "Paris", "Paris"), golden("wrong", "Rome", "Paris"), name="gate")


@pytest.fixture(scope="module")
def host(database):
    with Server(database) as host:
        yield host


@pytest.fixture(scope="module")
def client(host):
    with host.client() as client:
        yield client


def scored(client, phrase, many=20):
    check = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": [phrase]}}
    return client.post("/v1/evaluate", json=request_of(many, [check])).json()["evaluation_id"]


@pytest.fixture(scope="module")
def runs(client):
    return {
        "good": scored(client, "Paris"),
        "bad": scored(client, "London"),
        "eval": finish_run(client, SUITE),
    }


def ask(client, run, body=None):
    path = f"/v1/host/assay/runs/{run}:gate"
    return client.post(path) if body is None else client.post(path, json=body)


@pytest.mark.parametrize(
    ("run", "body", "outcome", "code", "reason"),
    [
        ("good", {}, "passed", 0, "every case passed"),
        ("bad", {}, "failed", 3, "not every case passed"),
        ("bad", {"baseline": "good"}, "failed", 3, "it regressed against"),
        ("good", {"baseline": "bad", "policy": {"require": "improved"}}, "passed", 0, "it improved against"),
        (
            "good",
            {"policy": {"min_mean": 0.9, "decide_by": "lower"}},
            "failed",
            3,
            "the lower limit of the case pass rate is",
        ),
        ("good", {"policy": {"gate": {"min_mean": 0.1}, "agents": {}}}, "passed", 0, "at least 10.0%"),
        (
            "bad",
            {"policy": {"metric": "contains"}},
            "undecided",
            1,
            "no rule decides on the mean of contains",
        ),
        ("eval", {}, "failed", 3, "the scorecard of"),
        ("eval", {"policy": {"min_mean": 0.5}}, "passed", 0, "at least 0.5"),
    ],
)
def test_a_gate_has_one_verdict_and_one_sentence(client, runs, run, body, outcome, code, reason):
    body = {**body, "baseline": runs[body["baseline"]]} if "baseline" in body else body
    answer = ask(client, runs[run], body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["outcome"], found["exit_code"], found["run"]) == (outcome, code, runs[run])
    assert reason in found["reason"]
    assert found["level"]["cases"] == (2 if run == "eval" else 20)


def test_a_gate_without_a_body_decides_by_the_default_policy(client, runs):
    path = f"/v1/host/assay/runs/{runs['good']}:gate"
    assert client.post(path).json() == ask(client, runs["good"], {"policy": {"preset": "balanced"}}).json()


def test_the_changed_cases_have_their_reasons(client, runs):
    pair = ask(client, runs["bad"], {"baseline": runs["good"]}).json()["comparison"]
    assert (pair["worse"], pair["changes"][0]["data"]["reason_before"]) == (20, "passed")
    assert "expected a text that contains 'London'" in pair["changes"][0]["data"]["reason_after"]


REFUSED = [
    ({"baseline": "run-unknown"}, 404, "there is no run 'run-unknown'"),
    ({"baseline": "../x"}, 404, "there is no run '../x'"),
    ({"baseline": 7}, 400, "baseline"),
    ({"baseline": "{good}"}, 400, "baseline: expected another run"),
    ({"rules": {}}, 400, "rules: no such member; there are baseline, policy, allow_partial"),
    ({"policy": []}, 400, "policy"),
    (
        {"policy": {"minimum": 1}},
        400,
        "policy: minimum: no such member; there are preset,",
    ),
    ({"policy": {"x" * 100_000: 1}}, 400, "policy: xxx"),
    (
        {"policy": {"preset": "loose"}},
        400,
        "policy: preset: expected one of balanced, lenient, strict, got 'loose'",
    ),
    ({"policy": {"min_mean": "high"}}, 400, "policy: min_mean: expected a number or null, got a string"),
    ({"policy": {"require": "improved"}}, 400, "requires improved: expected baseline, the run to compare"),
    (
        {"policy": {"require": "equivalent"}, "baseline": "{bad}"},
        400,
        "policy: require: equivalent needs a margin",
    ),
    ({"policy": {"metric": "latency_ms:p95"}}, 400, "policy: metric: expected a metric with a mean"),
    ({"policy": {"metric": "tone"}}, 400, "policy: metric: no check is called 'tone'"),
    ({"policy": {"by": ["a:b"]}}, 400, "policy: by: expected tag"),
    (
        {"policy": {"by": ["colour"]}, "baseline": "{bad}"},
        400,
        "policy: by colour: no case has a value there",
    ),
    (
        {"policy": {"by": [f"t{at}" for at in range(11)]}},
        400,
        "policy: by: expected at most 10 names, got 11",
    ),
    ({"policy": {"by": ["t" * 301]}}, 400, "policy: by: expected names of at most 300 characters"),
    ({"policy": {"margin": 2}, "baseline": "{bad}"}, 400, "policy: margin: expected a number below 1"),
]


@pytest.mark.parametrize(("body", "status", "message"), REFUSED, ids=range(len(REFUSED)))
def test_a_bad_request_is_refused_with_its_reason(client, runs, body, status, message):
    if "baseline" in body:
        body = {
            **body,
            "baseline": str(body["baseline"]).format(**runs) if isinstance(body["baseline"], str) else 7,
        }
    answer = ask(client, runs["good"], body)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["message"]
    assert "--" not in answer.json()["message"]
    assert len(answer.text) < 2_000


def test_a_gate_of_a_run_that_has_not_ended_is_refused(client):
    check = {"type": "slow", "arguments": {"text": "$.output.value", "seconds": 60}}
    run = client.post("/v1/evaluations", json=request_of(1, [check])).json()["operation_id"]
    refused = ask(client, run)
    assert (refused.status_code, "expected a run that has ended" in refused.text) == (400, True)
    client.post(f"/v1/evaluations/{run}:cancel")


def test_an_erased_run_is_refused_although_its_numbers_were_read(client):
    run, other = scored(client, "Paris"), scored(client, "Paris")
    assert ask(client, run).status_code == ask(client, other, {"baseline": run}).status_code == 200
    assert client.delete(f"/v1/evaluations/{run}").status_code == 200
    for refused in (ask(client, run), ask(client, other, {"baseline": run})):
        assert (refused.status_code, "so it cannot be compared" in refused.text) == (400, True), refused.text


@pytest.mark.parametrize(
    ("scopes", "run", "baseline", "status"),
    [
        ({"evaluations:read"}, "good", None, 200),
        ({"evaluations:read"}, "eval", None, 403),
        ({"evaluations:read"}, "good", "eval", 403),
        ({"runs:read"}, "eval", None, 200),
        ({"runs:read"}, "eval", "good", 403),
        ({"runs:read"}, "good", None, 403),
        ({"manifest:read"}, "good", None, 403),
    ],
)
def test_each_run_needs_the_scope_of_its_kind(host, runs, scopes, run, baseline, status):
    with host.client(scopes=scopes) as client:
        answer = ask(client, runs[run], {"baseline": baseline and runs[baseline]})
    assert answer.status_code == status, answer.text


def test_a_baseline_of_another_tenant_is_not_found_like_an_unknown_one(host, runs):
    with host.client(tenant="other") as client:
        own = scored(client, "Paris")
        theirs, none = (ask(client, own, {"baseline": id}) for id in (runs["good"], "eval_unknown"))
    assert (theirs.status_code, none.status_code) == (404, 404)
    assert theirs.text.replace(runs["good"], "eval_unknown") == none.text


def test_a_comparison_of_an_agent_eval_needs_its_scope_too(host, runs):
    with host.client(scopes={"evaluations:read"}) as client:
        answer = client.get(f"/v1/evaluations/{runs['eval']}/comparison?baseline={runs['good']}")
    assert (answer.status_code, answer.json()["details"]) == (403, {"scopeRequired": "runs:read"})


def test_a_run_with_too_many_results_is_refused(client, runs, monkeypatch):
    monkeypatch.setattr(gate, "MAX_VIEW_RESULTS", 19)
    refused = ask(client, runs["good"])
    assert refused.status_code == 400
    assert "has 20 results; over HTTP at most 19 are compared: use `assay gate`" in refused.text


def test_a_host_without_the_packages_for_comparisons_gates_a_run_alone(client, runs, monkeypatch):
    monkeypatch.setattr(comparison, "missing_packages", lambda extra: ["numpy"])
    assert ask(client, runs["good"]).status_code == 200
    refused = ask(client, runs["good"], {"baseline": runs["bad"]})
    assert (refused.status_code, "this host has no comparisons" in refused.text) == (400, True)


def test_the_numbers_of_a_run_are_read_once(host, client, runs):
    """A second gate reads the reasons of the changed cases at most."""
    body = {"baseline": runs["good"]}
    first = ask(client, runs["bad"], body).json()
    read, whole = [], host.store.chunks

    async def chunks(run, kind, **part):
        read.append(part)
        return await whole(run, kind, **part)

    host.store.chunks = chunks
    try:
        assert (
            ask(client, runs["bad"], body | {"policy": {"preset": "strict"}}).json()["comparison"]
            == first["comparison"]
        )
        assert len(read) <= 2
        read.clear()
        assert ask(client, runs["bad"]).status_code == 200
        assert ask(client, runs["bad"], {"policy": {"min_mean": 0.5}}).status_code == 200
        assert len(read) <= 2
    finally:
        del host.store.chunks
