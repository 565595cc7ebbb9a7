"""What a run surface answers while runs go on and when they have ended (openwop-contract §3.3–§3.7, §4.3, §4.4, §5, §7.4, §9.1), on both databases."""

from datetime import UTC, datetime, timedelta

import pytest

from assay.auth.keys import DEFAULT
from support.evals import golden
from support.servers.openwop_client import (
    finish_run,
    frames_of,
    log_of,
    run_request,
    start_run,
    store_suite,
    suite,
    types_of,
)
from support.servers.rest_client import CONTAINS, Server, request_of
from support.spec_files import fits

PLAIN = suite(golden("a", "x", "x"), golden("b", "y", "x"), name="plain")
SLOW = suite(golden("quick", "x", "x"), golden("slow", "x", {"wait": 600}), name="slow")
INVOCATION = {"prompt", "result", "body", "input", "output", "apiKey", "secret", "credentials", "token"}


@pytest.fixture(scope="module")
def host(database):
    with Server(database, seeded=True) as host:
        yield host


@pytest.fixture(scope="module")
def over(client):
    return finish_run(client, PLAIN)


@pytest.fixture(scope="module")
def going(client):
    """A run of which one task has a score, and one does not end."""
    run = start_run(client, SLOW)
    after = -1
    while True:
        page = client.get(f"/v1/runs/{run}/events/poll?lastSequence={after}&timeout=20").json()
        after = page["lastEventSeq"]
        if "eval.scored" in types_of(page["events"]):
            break
    yield run
    client.post(f"/v1/runs/{run}/cancel")


def refused(answer, status, code):
    assert (answer.status_code, answer.json()["error"]) == (status, code), answer.text
    fits("error-envelope", answer.json())
    return answer.json().get("details", {})


def test_3_3_an_unchanged_snapshot_is_304(client, over, going):
    for run in (over, going):
        answer = client.get(f"/v1/runs/{run}")
        fits("run-snapshot", answer.json())
        tag = answer.headers["etag"]
        for header in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            again = client.get(f"/v1/runs/{run}", headers={"if-none-match": header})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert client.get(f"/v1/runs/{run}", headers={"if-none-match": '"x"'}).status_code == 200


def test_3_3_the_snapshot_of_a_running_run(client, going):
    shown = client.get(f"/v1/runs/{going}").json()
    assert (shown["status"], shown["workflowId"], shown["mode"]) == ("running", SLOW["suiteId"], "eval")
    assert not {"outputs", "error", "completedAt"} & shown.keys()


def test_3_4_the_summary_of_a_running_run_is_409(client, going):
    details = refused(client.get(f"/v1/runs/{going}/eval-summary"), 409, "conflict")
    assert details["runStatus"] == "running"


def test_3_4_runs_without_a_summary_are_404(client):
    other = client.post("/v1/runs", json={"workflowId": "conformance-noop"}).json()["runId"]
    evaluation = client.post("/v1/evaluate", json=request_of(1, [CONTAINS])).json()["evaluation_id"]
    for run in (other, evaluation, "run-unknown", "..", "a:b"):
        refused(client.get(f"/v1/runs/{run}/eval-summary"), 404, "not_found")
        refused(client.get(f"/v1/host/assay/runs/{run}/eval-report"), 404, "not_found")


def test_3_5_a_cancelled_task_is_closed_without_a_score(client):
    run = start_run(client, SLOW)
    body = client.post(f"/v1/runs/{run}:cancel").json()
    assert body == {"runId": run, "status": "cancelled"}
    log = log_of(client, run)
    payloads = [event["payload"] for event in log]
    ended = [one["outcome"] for one in payloads if "outcome" in one]
    assert set(ended) <= {"failed", "completed"}
    assert types_of(log).count("agent.invocation.started") == types_of(log).count(
        "agent.invocation.completed"
    )
    assert "slow" not in {one.get("taskId") for one in payloads}
    assert types_of(log)[-1] == "run.cancelled"
    assert not {"eval.completed", "run.completed", "run.failed"} & set(types_of(log))
    details = refused(client.get(f"/v1/runs/{run}/eval-summary"), 404, "not_found")
    assert details == {"reason": "eval_not_completed"}


@pytest.mark.parametrize("body", [{"why": "x"}, [], {"reason": 1}], ids=str)
def test_3_5_an_invalid_cancel_is_400(client, going, body):
    refused(client.post(f"/v1/runs/{going}/cancel", json=body), 400, "validation_error")


@pytest.mark.parametrize("body", [{}, {"runIds": []}, {"runIds": ["a"], "more": 1}, {"runIds": "a"}], ids=str)
def test_3_5_an_invalid_bulk_cancel_is_400(client, body):
    refused(client.post("/v1/runs:bulk-cancel", json=body), 400, "validation_error")


def test_3_5_runs_are_listed_filtered_and_paged(host, client, over, going):
    def listed(**query):
        answer = client.get("/v1/host/assay/runs", params=query)
        assert answer.status_code == 200, answer.text
        return [run["runId"] for run in answer.json()["runs"]]

    assert {over, going} <= set(listed())
    assert going in listed(status="running", mode="eval")
    assert over not in listed(status="running")
    assert set(listed(workflowId=PLAIN["suiteId"])) >= {over}
    assert going not in listed(workflowId=PLAIN["suiteId"])
    assert over not in listed(mode="workflow")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert listed(since=later) == []
    assert over in listed(until=later)
    paged, token = [], {}
    while True:
        page = client.get("/v1/host/assay/runs", params={"page_size": 2, "mode": "eval", **token}).json()
        paged += [run["runId"] for run in page["runs"]]
        if "nextPageToken" not in page:
            break
        token = {"page_token": page["nextPageToken"]}
    assert paged == listed(mode="eval")
    with host.client(tenant="other") as other:
        assert other.get("/v1/host/assay/runs").json() == {"runs": []}
    for query in (
        {"status": "odd"},
        {"mode": "odd"},
        {"page_size": 0},
        {"page_token": "x"},
        {"since": "x"},
        {"more": 1},
    ):
        refused(client.get("/v1/host/assay/runs", params=query), 400, "validation_error")


def test_3_6_an_idempotency_key_belongs_to_its_tenant_and_operation(host, client, over):
    headers = {"Idempotency-Key": "one for all"}
    body = run_request(store_suite(client, PLAIN))
    first = client.post("/v1/runs", json=body, headers=headers).json()["runId"]
    with host.client(tenant="third") as other:
        store_suite(other, PLAIN)
        theirs = other.post("/v1/runs", json=body, headers=headers)
        assert (theirs.status_code, theirs.headers.get("openwop-idempotent-replay")) == (201, None)
        assert theirs.json()["runId"] != first
    fork = client.post(f"/v1/runs/{over}:fork", json={"mode": "replay"}, headers=headers)
    assert (fork.status_code, fork.headers.get("openwop-idempotent-replay")) == (201, None)
    annotation = {"signal": {"kind": "flag"}}
    made = [client.post(f"/v1/runs/{over}/annotations", json=annotation, headers=headers) for _ in range(2)]
    assert made[0].json() == made[1].json()
    assert made[1].headers["openwop-idempotent-replay"] == "true"


@pytest.mark.parametrize("lacking", ["runs:create", "runs:read"])
def test_3_7_a_fork_needs_to_create_and_to_read(host, over, lacking):
    with host.client(scopes=DEFAULT - {lacking}) as other:
        details = refused(other.post(f"/v1/runs/{over}:fork", json={"mode": "replay"}), 403, "forbidden")
        assert details == {"scopeRequired": lacking}


def test_4_3_a_poll_waits_for_an_event_until_its_timeout(client, going):
    events = client.get(f"/v1/runs/{going}/events/poll").json()["events"]
    last = events[-1]["sequence"]
    page = client.get(f"/v1/runs/{going}/events/poll?lastSequence={last}&timeout=1").json()
    assert (page["events"], page["isComplete"], page["runStatus"]) == ([], False, "running")
    run = start_run(client, suite(golden("a", "x", {"wait": 0.4, "say": "x"}), name="awaited"))
    page = {"lastEventSeq": 1}
    while not page.get("isComplete"):
        page = client.get(f"/v1/runs/{run}/events/poll?lastSequence={page['lastEventSeq']}&timeout=30").json()
        assert page["events"]  # it was waited for
    assert page["events"][-1]["type"] == "run.completed"


def test_4_4_and_9_2_a_batch_holds_events_and_nothing_else(client):
    """What is in no log has a frame of its own; progress is what a buffer spares."""
    run = start_run(
        client, suite(golden("quick", "x", "x"), golden("slow", "x", {"wait": 600}), name="batched")
    )
    headers, query = {"accept": "text/event-stream"}, {"bufferMs": 20, "streamMode": "debug"}
    with client.stream("GET", f"/v1/runs/{run}/events", headers=headers, params=query) as answer:
        frames = frames_of(answer.iter_lines())
        seen = [next(frame for frame in frames if frame.name == "batch")]
        made = client.post(f"/v1/runs/{run}/annotations", json={"signal": {"kind": "flag"}}).json()
        while seen[-1].name != "run.annotated":
            seen.append(next(frames))
        client.post(f"/v1/runs/{run}/cancel")
        seen += list(frames)
    named = [frame for frame in seen if frame.name != "comment"]
    assert {frame.name for frame in named} == {"batch", "run.annotated"}
    assert [(frame.id, frame.data) for frame in named if frame.name == "run.annotated"] == [(None, made)]
    events = [event for frame in named if frame.name == "batch" for event in frame.data]
    assert events == log_of(client, run)
    assert named[-1].data[-1]["type"] == "run.cancelled"


def test_5_invocation_events_have_no_content(client, over):
    for event in log_of(client, over):
        if event["type"].startswith("agent.invocation."):
            assert not INVOCATION & event["payload"].keys()


def test_7_4_a_suite_without_a_version_is_the_highest_and_is_pinned(client):
    for version in ("1.2.0", "1.10.0", "1.9.0"):
        store_suite(client, suite(golden("a", "x", "x"), name="versions", version=version))
    run = client.post("/v1/runs", json=run_request("local.tests.evals.versions")).json()["runId"]
    started = next(event for event in log_of(client, run) if event["type"] == "eval.started")
    assert started["payload"]["suiteVersion"] == "1.10.0"
    assert client.get(f"/v1/runs/{run}").json()["evalSuiteRef"] == "local.tests.evals.versions@1.10.0"


def test_9_1_a_running_run_is_compared_by_its_events_so_far(client, over, going):
    for one, two in ((going, over), (over, going), (going, going)):
        found = client.get(f"/v1/runs/{one}:diff", params={"against": two}).json()
        fits("run-diff-response", found)
        assert (found["a"], found["b"], found["truncated"]) == (one, two, True)
        assert (found["divergedAtSeq"] is None) is (one == two)


def test_9_1_a_comparison_needs_two_readable_runs(host, over, going):
    with host.client(scopes=DEFAULT - {"runs:read"}) as blind:
        refused(blind.get(f"/v1/runs/{over}:diff", params={"against": going}), 403, "forbidden")
    with host.client(tenant="other") as other:
        theirs = finish_run(other, PLAIN)
        for one, two in ((theirs, over), (over, theirs), (theirs, "run-unknown")):
            refused(other.get(f"/v1/runs/{one}:diff", params={"against": two}), 404, "not_found")
        refused(other.get(f"/v1/runs/{theirs}:diff", params={"against": ""}), 400, "validation_error")
