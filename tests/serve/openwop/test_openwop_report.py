"""What an owner reads of an eval, and what people say of it (openwop-contract §2.2, §6.4, §9.2): beside the log, never in it."""

import contextlib
import json

import pytest

from assay.auth.keys import DEFAULT
from assay.serve.openwop.features import OpenWopFeatures
from support.evals import golden, rubric
from support.servers.openwop_client import (
    finish_run,
    frames_of,
    log_of,
    run_request,
    start_run,
    store_suite,
    suite,
    wait_for_run,
)
from support.servers.rest_client import Server, sqlite
from support.spec_files import fits

MIXED = suite(
    golden("exact", "Paris", "Paris"),
    rubric("kind", ("greets", 0.75), ("names a step", 0.25), input="hello"),
    modes=("golden", "rubric"), name="mixed",
    thresholds={"passScore": 0.8},
)  # fmt: skip
WRONG = suite(golden("right", "x", "x"), golden("wrong", "y", "x"), name="wrong")


def judge(ask):
    return {
        "criterion_1": {"reason": "it says hello", "met": True},
        "criterion_2": {"reason": "no step at all", "met": False},
    }


@pytest.fixture(scope="module")
def host(database):
    with Server(database, judge=judge) as host:
        yield host


def report(client, run, **query):
    answer = client.get(f"/v1/host/assay/runs/{run}/eval-report", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def annotate(client, run, event=None, **body):
    target = {"target": {"eventId": event}} if event else {}
    return client.post(f"/v1/runs/{run}/annotations", json={**target, **body})


def correction(client, run, event, **what):
    return annotate(client, run, event, signal={"kind": "correction", "correction": json.dumps(what)})


def test_6_4_the_report_has_what_the_summary_may_not(client):
    run = finish_run(client, MIXED, trials=2)
    document = report(client, run)
    assert (document["runId"], document["status"], document["report"]["trials"]) == (run, "completed", 2)
    assert document["judges"] == [{"provider": "scripted", "model": "scripted:scripted"}]
    assert (document["judgeCostUsd"], document["modelClass"]) == (
        None,
        "general",
    )  # nobody knows what it cost
    assert document["report"]["modes"] == ["golden", "rubric"]
    assert isinstance(document["report"]["p95LatencyMs"], int)
    shelf = client.get("/v1/host/assay/suites").json()["suites"]
    assert document["suiteDigest"] in [one["digest"] for one in shelf if one["suiteId"] == MIXED["suiteId"]]
    exact, kind = document["tasks"]
    assert [trial.get("trial", 0) for trial in exact["trials"]] == [0, 1]
    assert [(trial["output"], trial["score"]) for trial in exact["trials"]] == [("Paris", 1), ("Paris", 1)]
    assert kind["trials"][0]["criteria"] == [
        {"criterion": "greets", "weight": 0.75, "met": True, "reason": "it says hello"},
        {"criterion": "names a step", "weight": 0.25, "met": False, "reason": "no step at all"},
    ]
    assert kind["trials"][0]["checks"][0]["check_type"] == "llm_judge"
    assert document["reasons"][0]["why"] == "not met: names a step (no step at all)"
    summary = client.get(f"/v1/runs/{run}/eval-summary").json()
    fits("eval-summary", summary)
    assert "no step at all" not in json.dumps(summary)


def test_6_5_secrets_are_scored_and_stored_nowhere(host, client):
    key = "sk-0123456789abcdefghij"
    document = suite(golden("leaks", f"it is {key}", f"it is {key}"), name="leaks")
    body = run_request(store_suite(client, document), mine={"note": key}) | {
        "tags": [key],
        "metadata": {"api_key": "x1"},
    }
    run = client.post("/v1/runs", json=body).json()["runId"]
    log, shown = log_of(client, run), wait_for_run(client, run)
    assert shown["outputs"]["passed"] is True
    assert (shown["tags"], shown["metadata"], shown["configurable"]) == (
        ["[REDACTED:openai-key]"],
        {"api_key": "[REDACTED:api_key]"},
        {"mine": {"note": "[REDACTED:openai-key]"}},
    )
    read = report(client, run)
    assert read["tasks"][0]["trials"][0]["output"] == "it is [REDACTED:openai-key]"
    listed = client.get("/v1/host/assay/runs").json()
    assert key not in json.dumps([log, shown, read, listed])
    lines = host.do(host.store.chunks(run, "results"))
    assert lines
    assert not [piece for piece in lines if key.encode() in piece.data]


def test_the_evidence_comes_page_by_page(client):
    run = finish_run(client, suite(*[golden(f"t{at}", "x", "x") for at in range(5)], name="five"), trials=2)
    seen, first = [], 0
    while True:
        page = report(client, run, first=first, limit=2)
        seen += [(task["taskId"], len(task["trials"])) for task in page["tasks"]]
        if "nextTask" not in page:
            break
        first = page["nextTask"]
    assert seen == [(f"t{at}", 2) for at in range(5)]
    assert "tasks" not in report(client, run, limit=0)
    for query in ({"first": -1}, {"limit": 1001}, {"limit": "x"}, {"more": 1}):
        answer = client.get(f"/v1/host/assay/runs/{run}/eval-report", params=query)
        assert answer.status_code == 400


def test_the_evidence_comes_as_lines_a_result_each(client):
    run = finish_run(client, suite(*[golden(f"t{at}", "x", "x") for at in range(3)], name="lines"), trials=2)

    def lines(**query):
        path, accept = f"/v1/host/assay/runs/{run}/eval-report", {"accept": "application/x-ndjson"}
        answer = client.get(path, params=query, headers=accept)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
        results = [json.loads(line) for line in answer.text.splitlines()]
        return [result["execution_context"]["test_case"]["id"] for result in results]

    assert lines() == ["t0", "t0", "t1", "t1", "t2", "t2"]
    assert lines(first=1, limit=1) == ["t1", "t1"]
    assert lines(first=3) == lines(limit=0) == []


def test_the_report_of_a_running_run_has_its_recorded_tasks(client):
    run = start_run(client, suite(golden("slow", "x", {"wait": 30, "say": "x"}), name="under-way"))
    assert report(client, run)["report"]["tasks"] == [{"taskId": "slow", "kind": "golden"}]
    client.post(f"/v1/runs/{run}/cancel")
    assert report(client, run)["status"] == "cancelled"


def test_2_2_the_owner_is_in_the_snapshot_and_in_the_first_event(client):
    run = finish_run(client, WRONG)
    shown, first = wait_for_run(client, run), log_of(client, run)[0]
    fits("run-snapshot", shown)
    assert first["type"] == "run.started"
    assert shown["owner"] == first["payload"]["owner"]
    assert shown["owner"].keys() == {"tenant", "principal"}
    assert shown["owner"]["tenant"] == "acme"


def test_6_4_a_run_that_did_not_complete_has_no_verdict(client):
    cut = suite(golden("quick", "x", "x"), golden("slow", "x", {"wait": 600, "say": "x"}), name="cut")
    run = start_run(client, cut)
    after = -1
    while (document := report(client, run))["report"]["passedCount"] == 0:
        page = client.get(f"/v1/runs/{run}/events/poll?lastSequence={after}&timeout=20").json()["events"]
        after = page[-1]["sequence"] if page else after
    assert (document["report"]["score"], document["report"]["verdict"]) == (1, None)  # so far
    assert client.post(f"/v1/runs/{run}/cancel", json={}).status_code == 200
    assert wait_for_run(client, run)["status"] == "cancelled"
    document = report(client, run)
    assert (document["report"]["score"], document["report"]["verdict"]) == (1, None)
    assert correction(client, run, document["tasks"][0]["eventId"], score=1).status_code == 201
    assert report(client, run)["effective"]["verdict"] is None


def test_9_2_a_correction_gives_an_effective_score_beside_the_recorded_one(client):
    run = finish_run(client, WRONG)
    before = client.get(f"/v1/runs/{run}/eval-summary").json()
    log = log_of(client, run)
    event = report(client, run)["tasks"][1]["eventId"]
    assert "effective" not in report(client, run)
    answer = correction(client, run, event, score=0.5)
    assert answer.status_code == 201
    fits("annotation", answer.json())
    assert answer.json()["target"] == {"runId": run, "eventId": event}
    document = report(client, run)
    assert (document["tasks"][1]["score"], document["tasks"][1]["effectiveScore"]) == (0, 0.5)
    assert (document["tasks"][1]["passed"], document["tasks"][1]["effectivePassed"]) == (False, False)
    assert (document["report"]["score"], document["effective"]["score"]) == (0.5, 0.75)
    assert correction(client, run, event, passed=True).status_code == 201
    document = report(client, run)
    assert document["effective"] == {
        "score": 0.5,
        "verdict": {"passed": False, "failed": ["passScore"]},
        "passedCount": 2,
        "corrected": ["wrong"],
    }
    assert correction(client, run, event, score=1, passed=True).status_code == 201  # the last word
    assert report(client, run)["effective"]["verdict"] == {"passed": True, "failed": []}
    assert client.get(f"/v1/runs/{run}/eval-summary").json() == before
    assert log_of(client, run) == log


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "signal"),
        ({"signal": {"kind": "applause"}}, "signal.kind"),
        ({"signal": {"kind": "rating"}}, "signal.rating"),
        ({"signal": {"kind": "rating", "rating": 6}}, "signal.rating"),
        ({"signal": {"kind": "label"}}, "signal.label"),
        ({"signal": {"kind": "flag"}, "target": {"runId": "x"}}, "target"),
        ({"signal": {"kind": "flag"}, "target": {"eventId": "ev-unknown"}}, "target.eventId"),
        ({"signal": {"kind": "flag"}, "more": 1}, "more"),
    ],
    ids=str,
)
def test_9_2_an_invalid_annotation_is_400(client, body, place):
    run = finish_run(client, WRONG)
    answer = client.post(f"/v1/runs/{run}/annotations", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "validation_error")
    assert place in answer.json()["message"]
    assert client.get(f"/v1/runs/{run}/annotations").json() == {"annotations": []}


def test_9_2_annotations_are_audited_and_any_key_of_the_tenant_may_make_one(host, client):
    run = finish_run(client, WRONG)
    with host.client(scopes=DEFAULT - {"runs:read"}) as other:
        assert annotate(other, run, signal={"kind": "flag"}).status_code == 201
        assert other.get(f"/v1/runs/{run}/annotations").status_code == 403
    (made,) = client.get(f"/v1/runs/{run}/annotations").json()["annotations"]
    lines = [json.loads(one.data) for one in host.do(host.store.audit("acme"))]
    assert (made["actor"]["principalRef"], "run.annotate") in [
        (line["who"], line["action"]) for line in lines if line.get("what") == run
    ]


def test_9_2_followers_get_an_annotation(client):
    run = start_run(client, suite(golden("slow", "x", {"wait": 1.5, "say": "x"}), name="annotated"))
    made = annotate(client, run, signal={"kind": "rating", "rating": 4}).json()
    with contextlib.ExitStack() as stack:
        stack.callback(client.post, f"/v1/runs/{run}/cancel")
        frames = iter(_live(client, run, stack))
        assert next(frame for frame in frames if frame.id).name == "run.started"
        other = annotate(client, run, signal={"kind": "label", "label": "good"}).json()
        annotated = next(frame for frame in frames if frame.name == "run.annotated")
    assert (annotated.id, annotated.data) == (None, other)
    assert [one["annotationId"] for one in (made, other)] == [
        one["annotationId"] for one in client.get(f"/v1/runs/{run}/annotations").json()["annotations"]
    ]
    assert "run.annotated" not in {event["type"] for event in log_of(client, run)}


def _live(client, run, stack):
    headers = {"accept": "text/event-stream"}
    answer = stack.enter_context(client.stream("GET", f"/v1/runs/{run}/events", headers=headers))
    return frames_of(answer.iter_lines())


def test_9_2_without_feedback_annotations_are_501(tmp_path):
    with (
        Server(sqlite(tmp_path), offer=OpenWopFeatures(offer_feedback=False)) as host,
        host.client() as client,
    ):
        run = finish_run(client, WRONG)
        for answer in (
            annotate(client, run, signal={"kind": "flag"}),
            client.get(f"/v1/runs/{run}/annotations"),
        ):
            assert (answer.status_code, answer.json()["error"]) == (501, "capability_not_provided")
            assert answer.json()["details"] == {"capability": "feedback"}
        assert "feedback" not in client.get("/.well-known/openwop").json()


def test_the_history_of_a_suite(client, host):
    document = suite(golden("right", "x", "x"), golden("wrong", "y", "x"), name="history")
    runs = [finish_run(client, document), finish_run(client, document, trials=2)]
    path = f"/v1/host/assay/suites/{document['suiteId']}/history"
    page = client.get(path).json()
    assert [row["runId"] for row in page["rows"]] == runs[::-1]
    row = page["rows"][0]
    same = report(client, runs[1])["report"]
    assert (row["score"], row["low"], row["high"]) == (same["score"], same["low"], same["high"])
    assert (row["passed"], row["tasks"], row["trials"], row["findings"], row["state"]) == (
        False,
        2,
        2,
        None,
        None,
    )
    first = client.get(path, params={"page_size": 1, "agentId": row["agentId"]}).json()
    rest = client.get(
        path, params={"page_size": 1, "agentId": row["agentId"], "page_token": first["nextPageToken"]}
    ).json()
    assert [one["rows"][0]["runId"] for one in (first, rest)] == runs[::-1]
    assert client.get(path, params={"agentId": "x.y"}).json()["rows"] == []
    for query, status in (({"page_size": 101}, 400), ({"page_token": first["nextPageToken"]}, 400), ({"agentId": "\0"}, 400), ({"x": 1}, 400)):  # fmt: skip
        assert client.get(path, params=query).status_code == status
    assert client.get("/v1/host/assay/suites/local.none/history").status_code == 404
    with host.client(tenant="elsewhere") as other:
        assert other.get(path).status_code == 404
    with host.client(scopes=frozenset({"suites:read"})) as unscoped:
        assert unscoped.get(path).status_code == 403
