"""One case with its content over REST, and the search in the content of a run."""

import pytest

from support.evals import golden
from support.servers.openwop_client import finish_run, suite
from support.servers.rest_client import Server, request_of, sqlite

EXACT = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
REQUEST = {
    "test_cases": [
        {"id": "fr", "input": "Capital of France?", "expected": "Paris", "metadata": {"tags": ["europe"]}},
        {"id": "au", "input": "Capital of Australia?", "expected": "Canberra"},
    ],
    "outputs": [{"value": "Paris"}, {"value": "Sydney"}],
    "checks": [EXACT, {"type": "threshold", "arguments": {"value": "$.output.length", "max_value": 3}}],
}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("cases"))) as host:
        yield host


@pytest.fixture(scope="module")
def evaluation(client):
    return client.post("/v1/evaluate", json=REQUEST).json()["evaluation_id"]


def path(run, rest):
    return f"/v1/host/assay/runs/{run}/cases{rest}"


def test_a_case_of_an_evaluation(client, evaluation):
    case = client.get(path(evaluation, "/1")).json()
    assert (case["caseId"], case["input"], case["expected"]) == ("au", "Capital of Australia?", "Canberra")
    assert (case["next"], case["previous"], case["annotations"]) == (None, 0, [])
    assert case["run"] == {"runId": evaluation, "kind": "evaluation", "status": "completed"}
    assert case["row"]["status"] == "error"  # one of its checks was not measured
    assert [cell["failed"] + cell["error"] for cell in case["row"]["cells"]] == [1, 1]
    first, second = case["trials"][0]["checks"]
    assert (first["label"], first["column"], first["reason"]) == (
        "exact_match",
        0,
        "expected 'Canberra', got 'Sydney'",
    )
    assert first["result"]["resolved_arguments"]["actual"] == {
        "jsonpath": "$.output.value",
        "value": "Sydney",
    }
    assert (second["status"], second["passed"]) == ("error", None)
    assert [trial["passed"] for trial in case["trials"]] == [None]  # not measured


def test_a_task_of_an_eval_and_its_correction(client):
    run = finish_run(
        client, suite(golden("a", "Rome", "Paris"), golden("b", "Rome", "Rome"), name="read"), trials=2
    )
    case = client.get(path(run, "/0")).json()
    assert (case["recorded"], "effective" in case) == ({"score": 0.0, "passed": False}, False)
    assert case["row"]["trials"] == {"total": 2, "passed": 0, "failed": 2, "unmeasured": 0}
    correction = {"kind": "correction", "correction": '{"score": 1}'}
    made = client.post(
        f"/v1/runs/{run}/annotations",
        json={"target": {"eventId": case["eventId"]}, "signal": correction, "note": "fine"},
    )
    case = client.get(path(run, "/0")).json()
    assert case["effective"] == {"score": 1.0, "passed": True, "annotationId": made.json()["annotationId"]}
    assert [note["note"] for note in case["annotations"]] == ["fine"]
    assert "memory" not in case
    other = client.get(path(run, "/1")).json()
    assert (other["annotations"], [trial["passed"] for trial in other["trials"]]) == ([], [True, True])
    assert [trial["passed"] for trial in case["trials"]] == [False, False]


def test_search_returns_the_places_and_its_progress(client, evaluation):
    found = client.post(path(evaluation, ":search"), json={"text": "SYDNEY"}).json()
    assert found["matches"] == [
        {"position": 1, "trial": 0, "caseId": "au", "in": "output", "snippet": "Sydney", "at": 0, "length": 6}
    ]
    assert (found["looked"]["to"], found["looked"]["complete"], "next" in found) == (2, True, False)
    for position, ids in ((0, ["fr"]), (1, ["au"]), (2, [])):
        only = {"text": "capital", "filter": {"positions": [position]}}
        found = client.post(path(evaluation, ":search"), json=only).json()
        assert ([match["caseId"] for match in found["matches"]], found["looked"]["complete"]) == (ids, True)
    tagged = client.post(path(evaluation, ":search"), json={"tags": ["europe"]}).json()
    assert [match["caseId"] for match in tagged["matches"]] == ["fr"]
    first = client.post(path(evaluation, ":search"), json={"text": "capital", "limit": 1}).json()
    rest = client.post(path(evaluation, ":search"), json={"text": "capital", "cursor": first["next"]}).json()
    assert [match["caseId"] for match in (*first["matches"], *rest["matches"])] == ["fr", "au"]


@pytest.mark.parametrize(
    ("method", "rest", "body", "status", "message"),
    [
        ("GET", "/2", None, 404, "no case at position 2"),
        ("GET", "/x", None, 400, "expected a whole number from 0, got 'x'"),
        ("GET", "/99999999999", None, 400, "expected a whole number"),
        ("GET", "/-1", None, 400, "expected a whole number"),
        ("POST", ":search", {}, 400, "expected a text, tags or where"),
        ("POST", ":search", {"text": ""}, 400, "text"),
        ("POST", ":search", {"text": "x" * 201}, 400, "text"),
        ("POST", ":search", {"text": "x", "in": ["secret"]}, 400, "in"),
        ("POST", ":search", {"text": "x", "cursor": "z"}, 400, "cursor"),
        ("POST", ":search", {"text": "x", "pattern": True}, 400, "pattern"),
        ("POST", ":search", {"text": "x", "filter": {"status": ["good"]}}, 400, "filter.status"),
    ],
)
def test_bad_requests_are_refused(client, evaluation, method, rest, body, status, message):
    answer = client.request(method, path(evaluation, rest), json=body)
    assert (answer.status_code, message in answer.text) == (status, True), answer.text


def test_erased_content_and_other_kinds_have_no_cases(client):
    run = client.post("/v1/evaluate", json=request_of(1)).json()["evaluation_id"]
    assert client.delete(f"/v1/evaluations/{run}").status_code == 200
    for answer in (client.get(path(run, "/0")), client.post(path(run, ":search"), json={"text": "x"})):
        assert answer.status_code == 404
        assert "erased" in answer.text


def test_a_search_text_is_in_no_log(client, evaluation, caplog):
    client.post(path(evaluation, ":search"), json={"text": "a-private-word"})
    assert "a-private-word" not in caplog.text
