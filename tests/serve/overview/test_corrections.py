"""Corrections of people to the cases of an evaluation, over REST: the route, the case, the overview, erasure."""

import json

import pytest

from assay.checks.checker import Checker, Text
from support.servers.rest_client import Server, slow

EXACT = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}


class Length(Checker):
    """Gives a number, and neither a pass nor a fail."""

    type = "length"
    text: Text

    def run(self, services):
        return {"length": len(self.text)}


def evaluation(rows, checks=(EXACT,)):
    """Rows of an id, an expected value and an output."""
    return {
        "test_cases": [{"id": id, "input": "?", "expected": expected} for id, expected, _ in rows],
        "outputs": [{"value": output} for *_, output in rows],
        "checks": list(checks),
    }


ROWS = [("right", "a", "a"), ("wrong", "a", "b"), ("late", "a", "c"), ("odd/ä é", "a", "d")]
REPEATED = [("twice", "a", "a"), ("twice", "a", "b"), ("once", "a", "a")]


@pytest.fixture(scope="module")
def host(database):
    with Server(database, checks=[Length]) as host:
        yield host


@pytest.fixture(scope="module")
def client(host):
    with host.client() as client:
        yield client


def stored(client, *arguments):
    return client.post("/v1/evaluate", json=evaluation(*arguments)).json()["evaluation_id"]


def correct(client, run, case, **correction):
    body = {
        "target": {"nodeId": case},
        "signal": {"kind": "correction", "correction": json.dumps(correction)},
    }
    return client.post(f"/v1/evaluations/{run}/annotations", json=body)


def overview(client, run):
    return client.get(f"/v1/host/assay/runs/{run}/overview").json()


def test_a_correction_of_a_case_sets_its_effective_score_and_that_of_the_run(client):
    run = stored(client, ROWS)
    assert "effective" not in overview(client, run)
    made = correct(client, run, "wrong", passed=True)
    assert made.status_code == 201, made.text
    assert made.json()["target"] == {"runId": run, "nodeId": "wrong"}
    case = client.get(f"/v1/host/assay/runs/{run}/cases/1").json()
    assert case["recorded"] == {"score": 0.0, "passed": False}
    assert case["effective"] == {"score": 0.0, "passed": True, "annotationId": made.json()["annotationId"]}
    assert case["annotations"] == [made.json()]
    found = overview(client, run)
    assert found["run"]["score"]["value"] == 0.25
    assert found["effective"] == {
        "score": 0.5, "text": "50.0%", "passed": None, "passedCount": 2, "failedCount": 2, "corrected": ["wrong"],
    }  # fmt: skip
    assert correct(client, run, "odd/ä é", score=1.0).status_code == 201
    assert correct(client, run, "right", score=0.9).status_code == 201  # not every check passes at 0.9
    assert correct(client, run, "wrong", passed=False).status_code == 201  # the last one counts
    effective = overview(client, run)["effective"]
    assert (effective["score"], effective["passedCount"]) == (0.25, 1)
    assert sorted(effective["corrected"]) == ["odd/ä é", "right", "wrong"]
    listed = client.get(overview(client, run)["links"]["annotations"]).json()["annotations"]
    assert [one["target"]["nodeId"] for one in listed] == ["wrong", "odd/ä é", "right", "wrong"]


def test_the_trials_of_a_case_are_corrected_together(client):
    run = stored(client, REPEATED)
    assert overview(client, run)["run"]["score"]["value"] == 0.75
    assert correct(client, run, "twice", passed=True).status_code == 201
    effective = overview(client, run)["effective"]
    assert (effective["score"], effective["passedCount"]) == (1.0, 2)


def test_a_case_that_was_not_measured_stays_so(client):
    broken = {"type": "exact_match", "arguments": {"actual": "$.output.nothing", "expected": "a"}}
    run = stored(client, ROWS, [broken])
    assert correct(client, run, "right", passed=True).status_code == 201
    case = client.get(f"/v1/host/assay/runs/{run}/cases/0").json()
    assert case["recorded"] == {"score": None, "passed": None}
    assert "effective" not in case
    assert len(case["annotations"]) == 1
    assert "effective" not in overview(client, run)


def test_a_case_without_a_verdict_gets_one_and_a_mean_stays(client):
    run = stored(client, ROWS, [{"type": "length", "arguments": {"text": "$.output.value"}}])
    assert overview(client, run)["run"]["score"]["name"] == "mean length length"
    assert correct(client, run, "right", passed=True).status_code == 201
    case = client.get(f"/v1/host/assay/runs/{run}/cases/0").json()
    assert (case["recorded"], case["effective"]["passed"]) == ({"score": None, "passed": None}, True)
    effective = overview(client, run)["effective"]
    assert (effective["score"], effective["text"], effective["passedCount"]) == (None, None, 1)


LONG = {"type": "regex", "name": "short", "arguments": {"text": "$.output.value", "pattern": "^.$"}}
TWO = [EXACT | {"name": "same"}, LONG]


def cases(client, run, **query):
    return client.post(f"/v1/host/assay/runs/{run}/cases:query", json=query).json()


def test_one_check_of_a_case_is_corrected_in_its_row_the_counts_and_the_filter(client):
    run = stored(client, ROWS, TWO)
    assert "effective" not in cases(client, run)
    assert correct(client, run, "wrong", check="same", passed=True).status_code == 201
    assert correct(client, run, "right", check="short", passed=False).status_code == 201
    found = cases(client, run, filter={"corrected": True})
    assert (found["matching"], found["counts"]["passed"], found["counts"]["failed"]) == (2, 1, 3)
    effective = {name: found["effective"][name] for name in ("all", "corrected", "passed", "failed")}
    assert effective == {"all": 4, "corrected": 2, "passed": 1, "failed": 3}
    rows = {row["caseId"]: (row["status"], row["effective"]) for row in found["cases"]}
    assert rows == {
        "right": ("passed", {"status": "failed", "score": 0.5, "checks": {"1": False}}),
        "wrong": ("failed", {"status": "passed", "score": 1.0, "checks": {"0": True}}),
    }
    case = client.get(f"/v1/host/assay/runs/{run}/cases/1").json()
    assert (case["recorded"], case["effective"]["passed"], case["effective"]["checks"]) == (
        {"score": 0.5, "passed": False},
        True,
        {"same": True},
    )
    whole = overview(client, run)["effective"]
    assert (whole["passedCount"], whole["failedCount"], sorted(whole["corrected"])) == (
        1,
        3,
        ["right", "wrong"],
    )
    sought = client.post(
        f"/v1/host/assay/runs/{run}/cases:search", json={"text": "wrong", "filter": {"corrected": True}}
    ).json()
    assert [match["caseId"] for match in sought["matches"]] == ["wrong"]
    assert correct(client, run, "right", check="short", withdrawn=True).status_code == 201
    assert correct(client, run, "wrong", withdrawn=True).status_code == 201
    assert "effective" not in cases(client, run)
    assert "effective" not in overview(client, run)
    unknown = correct(client, run, "right", check="kind", passed=True)
    assert (unknown.status_code, "has no check 'kind'; its checks are same, short" in unknown.text) == (
        400,
        True,
    )


def test_the_rows_of_trials_of_a_case_are_corrected_together(client):
    run = stored(client, REPEATED)
    assert correct(client, run, "twice", check="exact_match", passed=True).status_code == 201
    found = cases(client, run, filter={"corrected": True})
    assert [row["effective"]["status"] for row in found["cases"]] == ["passed", "passed"]
    assert overview(client, run)["effective"]["score"] == 1.0


REFUSED = [
    ({"target": {"nodeId": "unknown"}, "signal": {"kind": "flag"}}, "target.nodeId: evaluation"),
    ({"target": {"eventId": "ev-1"}, "signal": {"kind": "flag"}}, "target.eventId: an evaluation has no events"),
    ({"signal": {"kind": "correction", "correction": '{"score": 1}'}}, "target.nodeId: expected the id of the case"),
    ({"target": {"nodeId": "right"}, "signal": {"kind": "correction", "correction": "{}"}}, "neither score nor passed"),
    ({"target": {"nodeId": "right"}, "signal": {"kind": "correction"}}, "signal.correction"),
    ({"target": {"nodeId": "right"}, "signal": {"kind": "rating"}}, "signal.rating"),
    ({"target": {"nodeId": "x" * 129}, "signal": {"kind": "flag"}}, "target.nodeId"),
]  # fmt: skip


def test_a_wrong_annotation_is_refused_and_not_stored(client):
    run = stored(client, ROWS)
    for body, message in REFUSED:
        refused = client.post(f"/v1/evaluations/{run}/annotations", json=body)
        assert (refused.status_code, message in refused.text) == (400, True), refused.text
    assert client.get(f"/v1/evaluations/{run}/annotations").json() == {"annotations": []}


def test_an_idempotency_key_stores_one_annotation(client):
    run = stored(client, ROWS)
    body = {"target": {"nodeId": "late"}, "signal": {"kind": "label", "label": "unclear"}, "note": "why?"}
    headers = {"Idempotency-Key": f"note-{run}"}
    first, again = (
        client.post(f"/v1/evaluations/{run}/annotations", json=body, headers=headers) for _ in range(2)
    )
    assert first.json() == again.json()
    assert again.headers["openwop-Idempotent-Replay"] == "true"
    assert len(client.get(f"/v1/evaluations/{run}/annotations").json()["annotations"]) == 1


def test_a_run_in_progress_and_an_agent_eval_have_no_cases_there(client):
    run = client.post("/v1/evaluations", json=evaluation(ROWS[:1], [slow(60)])).json()["operation_id"]
    assert correct(client, run, "right", passed=True).status_code == 400  # it has no result yet
    client.post(f"/v1/evaluations/{run}:cancel")
    assert correct(client, "run-unknown", "right", passed=True).status_code == 404


def test_erasing_an_evaluation_erases_its_annotations(client):
    run = stored(client, ROWS)
    assert correct(client, run, "wrong", passed=True).status_code == 201
    assert client.delete(f"/v1/evaluations/{run}").status_code == 200
    assert client.get(f"/v1/evaluations/{run}/annotations").status_code == 404
    assert correct(client, run, "wrong", passed=True).status_code == 404
    assert "effective" not in overview(client, run)
