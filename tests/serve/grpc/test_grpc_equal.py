"""Library, REST and gRPC find the same; and a client made from the text's own proto, unmodified, is served."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from grpc import RpcError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import json as wire

import assay
from assay.conform.grpc.messages import message_of, result_of
from support.servers.grpc_client import RestAndGrpcServer, connect, refusal_of
from support.servers.rest_client import sqlite
from support.spec_files import SHARED, needs_shared
from support.waiting import PATIENCE

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False).map(
    lambda one: int(one) if one.is_integer() and abs(one) <= 2**53 else one
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS | st.text('ab"\\\n', max_size=200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=3)
MANY = ["$..a", "$.output.value[*]"]  # of which more than one thing may come
PATHS = st.sampled_from(["$.output.value", "$.test_case.expected", "$.output.metadata.a", *MANY, "$.["])
CHECKS = st.one_of(
    st.builds(lambda a, b, n: check("exact_match", actual=a, expected=b, negate=n), PATHS | WORDS, PATHS | WORDS, st.booleans()),
    st.builds(lambda t, p: check("contains", text=t, phrases=p), PATHS, st.lists(WORDS.filter(bool), min_size=1, max_size=2)),
    st.builds(lambda t: check("regex", text=t, pattern="a+|b"), PATHS),
    st.builds(lambda v, m: check("threshold", value=v, min_value=m), PATHS, NUMBERS),
    st.builds(lambda v, e: check("json_match", actual=v, expected=e), PATHS, VALUES.filter(lambda one: not isinstance(one, str))),
    st.builds(lambda p: check("exists", path=p), PATHS),
    st.builds(lambda t, e: check("number", text=t, expected=e, absolute=0.5), PATHS, PATHS | NUMBERS),
    st.builds(lambda t, e: check("choice", text=t, expected=[e]), PATHS, st.sampled_from("ABZ")),
    st.builds(lambda m, t, r: check(m, text=t, references=r), st.sampled_from(["f1", "edit_distance", "rouge", "bleu"]), PATHS, PATHS | st.lists(WORDS, min_size=1, max_size=2)),
    st.builds(lambda t, w: check("combination", checks=[check("contains", text=t, phrases=["a"]), check("exists", path=t)], weights={"exists": w}), PATHS, st.sampled_from([0, 1, 2.5, -1])),
    st.builds(lambda t: check("python_code", code=t), WORDS),  # refused: the operator does not allow it
    st.builds(lambda t: check("vibes", text=t), WORDS),  # refused
)  # fmt: skip


def check(type, **arguments):
    return {"type": type, "arguments": arguments}


def some(**members):
    return st.fixed_dictionaries({}, optional=members)


# two checks of one list may have one name, and a name may be empty: both are refused
NAMED = st.builds(lambda one, named: one | named, CHECKS, some(name=st.text("ab é", max_size=4)))


@st.composite
def requests(draw):
    many = draw(st.integers(0, 4))
    cases = [
        {"id": f"c{at}", "input": draw(VALUES), **draw(some(expected=VALUES, metadata=OBJECTS))}
        for at in range(many)
    ]
    outputs = [
        {"value": draw(VALUES), **draw(some(id=WORDS.filter(bool), metadata=OBJECTS))}
        for _ in range(many + draw(st.sampled_from([0, 0, 0, 1])))
    ]
    shared = st.lists(NAMED, max_size=3)
    request = {"test_cases": cases, "outputs": outputs}
    request["checks"] = draw(shared | st.lists(shared, min_size=many, max_size=many))
    if any(path in json.dumps(request["checks"]) for path in MANY):
        request |= {
            "test_cases": [one_each(case) for case in cases],
            "outputs": [one_each(one) for one in outputs],
        }
    if draw(st.booleans()):
        request["experiment_metadata"] = draw(some(name=WORDS, metadata=OBJECTS))
    return request  # fmt: skip


def one_each(member):
    """With one member in every object inside: what a path finds in several comes in their order, which messages do not keep."""
    return {name: alone(value) for name, value in member.items()}


def alone(value):
    if isinstance(value, dict):
        return {name: alone(one) for name, one in [*value.items()][:1]}
    return [alone(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with (
        RestAndGrpcServer(sqlite(tmp_path_factory.mktemp("equal"))) as host,
        host.client() as rest,
        connect(host) as client,
    ):
        yield host.registry, rest, client


def by_library(registry, request):
    try:
        result = assay.evaluate_sync(**request, registry=registry)
    except assay.InvalidRequest as refusal:
        return [problem._asdict() for problem in refusal.problems]
    return json.loads(wire.encode(result))


def by_rest(rest, request):
    answer = rest.post("/v1/evaluate", json=request)
    return answer.json() if answer.status_code == 200 else answer.json()["details"]["problems"]


def by_grpc(client, request):
    message = message_of(request)
    try:
        return result_of(client.RunEvaluation(message))
    except RpcError:
        return refusal_of(client.RunEvaluation, message)[1]["details"]["problems"]


def apart(found):
    """Ids, clocks and times aside; and in the order of the keys, which messages do not keep."""
    text = json.dumps(found, sort_keys=True)
    text = re.sub(r'"eval_\w+"', '"id"', text)
    text = re.sub(r'"execution_time_ms": [0-9.e-]+', '"execution_time_ms": 0', text)
    return json.loads(re.sub(r'"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)?"', '"now"', text))


STEPS = [{"type": "tool-called", "call_id": "1", "tool": "find", "inputs": {"order": 17}}, {"tool": "pay"}]
TRAJECTORY_CHECKS = [
    (check("tool_calls", expected=["find", "pay"]), True),
    (check("tool_calls", expected=[{"tool": "find", "arguments": {"order": 17}}], mode="superset"), True),
    (check("tool_calls", expected=[{"tool": "find", "schema": {"required": ["id"]}}], mode="superset"), False),
    (check("tool_calls", forbidden=[{"tool": "find", "check": check("threshold", value="$.arguments.order", max_value=17)}]), False),
    (check("tool_calls", trajectory="$.output.value", expected=[]), None),  # an item of no known form
    (check("max_steps", limit=2), True),
    (check("no_repeated_calls", limit=1), True),
]  # fmt: skip


def test_checks_of_trajectories_answer_the_same_everywhere(both):
    registry, rest, client = both
    request = {
        "test_cases": [{"id": "a", "input": "?"}],
        "outputs": [{"value": [{"odd": 1}], "metadata": {"trajectory": STEPS}}],
        "checks": [one for one, _ in TRAJECTORY_CHECKS],
    }
    library = by_library(registry, request)
    assert apart(by_rest(rest, request)) == apart(by_grpc(client, request))
    found = library["results"][0]["check_results"]
    assert [one["results"].get("passed") for one in found] == [passed for _, passed in TRAJECTORY_CHECKS]
    over_rest = by_rest(rest, request)["results"][0]["check_results"]
    assert [one["results"] for one in over_rest] == [one["results"] for one in found]
    wrong = request | {"checks": [check("tool_calls", expected=[{"tool": "a", "check": check("vibes")}])]}
    (problem,) = by_library(registry, wrong)
    assert problem["place"] == "checks[0].arguments.expected[0].check.type"
    assert apart(by_rest(rest, wrong)) == apart(by_grpc(client, wrong)) == apart([problem])


@given(request=requests())
@settings(
    max_examples=settings.default.max_examples // 6,  # each is answered by a library and two servers
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_library_rest_and_grpc_return_the_same_result(both, request):
    registry, rest, client = both
    library = by_library(registry, request)
    over_rest, over_grpc = by_rest(rest, request), by_grpc(client, request)
    assert apart(over_grpc) == apart(over_rest)
    if isinstance(library, dict):
        assert apart(over_rest) == apart(library)
    else:  # what is refused is refused by all; the library says less of it at once
        assert all(problem in over_rest for problem in library)


# The text's own proto

CLIENT = '''
import sys, grpc
import fep_pb2 as fep, fep_pb2_grpc as services

metadata = (("x-api-key", sys.argv[2]),)
request = fep.EvaluationRequest()
request.test_cases.add(id="a").input.string_value = "q"
request.outputs.add().value.object_value.update({"text": "Paris", "n": 3})
check = request.checks.shared_checks.checks.add(type="contains")
check.arguments.update({"text": "$.output.value.text", "phrases": ["Paris"]})
with grpc.insecure_channel(sys.argv[1]) as channel:
    now, later = services.EvaluationServiceStub(channel), services.AsyncEvaluationServiceStub(channel)
    assert now.HealthCheck(fep.HealthCheckRequest(), timeout=120).status == "healthy"
    result = now.RunEvaluation(request, metadata=metadata, timeout=120)
    assert result.results[0].check_results[0].results["passed"] is True
    assert result.results[0].check_results[0].metadata.test_case_id == "a"
    assert dict(result.results[0].execution_context.output.value.object_value) == {"text": "Paris", "n": 3}
    assert result.summary.completed_test_cases == 1
    assert now.GetEvaluation(fep.GetEvaluationRequest(evaluation_id=result.evaluation_id), metadata=metadata, timeout=120) == result
    *_, last = now.StreamEvaluation(request, metadata=metadata, timeout=120)
    assert (last.status, len(last.final_result.results)) == ("completed", 1)
    operation = later.StartEvaluation(request, metadata=metadata, timeout=120)
    asked = fep.GetOperationRequest(operation_id=operation.operation_id)
    while operation.status in ("pending", "running"):
        operation = later.GetOperation(asked, metadata=metadata, timeout=120)
    assert operation.status == "completed" and len(operation.result.results) == 1
    assert len(later.ListOperations(fep.ListOperationsRequest(), metadata=metadata, timeout=120).operations) == 3
    try:
        later.CancelOperation(fep.CancelOperationRequest(operation_id=operation.operation_id), metadata=metadata, timeout=120)
    except grpc.RpcError as refused:
        assert refused.code() == grpc.StatusCode.FAILED_PRECONDITION
'''  # fmt: skip


def texts_own_proto():
    text = (SHARED / "spec" / "fep-0.0.1.md").read_text("utf-8")
    return re.search(r'```\n(syntax = "proto3";.*?)```', text, re.DOTALL)[1]


@needs_shared
def test_a_client_of_the_published_proto_is_served(tmp_path):
    from grpc_tools import protoc  # pyright: ignore[reportMissingTypeStubs]

    (tmp_path / "fep.proto").write_text(texts_own_proto(), "utf-8")
    known = protoc.__file__.replace("protoc.py", "_proto")
    made = protoc.main(
        [
            "protoc",
            f"-I{tmp_path}",
            f"-I{known}",
            f"--python_out={tmp_path}",
            f"--grpc_python_out={tmp_path}",
            "fep.proto",
        ]
    )
    assert made == 0
    (tmp_path / "client.py").write_text(CLIENT, "utf-8")
    with RestAndGrpcServer(sqlite(tmp_path)) as host:
        done = subprocess.run(
            [sys.executable, "client.py", f"127.0.0.1:{host.grpc_port}", host.key(tenant="text")],
            cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr


@needs_shared
def test_our_proto_contains_the_published_one_and_only_the_decided_additions():
    ours = (Path(__file__).parents[3] / "proto" / "fep" / "v1" / "fep.proto").read_text("utf-8")

    def statements(text):
        return {" ".join(line.partition("//")[0].split()) for line in text.splitlines()} - {""}

    assert statements(texts_own_proto()) - statements(ours) == {
        'import "google/protobuf/any.proto";'
    }  # of no use
    assert statements(ours) - statements(texts_own_proto()) == {
        "google.protobuf.Value json_value = 3;",
        "optional string id = 3;",
        "optional string name = 4;",
        "string assay_version = 3;",
        "optional string parse = 7;",
        "int32 total_checks = 5;",
        "int32 completed_checks = 6;",
        "int32 error_checks = 7;",
        "int32 skipped_checks = 8;",
        "rpc RunBatch(BatchEvaluationRequest) returns (BatchEvaluationResponse);",
    }
