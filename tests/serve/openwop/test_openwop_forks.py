"""Forks, comparisons and cancelling over HTTP (openwop-contract §3.5, §3.6, §3.7, §6.3, §9.1), on SQLite and PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.serve.openwop.features import OpenWopFeatures
from support.evals import golden, rubric
from support.servers.openwop_client import (
    finish_run,
    log_of,
    run_request,
    start_run,
    store_suite,
    suite,
    types_of,
    wait_for_run,
)
from support.servers.rest_client import Server, sqlite
from support.spec_files import fits

PLAIN = suite(golden("a", "Paris", "Paris"), golden("b", "Rome", "Paris"), name="plain")
WAITING = suite(golden("slow", "x", {"wait": 30, "say": "x"}), golden("quick", "x", "x"), name="waiting")


class Moody:
    """A judge that cannot be understood until somebody helps."""

    def __init__(self):
        self.well = False

    def __call__(self, ask):
        met = {"criterion_1": {"reason": "it is", "met": True}}
        return met if self.well else "no"


@pytest.fixture(scope="module")
def host(database):
    with Server(database) as host:
        yield host


@pytest.fixture(scope="module")
def source(client):
    return finish_run(client, PLAIN)


def forked(client, run, **body):
    return client.post(f"/v1/runs/{run}:fork", json=body)


def test_3_7_a_replay_copies_every_event_and_mints_only_ids(client, source):
    answer = forked(client, source, mode="replay")
    made = answer.json()
    assert (answer.status_code, made["sourceRunId"], made["mode"], made["fromSeq"]) == (
        201,
        source,
        "replay",
        0,
    )
    assert made["status"] == "completed"
    assert made["eventsUrl"].endswith(f"/v1/runs/{made['runId']}/events")
    before, after = log_of(client, source), log_of(client, made["runId"])
    ids = {one["eventId"]: other["eventId"] for one, other in zip(before, after, strict=True)}
    assert not set(ids) & set(ids.values())
    for one, other in zip(before, after, strict=True):
        fits("run-event", other)
        assert other == one | {
            "eventId": ids[one["eventId"]],
            "runId": made["runId"],
            **({"causationId": ids[one["causationId"]]} if "causationId" in one else {}),
        }
    compared = client.get(f"/v1/runs/{made['runId']}:diff", params={"against": source}).json()
    assert (compared["divergedAtSeq"], compared["eventDiffs"], compared["stateDiff"]) == (None, [], {})
    fits("run-diff-response", compared)
    summaries = [client.get(f"/v1/runs/{run}/eval-summary").json() for run in (source, made["runId"])]
    assert summaries[0] == summaries[1]


@pytest.mark.parametrize(
    ("body", "status", "code", "place"),
    [
        ({"mode": "rewind"}, 400, "validation_error", "mode"),
        ({"mode": "replay", "more": 1}, 400, "validation_error", "more"),
        ({"mode": "replay", "fromSeq": -1}, 400, "validation_error", "fromSeq"),
        ({"mode": "replay", "runOptionsOverlay": {"a": 1}}, 400, "validation_error", "runOptionsOverlay"),
        ({"mode": "branch"}, 400, "validation_error", "fromSeq"),
        ({"mode": "branch", "fromSeq": 0}, 400, "validation_error", "fromSeq"),
        ({"mode": "branch", "fromSeq": 999_999}, 422, "invalid_from_seq", ""),
        ({"mode": "replay", "fromSeq": 999_999}, 422, "invalid_from_seq", ""),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_3_7_an_invalid_fork_is_refused(client, source, body, status, code, place):
    answer = forked(client, source, **body)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert place in answer.json()["message"]
    if status == 422:
        assert answer.json()["details"] == {"sourceRunId": source, "fromSeq": 999_999}
    fits("error-envelope", answer.json())


def test_3_7_a_branch_of_an_eval_changes_no_option(client, source):
    last = log_of(client, source)[-1]["sequence"]
    answer = forked(client, source, mode="branch", fromSeq=last, runOptionsOverlay={"model": "x"})
    assert (answer.status_code, answer.json()["details"]["field"]) == (400, "runOptionsOverlay")


def test_3_7_a_fork_with_an_idempotency_key_happens_once(client, source):
    headers = {"Idempotency-Key": f"fork-{source}"}
    one, two = (
        client.post(f"/v1/runs/{source}:fork", json={"mode": "replay"}, headers=headers) for _ in range(2)
    )
    assert one.json()["runId"] == two.json()["runId"]
    assert [a.headers.get("openwop-idempotent-replay") for a in (one, two)] == [None, "true"]


def test_the_report_of_a_run_without_a_measured_task_has_no_score(tmp_path):
    document = suite(rubric("judged", ("it is kind", 1), input="x"), modes=("rubric",), name="unjudged")
    with Server(sqlite(tmp_path), judge=Moody()) as host, host.client() as client:
        run = finish_run(client, document)
        report = client.get(f"/v1/host/assay/runs/{run}/eval-report").json()["report"]
        assert (report["score"], report["low"], report["high"]) == (None, None, None)
        assert report["unmeasured"] == ["judged"]


def test_3_7_a_branch_keeps_scored_tasks_and_executes_the_rest(tmp_path):
    judge = Moody()
    document = suite(
        golden("sure", "x", "x"), rubric("judged", ("it is kind", 1), input="x"), modes=("golden", "rubric")
    )
    with Server(sqlite(tmp_path), judge=judge) as host, host.client() as client:
        run = finish_run(client, document)
        shown = wait_for_run(client, run)
        assert (shown["status"], shown["error"]["code"]) == ("failed", "eval_unmeasured")
        assert shown["error"]["details"] == {"taskIds": ["judged"]}
        assert client.get(f"/v1/runs/{run}/eval-summary").json()["details"] == {
            "reason": "eval_not_completed"
        }
        judge.well = True
        last = log_of(client, run)[-1]["sequence"]
        made = forked(client, run, mode="branch", fromSeq=last).json()
        log = log_of(client, made["runId"])
        assert [event["sequence"] for event in log] == list(range(len(log)))
        scored = {event["payload"]["taskId"]: event for event in log if event["type"] == "eval.scored"}
        assert scored.keys() == {"sure", "judged"}
        (kept,) = (event for event in log_of(client, run) if event["type"] == "eval.scored")
        assert scored["sure"]["timestamp"] == kept["timestamp"]  # it was not done again
        assert wait_for_run(client, made["runId"])["outputs"]["passed"] is True


def test_3_7_a_running_run_cannot_be_forked(client):
    run = start_run(client, WAITING)
    answer = forked(client, run, mode="replay")
    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
    client.post(f"/v1/runs/{run}/cancel")


def test_6_3_regression_compares_with_a_baseline_and_its_difference_can_be_read(client):
    document = suite(golden("a", "Paris", "Paris"), golden("b", "Rome", "Paris"), name="again",
                     modes=("golden", "regression"))  # fmt: skip
    first = finish_run(client, document, evalModes=["golden"])
    run = finish_run(client, document, evalModes=["regression"], baselineRunId=first)
    summary = client.get(f"/v1/runs/{run}/eval-summary").json()
    fits("eval-summary", summary)
    assert summary["regression"] == {
        "baselineRunId": first,
        "scoreDelta": 0,
        "diffRef": f"/v1/runs/{run}:diff?against={first}",
    }
    compared = client.get(summary["regression"]["diffRef"])
    assert compared.status_code == 200
    fits("run-diff-response", compared.json())
    log = log_of(client, run)
    started, completed = (
        next(event["payload"] for event in log if event["type"] == type)
        for type in ("eval.started", "eval.completed")
    )
    assert (started["baselineRunId"], completed["regressionVsBaseline"]) == (first, 0)


def test_3_5_cancel_stops_a_run_and_keeps_why_beside_its_last_event(host, client):
    run = start_run(client, WAITING)
    answer = client.post(f"/v1/runs/{run}/cancel", json={"reason": "enough; sk-0123456789abcdefghij"})
    assert (answer.status_code, answer.json()) == (200, {"runId": run, "status": "cancelled"})
    log = log_of(client, run)
    assert types_of(log).count("run.cancelled") == 1
    assert "eval.completed" not in types_of(log)
    last = log[-1]
    assert last["type"] == "run.cancelled"
    assert last["payload"]["reason"] == "enough; [REDACTED:openai-key]"
    assert last["payload"]["cancelledBy"] == wait_for_run(client, run)["owner"]["principal"]
    stored = host.do(host.store.events(run, after=last["sequence"] - 1))
    assert b"enough" not in stored[0].data
    again = client.post(f"/v1/runs/{run}:cancel", json={})
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")
    copy = forked(client, run, mode="replay").json()
    assert log_of(client, copy["runId"])[-1]["payload"] == last["payload"]


def test_3_5_cancel_of_a_finished_run_changes_nothing(client, source):
    log = log_of(client, source)
    for path, again in (("/cancel", {}), (":cancel", {}), ("/cancel", {"Idempotency-Key": "stop"})):
        for _ in range(2):
            answer = client.post(f"/v1/runs/{source}{path}", json={"reason": "late"}, headers=again)
            assert (answer.status_code, answer.json()) == (200, {"runId": source, "status": "completed"})
    assert log_of(client, source) == log
    assert wait_for_run(client, source)["status"] == "completed"


def test_3_5_bulk_cancel_answers_for_each(client, source):
    run = start_run(client, WAITING)
    answer = client.post("/v1/runs:bulk-cancel", json={"runIds": [run, source, "run-none", "a b", run]})
    results = answer.json()["results"]
    codes = [
        (one["runId"], one["ok"], one.get("status"), one.get("error", {}).get("code")) for one in results
    ]
    assert codes == [
        (run, True, "cancelled", None),
        (source, True, "completed", None),
        ("run-none", False, None, "not_found"),
        ("a b", False, None, "not_found"),
        (run, True, "cancelled", None),
    ]
    assert [one["error"].keys() for one in results if "error" in one] == [{"code", "message"}] * 2
    many = client.post("/v1/runs:bulk-cancel", json={"runIds": ["r"] * 101})
    assert (many.status_code, many.json()["details"]["maxRunIds"]) == (400, 100)


def test_3_6_ten_requests_at_once_with_one_key_are_one_run(client):
    body = run_request(store_suite(client, PLAIN))
    with ThreadPoolExecutor(10) as pool:
        answers = list(
            pool.map(
                lambda _: client.post("/v1/runs", json=body, headers={"Idempotency-Key": "ten"}), range(10)
            )
        )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["runId"] for answer in answers}) == 1
    assert [answer.headers.get("openwop-idempotent-replay") for answer in answers].count("true") == 9
    turned = dict(reversed(body.items()))
    assert client.post("/v1/runs", json=turned, headers={"Idempotency-Key": "ten"}).status_code == 201
    other = client.post("/v1/runs", json=body | {"tags": ["x"]}, headers={"Idempotency-Key": "ten"})
    assert (other.status_code, other.json()["error"]) == (409, "idempotency_key_mismatch")
    assert "runId" not in other.text


def test_3_6_a_refused_request_does_not_use_its_idempotency_key(client):
    headers = {"Idempotency-Key": "refused first"}
    body = run_request("local.tests.evals.later@1.0.0")
    assert client.post("/v1/runs", json=body, headers=headers).status_code == 400
    store_suite(client, suite(golden("a", "x", "x"), name="later"))
    answer = client.post("/v1/runs", json=body, headers=headers)
    assert (answer.status_code, answer.headers.get("openwop-idempotent-replay")) == (201, None)


def test_without_replay_a_fork_is_501(tmp_path):
    with Server(sqlite(tmp_path), offer=OpenWopFeatures(offer_replay=False)) as host, host.client() as client:
        run = finish_run(client, PLAIN)
        answer = forked(client, run, mode="replay")
        assert (answer.status_code, answer.json()["details"]) == (501, {"capability": "replay"})
        discovery = client.get("/.well-known/openwop").json()
        model = discovery["multiAgent"]["executionModel"]
        assert (model["version"], model["verifier"]["supported"]) == (3, True)
        assert not {"replay", "replayDeterminism"} & {*discovery, *discovery["capabilities"], *model}
