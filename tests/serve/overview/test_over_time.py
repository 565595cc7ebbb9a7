"""Runs over time and side by side over REST: histories, trends, distributions, every metric, and the grid of cases."""

import json

import pytest

from assay.checks.checker import Checker
from support.servers.rest_client import Server, sqlite

EXACT = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
RUNS = "/v1/host/assay/runs"
COMPARISON = "/v1/host/assay/comparison"
CASES = 40


def request(right, name="shop"):
    """Forty cases, of which so many are right; a right one is slower."""
    outputs = [
        {
            "value": "yes" if at < right else "no",
            "metadata": {"latency_ms": 100 + at, "cost_usd": 0.01 if right > 20 else 0.02},
        }
        for at in range(CASES)
    ]
    cases = [
        {"id": f"c{at}", "input": "?", "expected": "yes", "metadata": {"tier": "pro" if at % 2 else "free"}}
        for at in range(CASES)
    ]
    return {
        "test_cases": cases,
        "outputs": outputs,
        "checks": [EXACT],
        "experiment_metadata": {"name": name},
    }


class Paid(Checker):
    """A judge that passes everything, for money."""

    type = "paid"
    usd: float

    def run(self, services):
        return {"passed": True, "metadata": {"cost_usd": self.usd}}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("time")), checks=[Paid]) as host:
        yield host


@pytest.fixture(scope="module")
def runs(client):
    return [
        client.post("/v1/evaluate", json=request(right)).json()["evaluation_id"] for right in (10, 20, 36)
    ]


def history(client, **body):
    return client.post(f"{RUNS}:history", json={"name": "shop", "kind": "evaluation"} | body)


def test_a_history_has_the_numbers_of_each_run_newest_first(client, runs):
    found = history(client).json()
    assert [row["runId"] for row in found["rows"]] == runs[::-1]
    newest = found["rows"][0]
    overview = client.get(f"{RUNS}/{runs[2]}/overview").json()
    score = overview["run"]["score"]
    assert [newest[name] for name in ("score", "low", "high", "text", "range", "scale")] == [
        score[name] for name in ("value", "low", "high", "text", "range", "scale")
    ]
    assert newest["p95Text"] == overview["latency"]["p95Text"]
    assert newest["costText"] == overview["run"]["costParts"]["system"] == "$0.400"
    assert (newest["tasks"], newest["status"], newest["corrections"]) == (CASES, "completed", 0)
    assert "next" not in found


def judged(client, system, judge):
    """A run of forty cases that cost so much each, and their judges so much."""
    body = request(40, name="costs")
    for output in body["outputs"]:
        output["metadata"]["cost_usd"] = system
    body["checks"] = [EXACT, {"type": "paid", "name": "judge", "arguments": {"usd": judge}}]
    return client.post("/v1/evaluate", json=body).json()["evaluation_id"]


@pytest.fixture(scope="module")
def dear(client):
    """A system that costs more with a judge that costs less, and the other way round."""
    return [judged(client, 0.02, 0.0001), judged(client, 0.001, 0.005)]


def test_a_list_shows_what_the_system_and_its_judges_cost_and_sorts_by_the_whole(client, dear):
    body = {"filter": {"name": "costs"}, "sort": {"by": "cost", "order": "desc"}}
    rows = client.post(f"{RUNS}:query", json=body).json()["runs"]
    assert [row["runId"] for row in rows] == dear
    assert [(row["costUsd"], row["costText"], row["costParts"]) for row in rows] == [
        (0.804, "$0.804", {"system": "$0.800", "judges": "$0.00400"}),
        (0.24, "$0.240", {"system": "$0.0400", "judges": "$0.200"}),
    ]
    overview = client.get(f"{RUNS}/{dear[0]}/overview").json()
    assert overview["run"] == rows[0]
    assert overview["cost"]["text"] == "$0.00400"  # what the run itself has spent
    assert [row["costText"] for row in history(client, name="costs").json()["rows"]] == ["$0.240", "$0.804"]


def test_a_history_has_pages_and_knows_its_cursor(client, runs):
    first = history(client, limit=2).json()
    second = history(client, limit=2, cursor=first["next"]).json()
    assert [row["runId"] for row in first["rows"] + second["rows"]] == runs[::-1]
    assert history(client, limit=2, cursor=first["next"], agentId="x").status_code == 400
    assert history(client, cursor="x").status_code == 400


def test_a_correction_is_counted_in_the_history(client, runs):
    body = {
        "target": {"nodeId": "c39"},
        "signal": {"kind": "correction", "correction": json.dumps({"passed": True})},
    }
    assert client.post(f"/v1/evaluations/{runs[1]}/annotations", json=body).status_code == 201
    assert [row["corrections"] for row in history(client).json()["rows"]] == [0, 1, 0]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "nothing"}, 200),
        ({"kind": "agent-eval"}, 200),
        ({"kind": "workflow"}, 400),
        ({"name": "a\0b"}, 400),
        ({"limit": 0}, 400),
        ({"limit": 101}, 400),
        ({"other": 1}, 400),
    ],
)
def test_a_name_without_runs_has_an_empty_history_and_a_wrong_query_is_refused(client, runs, body, status):
    answer = history(client, **body)
    assert answer.status_code == status, answer.text
    assert status != 200 or answer.json()["rows"] == []


def test_another_tenant_sees_no_history_and_no_distribution(host, runs):
    with host.client(tenant="other") as other:
        assert history(other).json()["rows"] == []
        assert other.get(f"{RUNS}/{runs[0]}/distributions").status_code == 404
        assert other.get(f"{COMPARISON}/grid", params={"runs": ",".join(runs)}).status_code == 404


def test_a_group_of_runs_has_the_trend_of_its_scores(client, runs):
    assert runs
    client.post("/v1/evaluate", json=request(40, name="alone"))
    groups = client.post(f"{RUNS}:query", json={"groupBy": "name"}).json()["groups"]
    trends = {group["name"]: group["scores"] for group in groups}
    assert trends["shop"] == [0.25, 0.5, 0.9]
    assert trends["alone"] == []  # one run has no trend


def test_the_distributions_of_a_run_count_every_measured_result(client, runs):
    answer = client.get(f"{RUNS}/{runs[1]}/distributions").json()
    found = {one["name"]: one for one in answer["distributions"]}
    assert set(found) == {"score", "latency_ms", "cost_usd"}
    assert all(
        sum(bar["results"] for bar in one["bars"]) == one["results"] == CASES for one in found.values()
    )
    assert [bar["results"] for bar in found["score"]["bars"]] == [20, *[0] * 8, 20]
    assert found["latency_ms"]["median"] == 119.5
    assert found["latency_ms"]["bars"][-1]["high"] == 139


def compared(client, runs, **more):
    return client.get(COMPARISON, params={"runs": ",".join(runs)} | more)


def test_a_comparison_has_every_metric_if_it_is_asked_for(client, runs):
    plain = compared(client, runs[:2]).json()
    assert "metrics" not in plain["comparison"]["comparisons"][0]
    view = compared(client, [runs[1], runs[2]], metrics="true").json()
    (pair,) = view["comparison"]["comparisons"]
    assert [one["metric"] for one in pair["metrics"]] == [
        "passed", "score", "exact_match", "cost_usd", "latency_ms:p95",
    ]  # fmt: skip
    texts = {one["metric"]: one for one in view["pairs"][0]["metrics"]}
    assert (texts["cost_usd"]["before"], texts["cost_usd"]["after"]) == ("$0.0200", "$0.0100")
    assert (texts["passed"]["verdict"], texts["cost_usd"]["verdict"]) == ("improved", "improved")
    assert (view["groupings"], view["checks"]) == (["tier"], ["exact_match"])
    assert compared(client, runs[:2], metrics="yes").status_code == 400


def grid(client, runs, **more):
    return client.get(f"{COMPARISON}/grid", params={"runs": ",".join(runs)} | more)


def test_the_grid_has_a_row_for_each_case_and_a_cell_for_each_run(client, runs):
    found = grid(client, runs, limit=200).json()
    assert (found["metric"], found["total"], found["different"], len(found["rows"])) == ("passed", 40, 26, 40)
    row = found["rows"][15]
    assert (row["id"], row["different"]) == ("c15", True)
    assert row["cells"] == [
        {"state": "measured", "value": 0.0, "position": 15},
        {"state": "measured", "value": 1.0, "position": 15},
        {"state": "measured", "value": 1.0, "position": 15},
    ]
    only = grid(client, runs, different="true", first=25, limit=5).json()
    assert (only["total"], [one["id"] for one in only["rows"]]) == (26, ["c35"])


@pytest.mark.parametrize("more", [{"limit": 201}, {"limit": 0}, {"different": "1"}, {"metric": "nothing"}])
def test_a_wrong_query_of_the_grid_is_refused(client, runs, more):
    assert grid(client, runs, **more).status_code == 400


def partings(client, runs, **more):
    return client.get(f"{COMPARISON}/diff", params={"runs": ",".join(runs)} | more)


def test_the_diff_says_where_two_runs_part(client, runs):
    found = partings(client, runs[:2], limit=3).json()
    assert [found[name] for name in ("noun", "same", "total", "only_a", "only_b")] == ["case", 30, 10, 0, 0]
    assert found["partings"][0] == {
        "id": "c10", "what": "another answer", "same_steps": 0, "outcome_a": "failed", "outcome_b": "passed",
        "a": "answers 'no'", "b": "answers 'yes'",
    }  # fmt: skip
    last = partings(client, runs[:2], first=9).json()["partings"]
    assert [one["id"] for one in last] == ["c19"]
    assert partings(client, runs).status_code == 400
    assert partings(client, [runs[0], "eval_unknown"]).status_code == 404
    assert partings(client, runs[:2], limit=0).status_code == 400
