"""FEP over gRPC: what every method does over a real channel, on both databases."""

import json
import re
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict, Parse
from grpc import StatusCode
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

import assay
from assay import errors
from assay.conform.grpc.messages import case_of, message_of, result_of
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.call import STATUS
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.responses import STATUS as REST_STATUS
from support.documents import DOCS, table
from support.servers.grpc_client import RestAndGrpcServer, connect, refusal_of
from support.servers.rest_client import CONTAINS, lines_of, request_of, slow, sqlite
from support.waiting import PATIENCE, wait_until


@pytest.fixture(scope="module")
def host(database):
    with RestAndGrpcServer(database) as host:
        yield host


@pytest.fixture(scope="module")
def client(host):
    with connect(host) as client:
        yield client


@pytest.fixture(scope="module")
def lite(tmp_path_factory):
    """One database is enough where none is asked."""
    with RestAndGrpcServer(
        sqlite(tmp_path_factory.mktemp("lite")), serving=ServerLimits(max_message_bytes=40_000, max_page=100)
    ) as host:
        yield host


def get(client, run, **more):
    return client.GetEvaluation(fep.GetEvaluationRequest(evaluation_id=run), **more)


def operation(client, run):
    return client.GetOperation(fep.GetOperationRequest(operation_id=run))


def wait_for_end(client, run):
    def over():
        found = operation(client, run)
        return found if found.status in ("completed", "failed", "cancelled") else None

    return wait_until(over)


# Every method


@pytest.mark.parametrize(
    ("many", "checks"),
    [
        (3, [CONTAINS]),
        (0, [CONTAINS]),
        (3, []),
        (2, [[CONTAINS], [CONTAINS, slow(0.01)]]),
        (4, [slow(0.01)]),
        (1200, [CONTAINS]),
    ],
    ids=["small", "none", "no checks", "lists", "slow", "many"],
)
def test_run_evaluation_returns_the_result_and_stores_it(host, client, many, checks):
    request = request_of(many, checks, experiment_metadata={"name": "x", "metadata": {"a": [1, None]}})
    answer = client.RunEvaluation(message_of(request))
    shown = result_of(answer)
    assert shown["summary"]["total_test_cases"] == many
    assert [one["execution_context"]["test_case"] for one in shown["results"]] == request["test_cases"]
    assert shown["experiment"] == {"name": "x", "metadata": {"a": [1, None]}}
    assert get(client, answer.evaluation_id) == answer
    with host.client() as rest:  # the same tenant, over the other transport
        kept = rest.get(f"/v1/evaluations/{answer.evaluation_id}").json()
    assert timeless(kept) == timeless(shown)


def timeless(shown):
    """Without clocks, which JSON writes in another way."""
    text = re.sub(r"\"\d{4}-\d\d-\d\dT[^\"]+\"", '"now"', json.dumps(shown, sort_keys=True))
    return re.sub(
        r"(?<=\d)\.0\b", "", text
    )  # and without the fraction that a whole number has in JSON (FEP-2)


def test_get_evaluation_of_one_that_was_started_over_rest(host, client):
    with host.client() as rest:
        run = rest.post("/v1/evaluations", json=request_of(4, [slow(2)])).json()["operation_id"]
        code, body = refusal_of(get, client, run)
        assert (code, body["error"]) == (StatusCode.FAILED_PRECONDITION, "conflict")  # FEP-41
        assert body["details"]["status"] in ("pending", "running")
        assert wait_for_end(client, run).progress.completed_test_cases == 4
        assert timeless(result_of(get(client, run))) == timeless(rest.get(f"/v1/evaluations/{run}").json())


def test_health_check_returns_both_versions(client):
    versions = {"version": "0.0.1", "assayVersion": assay.__version__}
    assert MessageToDict(client.HealthCheck()) == {"status": "healthy", **versions}


def test_grpc_health_is_not_serving_while_the_database_is_away(tmp_path):
    with RestAndGrpcServer(sqlite(tmp_path), keys_known_for=60) as host, connect(host) as client:
        file = tmp_path / "runs.db"
        with grpc.insecure_channel(f"127.0.0.1:{host.grpc_port}") as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(), timeout=PATIENCE
            )
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            file.rename(tmp_path / "away.db")
            assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
            code, body = refusal_of(client.HealthCheck)
            assert (code, body["details"]["reason"]) == (StatusCode.UNAVAILABLE, "database")
            (tmp_path / "away.db").rename(file)
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING


def test_stream_evaluation_sends_progress_and_then_the_result(client):
    *progress, last = client.StreamEvaluation(message_of(request_of(4, [slow(0.05)])))
    assert {one.status for one in progress} == {"running"}
    done = [one.completed_test_cases for one in progress]
    assert done == sorted(done)
    assert done[-1] == 4
    assert {one.total_test_cases for one in (*progress, last)} == {4}
    assert (last.status, last.completed_test_cases) == ("completed", 4)
    assert not any(one.HasField("final_result") for one in progress)
    assert get(client, last.evaluation_id) == last.final_result


def test_run_batch_stores_the_valid_evaluations(host, client):
    good, bad = message_of(request_of(2)), message_of(request_of(2))
    bad.outputs.pop()
    answer = client.RunBatch(
        fep.BatchEvaluationRequest(evaluations=[good, bad, message_of(request_of(1, [slow(0.01)]))])
    )
    assert [len(one.results) for one in answer.results] == [2, 1]
    (error,) = answer.errors
    assert (error.code, error.details["index"]) == ("validation_error", 1)
    counts = (
        answer.summary.total_evaluations,
        answer.summary.successful_evaluations,
        answer.summary.failed_evaluations,
    )
    assert counts == (3, 2, 1)
    assert get(client, answer.results[1].evaluation_id) == answer.results[1]


def test_run_batch_ends_at_its_timeout(client):
    options = fep.BatchOptions(timeout_ms=300, max_concurrent=2)
    request = fep.BatchEvaluationRequest(evaluations=[message_of(request_of(1, [slow(30)]))], options=options)
    (error,) = client.RunBatch(request).errors
    assert error.code == "run_timeout"
    assert wait_for_end(client, error.details["evaluation_id"]).status == "cancelled"
    wrong = fep.BatchEvaluationRequest(options=fep.BatchOptions(timeout_ms=-1))
    assert refusal_of(client.RunBatch, wrong)[1]["details"]["problems"][0]["place"] == "options.timeout_ms"


def test_start_evaluation_is_an_operation_with_its_result_at_the_end(client):
    started = client.StartEvaluation(
        message_of(request_of(3, [slow(0.05)], experiment_metadata={"name": "op"}))
    )
    assert started.status in ("pending", "running")
    assert not started.HasField("result")
    done = wait_for_end(client, started.operation_id)
    assert done.status == "completed"
    assert done.completed_at.ToDatetime() >= done.started_at.ToDatetime() >= done.created_at.ToDatetime()
    assert MessageToDict(done.metadata) == {"experiment": "op"}
    assert done.result == get(client, started.operation_id)


def test_list_operations_in_pages_and_by_filter(host):
    with connect(host, tenant="lists") as client:
        runs = [
            client.RunEvaluation(message_of(request_of(1, experiment_metadata={"name": name}))).evaluation_id
            for name in ("a", 'b "two"', "a")
        ]
        cancelled = client.StartEvaluation(message_of(request_of(20, [slow(1)]))).operation_id
        client.CancelOperation(fep.CancelOperationRequest(operation_id=cancelled))

        def listed(filter="", **more):
            found = client.ListOperations(fep.ListOperationsRequest(filter=filter, **more))
            return [one.operation_id for one in found.operations], found.next_page_token

        first, token = listed(page_size=3)
        second, end = listed(page_size=3, page_token=token)
        assert (first + second, end) == ([cancelled, *reversed(runs)], "")
        assert listed('experiment = "a" AND status=completed')[0] == [runs[2], runs[0]]
        assert listed(r'experiment="b \"two\""')[0] == [runs[1]]
        assert listed("status = cancelled")[0] == [cancelled]
        assert listed("since = 2026-07-01T12:00:00Z AND until=2026-07-02")[0] == []
        assert len(listed("  ")[0]) == 4


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"filter": "status"}, "expected NAME = VALUE"),
        (
            {"filter": "colour = blue"},
            "expected one of status, experiment, since, until, got 'colour = blue'",
        ),
        ({"filter": "status = sleeping"}, "expected one of pending"),
        ({"filter": "status = running OR status = pending"}, "expected AND"),
        ({"filter": "status = running AND status = pending"}, "given twice"),
        ({"filter": "status = running AND"}, "expected NAME = VALUE"),
        ({"filter": "since = yesterday"}, "expected a timestamp"),
        ({"page_size": -1}, "expected a number from 1"),
        ({"page_size": 101}, "expected a number from 1 to 100"),
        ({"page_token": "nonsense"}, "expected a token"),
    ],
)
def test_an_invalid_list_request_is_refused(lite, asked, message):
    with connect(lite) as client:
        code, body = refusal_of(client.ListOperations, fep.ListOperationsRequest(**asked))
        assert (code, body["error"]) == (StatusCode.INVALID_ARGUMENT, "validation_error")
        assert message in body["message"]


def test_cancel_operation_reports_the_rest_as_skip(client):
    run = client.StartEvaluation(message_of(request_of(40, [slow(0.3)]))).operation_id
    asked = fep.CancelOperationRequest(operation_id=run)
    assert client.CancelOperation(asked).cancelled
    assert client.CancelOperation(asked).cancelled
    assert operation(client, run).status == "cancelled"
    result = get(client, run)
    assert result.status == fep.EVALUATION_STATUS_SKIP
    assert len(result.results) == 40
    done = client.RunEvaluation(message_of(request_of())).evaluation_id
    code, body = refusal_of(client.CancelOperation, fep.CancelOperationRequest(operation_id=done))
    assert (code, body["error"], body["details"]) == (
        StatusCode.FAILED_PRECONDITION,
        "run_terminal",
        {"status": "completed"},
    )


# Who waits, and who does not any longer


def latest(client):
    (found,) = client.ListOperations(fep.ListOperationsRequest(page_size=1)).operations
    return found.operation_id


def waiting(client):
    """The id of a run, once it is under way."""
    running = fep.ListOperationsRequest(filter="status = running", page_size=1)
    return wait_until(lambda: client.ListOperations(running).operations)[0].operation_id


def begin_and_leave(client, name, message, metadata=()):
    call = client.call(name, message, wait=False, metadata=metadata)
    run = waiting(client)
    call.cancel()
    return run


LONG = request_of(50, [slow(600)])


@pytest.mark.parametrize("name", ["RunEvaluation", "StreamEvaluation", "RunBatch"])
def test_a_cancelled_call_cancels_its_run(host, name):
    with connect(host, tenant=f"cancel {name}") as client:
        message = message_of(LONG)
        sent = fep.BatchEvaluationRequest(evaluations=[message]) if name == "RunBatch" else message
        run = begin_and_leave(client, name, sent)
        assert wait_for_end(client, run).status == "cancelled"


def test_an_exceeded_deadline_cancels_the_run(host):
    with connect(host, tenant="deadline") as client:
        with pytest.raises(grpc.RpcError) as error:
            client.RunEvaluation(message_of(LONG), timeout=4)
        assert error.value.code() == StatusCode.DEADLINE_EXCEEDED
        assert wait_for_end(client, latest(client)).status == "cancelled"


def test_a_run_with_an_idempotency_key_survives_its_cancelled_call(host):
    with connect(host, tenant="again") as client:
        key = (("idempotency-key", "k1"),)
        message = message_of(request_of(3, [slow(2)]))
        run = begin_and_leave(client, "RunEvaluation", message, key)
        answer = client.RunEvaluation(message, metadata=key)
        assert answer.evaluation_id == run
        assert client.last["openwop-idempotent-replay"] == "true"
        assert answer.status == fep.EVALUATION_STATUS_COMPLETED
        code, body = refusal_of(client.RunEvaluation, message_of(request_of(1)), metadata=key)
        assert (code, body["error"]) == (StatusCode.ALREADY_EXISTS, "idempotency_key_mismatch")


def test_a_cancelled_call_leaves_no_load(lite):
    with connect(lite, tenant="load") as client:
        run = begin_and_leave(client, "RunEvaluation", message_of(LONG))
        wait_for_end(client, run)
        load = lite.app.state.server.admission
        wait_until(
            lambda: (load.requests, load.body_bytes, load.streams, dict(load.requests_of)) == (0, 0, 0, {}),
            lambda: load.__dict__,
        )


# Large results


def test_a_result_over_the_limit_is_stored_and_the_error_names_the_ways_to_read_it(lite):
    request = message_of(request_of(300))
    with connect(lite) as client:
        code, body = refusal_of(client.RunEvaluation, request)
        assert (code, body["error"]) == (StatusCode.RESOURCE_EXHAUSTED, "payload_too_large")
        assert body["details"] | {"how": ""} == {"limit": 40_000, "setting": "max_message_bytes", "how": ""}
        run = re.search(r"eval_\w+", body["details"]["how"])[0]
        for text in ("page-size", "StreamEvaluation", "application/x-ndjson"):
            assert text in body["message"]
        assert not operation(client, run).HasField("result")  # it would not fit
        whole, token = fep.EvaluationRunResult(), ""
        while True:
            paged = (("page-size", "25"), *((("page-token", token),) if token else ()))
            page = get(client, run, metadata=paged)
            whole.results.extend(page.results)
            if not (token := dict(page.metadata).get("next_page_token", "")):
                break
        with lite.client() as rest:
            kept = rest.get(f"/v1/evaluations/{run}").json()
        assert timeless([case_of(one) for one in whole.results]) == timeless(kept["results"])


def test_a_result_over_the_limit_is_streamed_in_parts(lite):
    with connect(lite) as client:
        messages = list(client.StreamEvaluation(message_of(request_of(300))))
        whole = fep.EvaluationRunResult()
        parts = [one.final_result for one in messages if one.status == "completed"]
        assert len(parts) > 1
        assert all(one.ByteSize() <= 40_000 for one in messages)
        for part in parts:
            whole.MergeFrom(part)
        assert whole.summary.total_test_cases == len(whole.results) == 300
        with lite.client() as rest:
            kept = rest.get(f"/v1/evaluations/{whole.evaluation_id}").json()
        assert timeless(result_of(whole)) == timeless(kept)


def test_a_batch_over_the_limit_names_its_runs(lite):
    with connect(lite) as client:
        batch = fep.BatchEvaluationRequest(evaluations=[message_of(request_of(40))] * 5)
        code, body = refusal_of(client.RunBatch, batch)
        assert code == StatusCode.RESOURCE_EXHAUSTED
        runs = re.findall(r"eval_\w+", body["message"])
        assert [len(get(client, run).results) for run in runs] == [40] * 5


def test_a_request_over_the_limit_is_not_read(tmp_path):
    with (
        RestAndGrpcServer(sqlite(tmp_path), serving=ServerLimits(max_body_bytes=2_000)) as host,
        connect(host) as client,
    ):
        with pytest.raises(grpc.RpcError) as error:
            client.RunEvaluation(message_of(request_of(100)))
        assert error.value.code() == StatusCode.RESOURCE_EXHAUSTED
        assert not client.ListOperations().operations


# What gRPC cannot say (FEP-2)


@pytest.mark.parametrize(
    ("value", "sayable"),
    [
        (2**53, True),
        (-(2**53), True),
        (2**53 + 1, False),
        (-(2**53) - 1, False),
        (1e300, True),
        (1.5, True),
        ({"a": [{"b": 2**60}]}, False),
    ],
)
def test_an_integer_beyond_a_double_fails_the_read(lite, value, sayable):
    request = request_of(1, [{"type": "exists", "arguments": {"path": "$.output.value"}}])
    request["outputs"] = [{"value": value}]
    with lite.client() as rest, connect(lite) as client:
        run = rest.post("/v1/evaluate", json=request).json()["evaluation_id"]
        if sayable:
            assert result_of(get(client, run))["results"][0]["execution_context"]["output"] == {
                "value": value
            }
            return
        code, body = refusal_of(get, client, run)
        assert (code, body["error"]) == (StatusCode.OUT_OF_RANGE, "validation_error")


def nested(deep):
    value: object = "end"
    for _ in range(deep):
        value = {"a": value}
    return value


@pytest.mark.parametrize(("deep", "taken"), [(28, True), (31, False)])
def test_too_deep_values_are_refused_in_requests_and_results(lite, deep, taken):
    request = request_of(1, [{"type": "exists", "arguments": {"path": "$.output.value"}}])
    request["outputs"] = [{"value": nested(deep)}]
    with lite.client() as rest, connect(lite) as client:
        run = rest.post("/v1/evaluate", json=request).json()["evaluation_id"]
        if taken:
            there = client.RunEvaluation(message_of(request))
            assert timeless(result_of(there)["results"]) == timeless(result_of(get(client, run))["results"])
        else:
            assert refusal_of(get, client, run)[0] == StatusCode.OUT_OF_RANGE
            assert refusal_of(client.RunEvaluation, message_of(request))[0] == StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["case", "check", "experiment"])
def test_nan_and_infinity_are_refused_with_their_place(lite, number, where):
    message = message_of(request_of(2, experiment_metadata={"name": "x", "metadata": {"a": 1}}))
    field, place = {
        "case": (message.outputs[1].value.object_value.fields["a"], "outputs[1].value"),
        "check": (message.checks.shared_checks.checks[0].arguments.fields["text"], "checks[0].arguments"),
        "experiment": (message.experiment_metadata.metadata.fields["a"], "experiment_metadata.metadata"),
    }[where]
    field.number_value = number
    with connect(lite) as client:
        code, body = refusal_of(client.RunEvaluation, message)
        assert code == StatusCode.INVALID_ARGUMENT
        assert [one["place"] for one in body["details"]["problems"]] == [place]


# What comes in


def rewritten(data):
    """The same request as nobody writes it: an unknown field, a map's value before its key, a field twice."""
    unknown = b"\x9a\x06\x03abc"
    field = b"\x0a\x09\x12\x04\x1a\x02hi\x0a\x01k"  # Struct{k: "hi"}, the value first
    output = b"\x0a" + bytes([len(field) + 2]) + b"\x12" + bytes([len(field)]) + field + unknown
    return (
        data
        + unknown
        + b"\x0a\x0d\x0a\x01z\x12\x03\x0a\x01a\x12\x03\x0a\x01b"
        + b"\x12"
        + bytes([len(output)])
        + output
    )


def test_unusual_but_valid_encodings_are_read(lite):
    message = message_of(request_of(1, [{"type": "exists", "arguments": {"path": "$.output.value"}}]))
    with connect(lite) as client:
        answer = client.RunEvaluation(rewritten(message.SerializeToString()))
        case = result_of(answer)["results"][1]["execution_context"]
        assert case == {"test_case": {"id": "z", "input": "b"}, "output": {"value": {"k": "hi"}}}


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\x0a\x05abc",
        b"\x0a\x04\x0a\x02\xff\xfe",  # an id that is no UTF-8
        b"\x12\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        b"\x1a\x02\x0a\x7f",
        b"\x0a" * 1000,
    ],
)
def test_bytes_that_are_not_a_message_are_refused(lite, data):
    with connect(lite) as client:
        code, body = refusal_of(client.RunEvaluation, data)
        assert (code, body["error"]) == (StatusCode.INVALID_ARGUMENT, "validation_error")
        assert refusal_of(client.RunBatch, b"\x0a" + data)[0] == StatusCode.INVALID_ARGUMENT


def test_json_value_may_hold_a_value_that_has_its_own_field(lite):
    message = fep.EvaluationRequest()
    message.test_cases.add(id="a").input.json_value.string_value = "text"
    message.test_cases[0].expected.SetInParent()  # nothing in it: none
    message.outputs.add().value.json_value.struct_value.fields["b"].bool_value = True
    message.checks.shared_checks.SetInParent()
    with connect(lite) as client:
        answer = client.RunEvaluation(message)
        assert get(client, answer.evaluation_id) == answer
        context = answer.results[0].execution_context
        assert (context.test_case.input.string_value, context.test_case.HasField("expected")) == (
            "text",
            False,
        )
        assert MessageToDict(context.output.value.object_value) == {"b": True}


@pytest.mark.parametrize(
    ("change", "places"),
    [
        (lambda one: one.test_cases[0].ClearField("input"), ["test_cases[0].input"]),
        (lambda one: one.outputs[1].ClearField("value"), ["outputs[1].value"]),
        (lambda one: one.outputs.pop(), ["outputs"]),
        (lambda one: setattr(one.test_cases[1], "id", "c0"), ["test_cases[1].id"]),
        (lambda one: setattr(one.checks.shared_checks.checks[0], "type", "vibes"), ["checks[0].type"]),
        (lambda one: one.checks.shared_checks.checks[0].ClearField("arguments"), ["checks[0].arguments.text", "checks[0].arguments.phrases"]),
        (lambda one: one.checks.per_test_case_checks.check_lists.add(), ["checks"]),
    ],
)  # fmt: skip
def test_an_invalid_request_has_the_problems_that_rest_reports(lite, change, places):
    message = message_of(request_of(2))
    change(message)
    with connect(lite) as client:
        code, body = refusal_of(client.RunEvaluation, message)
        assert code == StatusCode.INVALID_ARGUMENT
        assert [one["place"] for one in body["details"]["problems"]] == places


def test_more_problems_than_metadata_can_hold_are_counted(lite):
    message = message_of(request_of(500))
    for case in message.test_cases:
        case.ClearField("input")
    with connect(lite) as client:
        _, body = refusal_of(client.RunEvaluation, message)
        details = body["details"]
        assert len(details["problems"]) + details["more"] == 500
        assert details["problems"]


# Statuses


def metadata_of(error) -> Any:
    return error.trailing_metadata()


def by_ancestry(table, kind):
    return next(table[one] for one in kind.__mro__ if one in table)


REFUSALS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.Refusal) and not kind.__name__.startswith("_")
]


def test_the_documented_statuses_are_those_of_rest_and_grpc():
    rows = table((DOCS / "grpc.md").read_text("utf-8"), "REST", "gRPC", "codes")
    documented = {(int(rest), code.strip("`")) for rest, code, _ in rows}
    known = {(by_ancestry(REST_STATUS, kind), by_ancestry(STATUS, kind).name) for kind in REFUSALS}
    assert documented == known
    codes = {
        code: (int(rest), status)
        for rest, status, codes_text in rows
        for code in re.findall(r"`(\w+)`", codes_text.partition(":")[0])
    }
    for kind in (
        errors.Forbidden,
        errors.NotFound,
        errors.RunAlreadyEnded,
        errors.IdempotencyKeyReused,
        errors.IdempotencyInFlight,
        errors.RateLimited,
    ):
        assert codes[kind.code] == (by_ancestry(REST_STATUS, kind), f"`{by_ancestry(STATUS, kind).name}`")


SAME = {
    "not_found": (lambda c: c.get("/v1/evaluations/eval_nix"), lambda c: get(c, "eval_nix")),
    "odd id": (lambda c: c.get("/v1/evaluations/a%20b"), lambda c: get(c, "a b")),
    "page": (
        lambda c: c.get("/v1/evaluations?page_token=x"),
        lambda c: c.ListOperations(fep.ListOperationsRequest(page_token="x")),
    ),
    "invalid": (
        lambda c: c.post("/v1/evaluate", json=request_of(2, [{"type": "vibes", "arguments": {}}])),
        lambda c: c.RunEvaluation(message_of(request_of(2, [{"type": "vibes", "arguments": {}}]))),
    ),
    "key": (
        lambda c: c.post("/v1/evaluate", json=request_of(), headers={"idempotency-key": "x" * 256}),
        lambda c: c.RunEvaluation(message_of(request_of()), metadata=(("idempotency-key", "x" * 256),)),
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_error_details_equal_the_rest_error_body(lite, what):
    over_rest, over_grpc = SAME[what]
    with lite.client() as rest, connect(lite) as client:
        answer = over_rest(rest)
        code, body = refusal_of(over_grpc, client)
        assert body == answer.json()
        assert code == {404: StatusCode.NOT_FOUND, 400: StatusCode.INVALID_ARGUMENT}[answer.status_code]


def test_an_internal_error_has_a_correlation_id_and_no_traceback(lite):
    lite.service.store, kept = None, lite.service.store
    try:
        with connect(lite) as client:
            code, body = refusal_of(
                client.RunEvaluation, message_of(request_of()), metadata=(("x-request-id", "mine-7"),)
            )
    finally:
        lite.service.store = kept
    assert (code, body["error"]) == (StatusCode.INTERNAL, "internal_error")
    assert body["details"] == {"correlationId": "mine-7"}
    assert "NoneType" not in body["message"]


def test_a_rate_limited_call_has_a_retry_delay(tmp_path):
    serving = ServerLimits(max_tenant_runs=1)
    with RestAndGrpcServer(sqlite(tmp_path), serving=serving) as host, connect(host) as client:
        run = client.StartEvaluation(message_of(LONG)).operation_id
        with pytest.raises(grpc.RpcError) as error:
            client.StartEvaluation(message_of(LONG))
        assert error.value.code() == StatusCode.RESOURCE_EXHAUSTED
        assert int(dict(metadata_of(error.value))["retry-after"]) >= 1
        client.CancelOperation(fep.CancelOperationRequest(operation_id=run))


def test_a_response_has_the_id_of_its_request(client):
    client.HealthCheck(metadata=(("x-request-id", "mine-1"),))
    assert client.last["x-request-id"] == "mine-1"
    client.HealthCheck()
    assert client.last["x-request-id"].startswith("req_")


# Health and reflection


def test_grpc_health_needs_no_key_and_ends_with_the_server(tmp_path):
    with (
        RestAndGrpcServer(sqlite(tmp_path)) as host,
        grpc.insecure_channel(f"127.0.0.1:{host.grpc_port}") as channel,
    ):
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "fep.v1.EvaluationService", "fep.v1.AsyncEvaluationService"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        watching = health.Watch(health_pb2.HealthCheckRequest(service=""), timeout=PATIENCE)
        assert next(watching).status == health_pb2.HealthCheckResponse.SERVING
        host.server.should_exit = True
        assert next(watching).status == health_pb2.HealthCheckResponse.NOT_SERVING


def test_reflection_v1_equals_v1alpha(lite):
    ask = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="fep.v1.EvaluationService"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="grpc.reflection.v1.ServerReflection"),
    ]
    with grpc.insecure_channel(f"127.0.0.1:{lite.grpc_port}") as channel:
        answers = [
            list(
                channel.stream_stream(
                    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                    request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
                    response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
                )(iter(ask))
            )
            for version in ("v1", "v1alpha")
        ]
    assert answers[0] == answers[1]
    names = {one.name for one in answers[0][0].list_services_response.service}
    assert {"fep.v1.EvaluationService", "grpc.reflection.v1.ServerReflection"} <= names
    assert not any(one.HasField("error_response") for one in answers[0])


def test_a_client_without_a_proto_learns_the_service_by_reflection(lite):
    """What grpcurl does: list the services, read the messages, and ask with JSON."""
    from google.protobuf import descriptor_pool, message_factory

    with grpc.insecure_channel(f"127.0.0.1:{lite.grpc_port}") as channel:
        known = ProtoReflectionDescriptorDatabase(channel)
        assert set(known.get_services()) >= {
            "fep.v1.EvaluationService",
            "fep.v1.AsyncEvaluationService",
            "grpc.health.v1.Health",
        }
        pool = descriptor_pool.DescriptorPool(known)
        method = pool.FindServiceByName("fep.v1.EvaluationService").FindMethodByName("RunEvaluation")
        request, result = (
            message_factory.GetMessageClass(one) for one in (method.input_type, method.output_type)
        )
        page = (DOCS / "grpc.md").read_text("utf-8")
        body = re.search(r"<<'REQUEST'\n(.*?)REQUEST", page, re.DOTALL)[1]  # the page's own
        call = channel.unary_unary(
            "/fep.v1.EvaluationService/RunEvaluation",
            request_serializer=request.SerializeToString,
            response_deserializer=result.FromString,
        )
        answer = call(
            Parse(body, request(), descriptor_pool=pool),
            metadata=(("x-api-key", lite.key()),),
            timeout=PATIENCE,
        )
        assert MessageToDict(answer, descriptor_pool=pool)["results"][0]["checkResults"][0]["results"] == {
            "passed": True
        }


# What every transport refuses or takes alike


ODD: Any = {
    "test_cases": [
        {"id": "a", "input": 1, "expected": None, "metadata": None, "checks": None},
        {"id": "b", "input": 2, "metadata": {"k": None}},
    ],
    "outputs": [{"value": None, "id": None, "metadata": None}, {"value": "x", "id": "o"}],
    "checks": [{"type": "exists", "arguments": {"path": "$.output.id"}, "version": None, "metadata": None}],
    "experiment_metadata": {"name": None, "metadata": None},
}


@pytest.mark.parametrize("lines", [False, True])
def test_null_over_rest_means_absent(lite, lines):
    content = b"\xef\xbb\xbf" + (lines_of(ODD) if lines else json.dumps(ODD, indent=1).encode())
    media = {"Content-Type": "application/x-ndjson" if lines else "application/json"}
    with lite.client() as rest:
        answer = rest.post("/v1/evaluate", content=content, headers=media)
        assert answer.status_code == 200, answer.text
        run = answer.json()
    assert run.get("experiment", {}) == {}
    assert [one["execution_context"] for one in run["results"]] == [
        {"test_case": {"id": "a", "input": 1, "expected": None}, "output": {"value": None}},
        {"test_case": {"id": "b", "input": 2, "metadata": {"k": None}}, "output": {"value": "x", "id": "o"}},
    ]
    assert [one["check_results"][0]["results"]["passed"] for one in run["results"]] == [False, True]


def test_resolved_arguments_can_be_turned_off_over_rest_and_grpc(lite):
    request = request_of(2)
    off = {"resolved_arguments": "false"}
    with lite.client() as rest, connect(lite) as client:
        lined = {"content": lines_of(request), "headers": {"Content-Type": "application/x-ndjson"}}
        some = [
            rest.post("/v1/evaluate", json=request, params=off).json(),
            rest.post("/v1/evaluate", params=off, **lined).json(),
            rest.post("/v1/evaluate:batch", json={"evaluations": [request]}, params=off).json()["results"][0],
            result_of(client.RunEvaluation(message_of(request), metadata=[("resolved-arguments", "false")])),
        ]
        whole = [
            rest.post("/v1/evaluate", json=request).json(),
            result_of(client.RunEvaluation(message_of(request))),
        ]
        bad = rest.post("/v1/evaluate", json=request, params={"resolved_arguments": "no"})
        assert bad.json()["details"]["problems"] == [
            {"place": "resolved_arguments", "message": "expected true or false, got 'no'"}
        ]
        code, _ = refusal_of(
            client.RunEvaluation, message_of(request), metadata=[("resolved-arguments", "0")]
        )
        assert code == StatusCode.INVALID_ARGUMENT
    for run, there in [(one, False) for one in some] + [(one, True) for one in whole]:
        checks = [check for one in run["results"] for check in one["check_results"]]
        assert len(checks) == 2
        assert all(("resolved_arguments" in check) is there for check in checks)


def test_all_problems_of_a_request_at_once_over_rest_and_grpc(lite):
    request: Any = {
        "test_cases": [{"id": "", "input": 1}, {"id": "b", "input": 2}],
        "outputs": [{"value": 1}, {"value": 2, "id": ""}, {"metadata": {}}],
        "checks": [{"type": "vibes", "arguments": {}}, {"type": "regex", "version": "7.0.0", "arguments": {"text": "a"}}],
        "experiment_metadata": {"name": "x" * 600},
    }  # fmt: skip
    places = {
        "outputs", "test_cases[0].id", "outputs[1].id", "outputs[2].value", "checks[0].type", "checks[1].version",
        "checks[1].arguments.pattern", "experiment_metadata.name",
    }  # fmt: skip
    with lite.client() as rest, connect(lite) as client:
        answer = rest.post("/v1/evaluate", json={**request, "more": 1})
        assert {one["place"] for one in answer.json()["details"]["problems"]} == {*places, "more"}
        _, body = refusal_of(client.RunEvaluation, message_of(request))
        assert {one["place"] for one in body["details"]["problems"]} == places
        odd = rest.post("/v1/evaluate", json={**request, "outputs": 3, "checks": [1]}).json()["details"][
            "problems"
        ]
        assert {one["place"] for one in odd} == {
            "outputs",
            "checks[0]",
            "test_cases[0].id",
            "experiment_metadata.name",
        }
