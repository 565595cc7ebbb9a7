"""Runs of every kind over REST: the list, one run, its cases, one case, search (decisions 0068, 0069)."""

import time

import pytest

from support.evals import golden, rubric
from support.openwop_client import done, suite
from support.rest_client import Server, request_of, sqlite

MIXED = suite(
    golden("exact", "Paris", "Paris"),
    golden("wrong", "Rome", "Paris"),
    rubric("kind", ("greets", 0.75), ("names a step", 0.25), input="hello"),
    modes=("golden", "rubric"), name="mixed", thresholds={"passScore": 0.8},
)  # fmt: skip


def judge(ask):
    return {
        "criterion_1": {"reason": "it says hello", "met": True},
        "criterion_2": {"reason": "no step at all", "met": False},
    }


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("overview")), judge=judge, seeded=True) as host:
        yield host


@pytest.fixture(scope="module")
def client(host):
    with host.client() as client:
        yield client


@pytest.fixture(scope="module")
def runs(client):
    """Some runs of each kind: an evaluation, a baseline, an eval with trials."""
    evaluation = client.post(
        "/v1/evaluate", json=request_of(5) | {"experiment_metadata": {"name": "first experiment"}}
    ).json()["evaluation_id"]
    baseline = done(client, MIXED)
    repeated = done(client, MIXED, trials=2)
    workflow = client.post("/v1/runs", json={"workflowId": "conformance-noop", "tags": ["night"]})
    assert workflow.status_code == 201, workflow.text
    return {
        "evaluation": evaluation, "baseline": baseline, "repeated": repeated, "workflow": workflow.json()["runId"]
    }  # fmt: skip


def post(client, path, **body):
    answer = client.post(f"/v1/host/assay/runs{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client, path, **body):
    answer = client.post(f"/v1/host/assay/runs{path}", json=body)
    assert answer.status_code == 400, answer.text
    return answer.json()["message"]


def test_the_list_has_runs_of_every_kind(client, runs):
    found = post(client, ":query", counts=True)
    rows = {row["runId"]: row for row in found["runs"]}
    assert set(runs.values()) <= set(rows)
    evaluation = rows[runs["evaluation"]]
    assert (evaluation["kind"], evaluation["name"], evaluation["total"]) == (
        "evaluation",
        "first experiment",
        5,
    )
    assert evaluation["score"]["name"] == "case pass rate"
    assert evaluation["score"]["low"] < evaluation["score"]["value"] <= evaluation["score"]["high"]
    assert evaluation["counts"] == {"passed": 5, "failed": 0, "ungraded": 0, "error": 0, "skipped": 0}
    assert evaluation["passed"] is None
    repeated = rows[runs["repeated"]]
    assert (repeated["trials"], repeated["total"], repeated["passed"]) == (2, 3, False)
    assert repeated["counts"] == {"passed": 1, "failed": 2, "ungraded": 0, "error": 0, "skipped": 0}
    assert repeated["score"]["value"] == pytest.approx((1 + 0 + 0.75) / 3)
    assert rows[runs["workflow"]]["tags"] == ["night"]
    assert found["counts"]["byKind"] == {"agent-eval": 2, "evaluation": 1, "workflow": 1}
    assert found["counts"]["total"] == 4
    assert set(found["kinds"]) >= {"evaluation", "agent-eval", "workflow"}


@pytest.mark.parametrize("by", ["created", "score", "cost", "duration"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_are_stable_in_every_order(client, runs, by, order):
    sort = {"by": by, "order": order}
    whole = [row["runId"] for row in post(client, ":query", sort=sort)["runs"]]
    seen, cursor = [], None
    while True:
        page = post(client, ":query", sort=sort, limit=1, **({"cursor": cursor} if cursor else {}))
        seen += [row["runId"] for row in page["runs"]]
        cursor = page.get("next")
        if cursor is None:
            break
    assert seen == whole
    assert set(whole) >= set(runs.values())


def test_filters_groups_and_scans(client, runs):
    def ids(**filter):
        return {row["runId"] for row in post(client, ":query", filter=filter)["runs"]}

    assert ids(kind=["evaluation"]) == {runs["evaluation"]}
    assert ids(passed=False) == {runs["baseline"], runs["repeated"]}
    assert ids(name=MIXED["suiteId"]) == {runs["baseline"], runs["repeated"]}
    assert ids(tag="night") == ids(text="NIGHT") == {runs["workflow"]}
    assert ids(text="First Exp") == {runs["evaluation"]}
    assert ids(status=["failed"]) == set()
    found = post(client, ":query", filter={"text": "nothing has this"})
    assert found["runs"] == []
    assert (found["looked"]["complete"], found["looked"]["runs"]) == (True, 4)
    groups = post(client, ":query", groupBy="name")["groups"]
    assert {(one["name"], one["count"]) for one in groups} >= {(MIXED["suiteId"], 2), ("first experiment", 1)}


def test_a_list_is_followed_by_its_changes(client, runs):
    (row,) = post(client, ":query", limit=1)["runs"]
    watched = [
        {"runId": row["runId"], "version": row["version"]},
        {"runId": runs["baseline"], "version": "old"},
    ]
    since = row["createdAt"]
    first = post(client, ":changes", since=since, watch=watched)
    assert [one["runId"] for one in first["changed"]] == [runs["baseline"]]
    assert first["created"] == []
    began = time.monotonic()
    none = post(client, ":changes", since=since, watch=watched[:1], waitSeconds=0)
    assert (none["changed"], none["created"]) == ([], [])
    assert time.monotonic() - began < 10


def test_a_key_sees_the_kinds_of_its_scopes_and_its_tenant_only(host, runs):
    with host.client(scopes={"evaluations:read"}) as client:
        found = post(client, ":query", counts=True)
        assert found["kinds"] == ["evaluation"]
        assert [row["runId"] for row in found["runs"]] == [runs["evaluation"]]
        assert found["counts"]["byKind"] == {"evaluation": 1}
    with host.client(tenant="other") as client:
        assert post(client, ":query", counts=True)["counts"]["total"] == 0
    with host.client(scopes={"suites:read"}) as client:
        answer = client.post("/v1/host/assay/runs:query", json={})
        assert (answer.status_code, answer.json()["details"]) == (403, {"scopeRequired": "runs:read"})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"filter": {"kind": ["evals"]}},
            "expected one of evaluation, agent-eval, workflow, deployment, got 'evals'",
        ),
        ({"filter": {"stauts": []}}, "stauts"),
        ({"sort": {"by": "name"}}, "sort.by"),
        ({"limit": 0}, "limit"),
        ({"cursor": "x"}, "cursor: expected `next` of an answer to the same query"),
        ({"groupBy": "name", "filter": {"text": "x"}}, "groupBy: expected no sort, cursor"),
        ({"filter": {"name": "a\0b"}}, "filter.name: expected a name without NUL"),
    ],
)
def test_a_bad_query_is_refused_with_its_place(client, body, said):
    assert said in refused(client, ":query", **body)
