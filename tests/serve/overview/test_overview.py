"""Runs of every kind over REST: the list, one run, its cases, one case, search (ADR-0068, ADR-0069)."""

import time
from datetime import UTC, datetime

import pytest

from assay.backends.stores.memory import MemoryStore
from assay.ports import CaseTotals, Run
from assay.ports.kinds import EXTERNALLY_DRIVEN
from assay.runs.run_statistics import CaseCounts
from assay.serve.overview.run_rows import MAX_LIVE, RunRows
from support.canaries import Canaries
from support.evals import golden, rubric
from support.servers.openwop_client import finish_run, log_of, suite
from support.servers.rest_client import Server, request_of, slow

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
def host(database):
    with Server(database, judge=judge, seeded=True) as host:
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
    baseline = finish_run(client, MIXED)
    repeated = finish_run(client, MIXED, trials=2)
    workflow = client.post("/v1/runs", json={"workflowId": "conformance-noop", "tags": ["night"]})
    assert workflow.status_code == 201, workflow.text
    noop = workflow.json()["runId"]
    log_of(client, noop)  # to its end: its duration is known
    return {"evaluation": evaluation, "baseline": baseline, "repeated": repeated, "workflow": noop}


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


@pytest.mark.sample(2)
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
    none = post(client, ":changes", since=since, watch=watched[:1], waitSeconds=0)
    assert (none["changed"], none["created"]) == ([], [])


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
    ("body", "message"),
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
def test_a_bad_query_returns_400_with_its_place(client, body, message):
    assert message in refused(client, ":query", **body)


def overview(client, run):
    answer = client.get(f"/v1/host/assay/runs/{run}/overview")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_overview_has_the_verdict_and_its_reason(client, runs):
    found = overview(client, runs["repeated"])
    assert found["run"]["passed"] is False
    (bar,) = found["bars"]
    assert (bar["name"], bar["required"], bar["met"], bar["decided"]) == ("passScore", 0.8, False, True)
    assert bar["observed"] == pytest.approx((1 + 0 + 0.75) / 3)
    assert [one["k"] for one in found["passK"]] == [1, 2]
    assert found["latency"]["cases"] == 6
    assert found["unmeasured"] == {"error": 0, "skipped": 0, "neverReached": 0}
    assert found["progress"] is None
    stats = {one["label"]: (one["passed"], one["failed"]) for one in found["checks"]}
    assert stats == {"exact_match": (2, 2), "llm_judge": (0, 2)}
    plain = overview(client, runs["evaluation"])
    assert (plain.get("bars", []), plain["about"]["experiment"]) == ([], {"name": "first experiment"})
    assert plain["checks"] == [
        {"index": 0, "label": "contains", "rateText": "100.0%", "passed": 5, "failed": 0, "ungraded": 0, "error": 0, "skipped": 0}
    ]  # fmt: skip
    assert "review" not in plain["links"]
    assert client.get(found["links"]["review"]).json()["judged"] == 1
    assert "costParts" not in found["run"]  # neither the agent nor its judge has a price
    workflow = overview(client, runs["workflow"])
    assert (workflow["run"]["kind"], workflow["latency"]) == ("workflow", None)


def cases(client, run, **body):
    return post(client, f"/{run}/cases:query", **body)


def test_the_cases_of_a_run_with_trials(client, runs):
    found = cases(client, runs["repeated"], sort={"by": "status"}, include=["preview"])
    assert [(row["caseId"], row["status"]) for row in found["cases"]] == [
        ("wrong", "failed"), ("kind", "failed"), ("exact", "passed")
    ]  # fmt: skip
    wrong = found["cases"][0]
    labels = [column["label"] for column in found["columns"]]
    cell = wrong["cells"][labels.index("exact_match")]
    assert (cell["failed"], cell["passed"]) == (2, 0)
    assert wrong["cells"][labels.index("llm_judge")] is None
    assert wrong["trials"] == {"total": 2, "passed": 0, "failed": 2, "unmeasured": 0}
    assert wrong["preview"] == {
        "input": "Paris", "output": "Paris", "expected": "Rome", "reason": "exact_match: expected 'Rome', got 'Paris'"
    }  # fmt: skip
    assert found["counts"] == {"passed": 1, "failed": 2, "ungraded": 0, "error": 0, "skipped": 0, "all": 3}
    only = cases(client, runs["repeated"], filter={"check": {"index": labels.index("exact_match")}})
    assert ([row["caseId"] for row in only["cases"]], only["matching"]) == (["wrong"], 1)
    assert cases(client, runs["repeated"], filter={"status": ["error", "skipped"]})["matching"] == 0
    by_id = cases(client, runs["repeated"], filter={"caseId": ["kind", "none"]})
    assert ([row["position"] for row in by_id["cases"]], by_id["looked"]["complete"]) == ([2], True)
    assert [
        row["position"] for row in cases(client, runs["repeated"], filter={"positions": [1, 7]})["cases"]
    ] == [1]


@pytest.mark.parametrize(
    ("by", "order", "place"), [("position", "asc", 2), ("position", "desc", 0), ("status", "asc", 1)]
)
def test_the_place_of_a_case_is_its_index_in_the_order(client, runs, by, order, place):
    found = cases(client, runs["repeated"], sort={"by": by, "order": order}, place=2)
    assert (found["place"], found["cases"][place]["position"]) == (place, 2)
    assert "place" not in cases(client, runs["repeated"], filter={"status": ["passed"]}, place=2)
    assert "place" not in cases(client, runs["repeated"], place=9)


def test_pages_of_cases_follow_each_other(client, runs):
    run, seen, cursor = runs["evaluation"], [], None
    while True:
        page = cases(client, run, sort={"by": "position", "order": "desc"}, limit=2, **({"cursor": cursor} if cursor else {}))  # fmt: skip
        seen += [row["caseId"] for row in page["cases"]]
        assert page["matching"] == 5
        cursor = page.get("next")
        if cursor is None:
            break
    assert seen == ["c4", "c3", "c2", "c1", "c0"]
    assert [row["position"] for row in cases(client, run, offset=3)["cases"]] == [3, 4]
    assert "cursor: expected `next`" in refused(client, f"/{run}/cases:query", cursor="eA")
    assert "offset or cursor" in refused(client, f"/{run}/cases:query", cursor="eA", offset=1)
    assert "at most 100" in refused(client, f"/{run}/cases:query", include=["preview"], limit=101)


def test_waiting_units_and_cases_with_own_checks_have_rows(client):
    """A run of the executor: one unit for each case, and cases with their own checks."""
    own = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "Paris 0"}}
    request = request_of(3, [slow(0), own])
    run = client.post("/v1/evaluations", json=request).json()["operation_id"]
    while client.get(f"/v1/operations/{run}").json()["status"] in ("pending", "running"):
        time.sleep(0.02)
    found = cases(client, run, sort={"by": "score"})
    assert [(row["caseId"], row["status"], row["score"]) for row in found["cases"]] == [
        ("c1", "failed", 0.5), ("c2", "failed", 0.5), ("c0", "passed", 1.0)
    ]  # fmt: skip
    assert [row["total"] for row in post(client, ":query", filter={"text": run})["runs"]] == [3]


def test_an_erased_run_has_no_cases(client):
    run = client.post("/v1/evaluate", json=request_of(2)).json()["evaluation_id"]
    assert cases(client, run)["counts"]["all"] == 2
    assert client.delete(f"/v1/evaluations/{run}").status_code == 200
    found = overview(client, run)
    counts = found["run"]["counts"]
    assert (counts["passed"], "erasedAt" in found["run"]) == (2, True)  # the numbers stay, the content goes
    assert client.post(f"/v1/host/assay/runs/{run}/cases:query", json={}).status_code in (404, 410)


def test_a_workflow_has_no_cases(client, runs):
    answer = client.post(f"/v1/host/assay/runs/{runs['workflow']}/cases:query", json={})
    assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
    assert "is not an evaluation or an agent eval" in answer.json()["message"]


def test_content_free_responses_hold_no_content(client, runs):
    canaries = Canaries()
    case = {"id": "case", "input": canaries("input"), "expected": canaries("expected")}
    tags = {"metadata": {"tags": [canaries("tag of a case")]}}
    exact = {
        "type": "exact_match",
        "arguments": {"actual": "$.output.value", "expected": canaries("argument")},
    }
    request = {
        "test_cases": [case | tags],
        "outputs": [{"value": canaries("output")}],
        "checks": [exact],
    }
    found = [client.post("/v1/evaluate", json=request).json()["evaluation_id"]]
    task = golden("task", canaries("input of a task"), canaries("expected of a task"))
    found.append(finish_run(client, suite(task, name="canaries")))
    inputs = {"inputs": {"text": canaries("input of a workflow")}}
    noop = client.post("/v1/runs", json={"workflowId": "conformance-noop"} | inputs).json()["runId"]
    log_of(client, noop)
    texts = [client.post("/v1/host/assay/runs:query", json={"counts": True}).text]
    texts += [client.get(f"/v1/host/assay/runs/{run}/overview").text for run in (*found, noop)]
    texts += [client.post(f"/v1/host/assay/runs/{run}/cases:query", json={}).text for run in found]
    assert [canaries.found_in(text) for text in texts] == [set()] * 6
    with_content = client.get(f"/v1/host/assay/runs/{found[0]}/cases/0").text
    assert canaries.found_in(with_content) >= {"input", "expected", "output", "argument", "tag of a case"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "by_a_command", "total"),
    [("running", True, None), ("completed", True, 130), ("running", False, 130)],
)
async def test_a_command_that_still_reads_its_file_has_no_total(status, by_a_command, total):
    """It stores how many cases it has read so far: all of them would be done at any time."""
    now = datetime.now(UTC)
    metadata = {"total": 130} | ({EXTERNALLY_DRIVEN: True} if by_a_command else {})
    run = Run(id="eval_1", tenant="t", kind="evaluation", status=status, created=now, started=now, events=9,
              metadata=metadata)  # fmt: skip
    row = await RunRows(MemoryStore()).row(run, now, {run.id: CaseTotals(passed=130)})
    assert row.total == total


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("trials", "counts", "total"), [(1, CaseCounts(passed=MAX_LIVE, failed=1), 30_000), (3, None, 10_000)]
)
async def test_a_very_long_evaluation_in_progress_has_counts_of_cases_and_no_score(trials, counts, total):
    """With several trials the counts of results are not those of cases: there are none until the end."""
    now = datetime.now(UTC)
    run = Run(id="eval_1", tenant="t", kind="evaluation", status="running", created=now, started=now, events=9,
              metadata={"total": 30_000, "trials": trials})  # fmt: skip
    rows, totals = RunRows(MemoryStore()), CaseTotals(passed=MAX_LIVE, failed=1)
    row = await rows.row(run, now, {run.id: totals})
    assert (row.score, row.counts, row.total) == (None, counts, total)
    statistics = await rows.statistics(run, totals)
    assert statistics.cases == (MAX_LIVE + 1) // trials
