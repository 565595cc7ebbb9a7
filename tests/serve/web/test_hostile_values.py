"""
Values that are too deep, too large or too odd, at every way in and from every agent: refused with their place, or that task's failure.

One server for all rows. Never a 500, a gRPC INTERNAL, a traceback in the log, or the end of a run.
"""

import json
import logging
import math
import struct
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.agenteval.suites.suite import read_suite
from assay.backends.agents.callable import CallableAgent
from assay.checks.checker import Checker, Text
from assay.checks.standard.semantic_similarity import similarity
from assay.errors import InvalidRequest
from assay.ports.config import VerifierLoopConfig
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.json_types import is_deeper
from assay.protocol.redaction import redact, redact_parts
from assay.runs.diff import state_diff
from support.evals import AGENT, FunctionAgent, golden, run_suite, suite_of
from support.servers.grpc_client import RestAndGrpcServer, connect
from support.servers.openwop_client import REF, SUITE, log_of, wait_for_run
from support.servers.rest_client import CONTAINS, request_of, sqlite
from support.stores.postgres import server as postgres

HERE = "@here@"  # where the value goes


def lists(deep):
    return "[" * deep + "]" * deep


def objects(deep):
    return '{"a":' * deep + "1" + "}" * deep


VALUES = {
    "lists within the limit": lists(490),
    "objects within the limit": objects(490),
    "lists": lists(510),
    "objects": objects(510),
    "lists beyond Python": lists(100_000),
    "objects beyond Python": objects(100_000),
    "400 digits": "9" * 400,
    "5,000 digits": "9" * 5_000,
    "1e308": "[1e308, 1e308, 1e308]",
    "1e999": "1e999",
    "NaN": "NaN",
    "half a surrogate": '["a\\ud800"]',
    "NUL": '"a\\u0000b"',
    "NUL as a name": '{"a\\u0000b": ["\\u0000"]}',
    "no name": '{"": ""}',
}


def body(document):
    return json.dumps(document).replace(f'"{HERE}"', HERE)


CASE, OUTPUT = {"id": "a", "input": 1}, {"value": "Paris"}


def evaluation(case=None, output=None, check=None, **more):
    return body(
        {
            "test_cases": [CASE | (case or {})],
            "outputs": [OUTPUT | (output or {})],
            "checks": [CONTAINS if check is None else check],
            **more,
        }
    )


def check(type, **arguments):
    return {"type": type, "arguments": arguments}


EVALUATIONS = [
    evaluation({"input": HERE}, {"value": HERE}),
    evaluation({"id": HERE}),
    evaluation({"metadata": {"x": HERE}}, {"metadata": {"x": HERE}}),
    evaluation(None, {"value": HERE}, check("json_match", actual="$.output.value", expected={"a": 1})),
    evaluation({"expected": HERE}, {"value": HERE}, check("exact_match", actual="$.output.value", expected="$.test_case.expected")),
    evaluation(None, {"value": HERE}, check("json_schema", value="$.output.value", schema={"type": "object"})),
    evaluation(check=check("json_schema", value=1, schema={"enum": [HERE]})),
    evaluation(check=check("threshold", value=HERE, min_value=HERE)),
    evaluation(check=check("has_items", actual=HERE, required_items=[HERE])),
    evaluation(check=check("regex", text="x", pattern=HERE)),
    evaluation(check=check("contains", text=HERE, phrases=HERE)),
    evaluation(None, {"value": HERE}, check("exists", value="$..*")),
    evaluation(check=check(HERE)),
    evaluation(experiment_metadata={"name": HERE}),
    evaluation(experiment_metadata={"metadata": {"x": HERE}}),
    HERE,
]  # fmt: skip
ONE = json.loads(evaluation())
BATCHES = [
    body({"evaluations": [ONE], "options": {"timeout_ms": HERE}}),
    body({"evaluations": [ONE], "options": {"max_concurrent": HERE}}),
    body({"evaluations": [HERE, ONE]}),
]
FLOW = {"workflowId": "conformance-identity", "inputs": {"payload": {"a": 1}}}
EVAL = {"mode": "eval", "evalSuiteRef": REF, "agentId": AGENT}
RUNS = [
    body(FLOW | {"inputs": HERE}),
    body(FLOW | {"inputs": {"payload": HERE}}),
    body({"workflowId": "checked", "inputs": {"task": HERE}}),
    body({"workflowId": "conformance-delay", "inputs": {"delayMs": HERE}}),
    body(FLOW | {"metadata": {"x": HERE}}),
    body(FLOW | {"configurable": {"x": HERE}}),
    body(FLOW | {"configurable": {"runTimeoutMs": HERE, "recursionLimit": HERE, "escalationThreshold": HERE}}),
    body(FLOW | {"tags": [HERE]}),
    body(FLOW | {"workflowId": HERE}),
    body(FLOW | {"scopeId": HERE}),
    body(EVAL | {"metadata": {"x": HERE}}),
    body(EVAL | {"configurable": {"x": HERE}}),
    body(EVAL | {"configurable": {"trials": HERE, "evalModes": HERE, "judge": HERE}}),
    body(EVAL | {"agentId": HERE, "evalSuiteRef": HERE}),
    HERE,
]  # fmt: skip
TASK: dict[str, Any] = golden("a", "Paris", "Paris")


def suite(**task):
    return SUITE | {"suiteId": "local.tests.evals.hostile", "tasks": [TASK | task]}


SUITES = [
    body(suite(input={"say": HERE})),
    body(suite(expected={"kind": "golden", "match": {"strategy": "json-match", "value": HERE}}, input={"say": HERE})),
    body(suite(taskId=HERE)),
    body(suite(fixtures={"memorySeed": [{"id": "m", "content": HERE}]})),
    body(suite(fixtures={"toolResponses": [{"tool": "shop:orders", "response": HERE}]})),
    body(suite() | {"thresholds": {"passScore": 0.5, "maxCostUsd": HERE, "maxP95LatencyMs": HERE}}),
    HERE,
]  # fmt: skip
FORKS = [
    body({"mode": "branch", "fromSeq": HERE}),
    body({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"configurable": {"x": HERE}}}),
    body({"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"inputs": {"payload": HERE}}}),
]
NOTES = [
    body({"signal": {"kind": "flag"}, "note": HERE, "target": {"eventId": HERE}}),
    body({"signal": {"kind": "flag"}, "note": HERE}),
    body({"signal": {"kind": "label", "label": HERE}}),
    body({"signal": {"kind": "correction", "correction": HERE}}),
    body({"signal": {"kind": "rating", "rating": HERE}}),
]
ROWS = {
    "/v1/evaluate": EVALUATIONS,
    "/v1/evaluate:batch": BATCHES,
    "/v1/runs": RUNS,
    "/v1/host/assay/suites": SUITES,
    "/v1/runs/{flow}:fork": FORKS,
    "/v1/runs/{eval}:fork": FORKS,
    "/v1/runs/{flow}/annotations": NOTES,
    "/v1/runs/{flow}/cancel": [body({"reason": HERE})],
    "/v1/runs:bulk-cancel": [body({"runIds": [HERE], "reason": HERE})],
    "/v1/runs/{gate}/interrupts/gate": [body({"resumeValue": HERE}), body({"resumeValue": {"action": HERE}})],
}


class ErrorLog(logging.Handler):
    """What the server could not cope with."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.lines = []

    def emit(self, record):
        error = record.exc_info and record.exc_info[0]
        self.lines.append(f"{record.getMessage()} {error.__name__ if error else ''}")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    loops = {
        "checked": VerifierLoopConfig(
            actor=AGENT, critics=["local.tests.critic"], criteria=["good"], max_turns=1
        )
    }
    critic = FunctionAgent(lambda _: {"verdict": "pass"}, agent_id="local.tests.critic")
    folder = tmp_path_factory.mktemp("hostile")
    with RestAndGrpcServer(sqlite(folder), seeded=True, loops=loops, agents=(critic,), checks=[Odd]) as host:
        yield host


@pytest.fixture(scope="module")
def client(host):
    with host.client() as client:
        assert client.post("/v1/host/assay/suites", json=SUITE).status_code == 201
        yield client


@pytest.fixture(scope="module")
def runs(client):
    """A run of each kind, and one that waits."""
    started = {"flow": FLOW, "eval": EVAL, "gate": {"workflowId": "conformance-approval"}}
    return {name: client.post("/v1/runs", json=asked).json()["runId"] for name, asked in started.items()}


@pytest.fixture
def log_lines():
    handler = ErrorLog()
    logging.getLogger().addHandler(handler)
    yield handler.lines
    logging.getLogger().removeHandler(handler)


def put(client, path, text):
    return client.post(path, content=text.encode(), headers={"content-type": "application/json"})


def start_all(client, path, templates, value):
    """The runs that were begun; whatever else was answered is a clear refusal."""
    runs = []
    for at, template in enumerate(templates):
        text = template.replace(HERE, VALUES[value]).replace(
            "evals.hostile", f"evals.hostile{at}x{len(value)}"
        )
        answer = put(client, path, text)
        assert answer.status_code < 500, (path, template, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["message"]
            assert len(answer.content) < 10_000, (path, template)
        elif answer.status_code == 201 and "runId" in answer.json():
            runs.append(answer.json()["runId"])
        elif path.endswith("suites"):
            ref = answer.headers["location"].rpartition("/")[2]
            assert client.get(answer.headers["location"]).status_code == 200
            runs.append(client.post("/v1/runs", json=EVAL | {"evalSuiteRef": ref}).json()["runId"])
    return runs


@pytest.mark.sample(2)
@pytest.mark.parametrize("value", VALUES)
def test_a_hostile_value_at_any_endpoint_is_accepted_or_refused(client, runs, log_lines, value):
    started = [
        run
        for path, templates in ROWS.items()
        for run in start_all(client, path.format(**runs), templates, value)
    ]
    for run in started:
        shown = wait_for_run(client, run)
        assert "bug" not in json.dumps(shown.get("error", "")), shown["error"]
        for path in ("/v1/runs/{}:diff?against={}", "/v1/host/assay/runs/{}/verification"):
            assert client.get(path.format(run, runs["flow"])).status_code < 500
    assert not log_lines


DEEP = [
    ("/v1/runs", FLOW | {"inputs": {"payload": HERE}}, "inputs"),
    ("/v1/runs", FLOW | {"metadata": {"x": HERE}}, "metadata"),
    ("/v1/runs", EVAL | {"configurable": {"x": HERE}}, "configurable"),
    ("/v1/host/assay/suites", suite(input=HERE), "tasks"),
    ("/v1/runs/{flow}:fork", {"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"x": HERE}}, "runOptionsOverlay"),
    ("/v1/runs/{gate}/interrupts/gate", {"resumeValue": HERE}, "resumeValue"),
    ("/v1/evaluate", ONE | {"experiment_metadata": {"metadata": {"x": HERE}}}, "experiment_metadata"),
    ("/v1/evaluate", ONE | {"outputs": [{"value": HERE}]}, "outputs[0].value"),
    ("/v1/evaluate", ONE | {"checks": [check("exists", value=HERE)]}, "checks"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "document", "place"), DEEP)
def test_a_too_deep_value_is_400_with_its_place(client, runs, path, document, place):
    answer = put(client, path.format(**runs), body(document).replace(HERE, lists(510)))
    assert answer.status_code == 400, answer.text
    (problem,) = answer.json()["details"]["problems"]
    assert problem["place"] == place
    assert "nested more than 500 deep" in problem["message"]
    assert "ASSAY_MAX_DEPTH" in problem["message"]


def test_a_number_of_a_batch_that_is_too_large_is_400(client):
    answer = put(client, "/v1/evaluate:batch", BATCHES[0].replace(HERE, "9" * 400))
    assert answer.status_code == 400
    assert "options.timeout_ms: expected a whole number from 1 to" in answer.json()["message"]
    assert len(answer.text) < 1_000
    answer = put(client, "/v1/evaluate:batch", BATCHES[0].replace(HERE, "1e309"))
    (problem,) = answer.json()["details"]["problems"]
    assert problem["place"] == "options.timeout_ms"
    assert problem["message"].startswith("expected a number within ±1.8e308")
    assert problem["message"].endswith("got 1e309")


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def deep_value(deep):
    """A google.protobuf.Value, which protobuf itself would not write so deep."""
    parts, size = [b"\x20\x01"], 2
    for number in (1, 6) * deep:
        parts.append(varint(number << 3 | 2) + varint(size))
        size += len(parts[-1])
    return b"".join(reversed(parts))


def members(value):
    return field(1, field(1, b"x") + field(2, value))


MESSAGES = {
    **{f"{deep} deep": deep_value(deep) for deep in (40, 90, 500, 20_000)},
    **{f"the number {number}": b"\x11" + struct.pack("<d", number) for number in (1e308, math.nan, math.inf)},
    "NUL": field(3, b"a\0b"),
    "no UTF-8": field(3, b"\xed\xa0\x80"),
    "cut off": b"\x32\xff\xff\xff\x0f",
    "a group": b"\x0b\x0c",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_hostile_value_over_grpc_is_never_internal(host, log_lines, name):
    value = MESSAGES[name]
    case, output, none = (
        field(1, b"a") + field(2, field(1, b"q")),
        field(1, field(1, b"Paris")),
        field(3, field(1, b"")),
    )
    usual = field(1, case) + field(2, output)
    asked = {
        "input": field(1, field(1, b"a") + field(2, field(3, value))) + field(2, output) + none,
        "metadata": field(1, case + field(4, members(value))) + field(2, output) + none,
        "output": field(1, case) + field(2, field(1, field(3, value))) + none,
        "arguments": usual + field(3, field(1, field(1, field(1, b"exists") + field(2, members(value))))),
        "experiment": usual + none + field(4, field(1, b"n") + field(2, members(value))),
        "id": field(1, field(1, value) + field(2, field(1, b"q"))) + field(2, output) + none,
        "itself": value,
    }
    with connect(host) as client:
        codes = {place: code_of(client, message) for place, message in asked.items()}
    assert set(codes.values()) <= FINE, codes
    assert not log_lines


FINE = {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE}


def code_of(client, message):
    try:
        client.RunEvaluation(message)
    except grpc.RpcError as refused:
        return refused.code()
    return grpc.StatusCode.OK


@pytest.fixture(scope="module")
def kept_in_postgres():
    with (
        postgres().store_database() as address,
        RestAndGrpcServer(address, seeded=True) as host,
        host.client() as client,
    ):
        assert client.post("/v1/host/assay/suites", json=SUITE).status_code == 201
        yield client


@pytest.mark.parametrize("value", ["NUL as a name", "half a surrogate"])
def test_postgresql_accepts_and_refuses_the_same_values(kept_in_postgres, log_lines, value):
    client = kept_in_postgres
    rows = {"/v1/evaluate": EVALUATIONS, "/v1/runs": [one for one in RUNS if "checked" not in one]}
    run = client.post("/v1/runs", json=FLOW).json()["runId"]
    log_of(client, run)
    rows |= {
        "/v1/host/assay/suites": SUITES,
        f"/v1/runs/{run}/annotations": NOTES,
        f"/v1/runs/{run}:fork": FORKS,
    }
    runs = [id for path, templates in rows.items() for id in start_all(client, path, templates, value)]
    assert {wait_for_run(client, id)["status"] for id in runs} <= {"completed", "failed"}
    for query in ("experiment=a%00b", "page_token=%00", "since=%00"):
        assert client.get(f"/v1/evaluations?{query}").status_code < 500
    assert client.get("/v1/runs/a%00b").status_code in (400, 404)
    assert not log_lines


# What agents, tools and checks answer


def nested(deep, kind=list):
    value = 1
    for _ in range(deep):
        value = [value] if kind is list else {"a": value}
    return value


ANSWERS = {
    "within": nested(490),
    "lists": nested(510),
    "objects": nested(510, dict),
    "beyond Python": nested(100_000),
    "400 digits": 10**400,
    "5,000 digits": [10**5_000],
    "infinity": float("inf"),
    "NaN": {"a": [float("nan")]},
    "half a surrogate": ["\ud800"],
    "half a surrogate as a name": {"\ud800": 1},
    "NUL": {"\0": "\0"},
    "bytes": b"\xff",
}
ACTS = {
    "result": lambda ctx, value: value,
    "finish": lambda ctx, value: InvocationResult(outcome="completed", result={"x": value}),
    "error": lambda ctx, value: (_ for _ in ()).throw(ValueError(value)),
    "arguments": lambda ctx, value: ctx.tool("shop:orders", x=value),
    "memory": lambda ctx, value: ctx.memory.write(str(type(value)), tags=[value]),
    "reason": lambda ctx, value: ctx.reason(value),
    "confidence": lambda ctx, value: InvocationResult(outcome="completed", result="x", confidence=value),
    "tokens": lambda ctx, value: ctx.usage(provider="p", model="m", input_tokens=value, output_tokens=1),
    "cost": lambda ctx, value: ctx.usage(
        provider="p", model="m", input_tokens=1, output_tokens=1, cost_usd=value
    ),
}


def answering(act, value):
    def answer(task, ctx):
        return "good" if task == "good" else ACTS[act](ctx, value)

    return CallableAgent(AgentCard(agent_id=AGENT, free=True), answer)


def tasks(*ids):
    tools = {"toolResponses": [{"tool": "shop:orders", "response": "ok"}]}
    return suite_of(*(golden(id, "good", id.rstrip("0123456789"), fixtures=tools) for id in ids))


@pytest.mark.parametrize("act", ACTS)
def test_a_hostile_agent_result_does_not_end_the_run(act):
    for value in ANSWERS.values():
        run, _, summary, _ = run_suite(answering(act, value), tasks("bad", "good"))
        assert run.status == "completed", run.metadata
        assert [task.passed for task in summary.tasks] == [False, True]


def test_a_too_deep_result_fails_its_task():
    _, _, _, (bad, _) = run_suite(answering("result", nested(510)), tasks("bad", "good"))
    assert "nested more than 500 deep" in bad["execution_context"]["output"]["metadata"]["error"]


@pytest.mark.parametrize(
    "used", [{"cost_usd": 1e308}, {"input_tokens": 10**30}, {"output_tokens": 2**53}, {"cost_usd": 10**400}]
)
def test_an_invalid_usage_fails_its_task(used):
    def answer(task, ctx):
        if task == "bad":
            ctx.usage(**{"provider": "p", "model": "m", "input_tokens": 1, "output_tokens": 1} | used)
        return "good"

    agent = CallableAgent(AgentCard(agent_id=AGENT, free=True), answer)
    run, _, summary, _ = run_suite(agent, tasks("bad1", "good", "bad2"), request={"trials": 2})
    assert run.status == "completed", run.metadata
    assert [task.passed for task in summary.tasks] == [False, True, False]


class Odd(Checker):
    """A check that says what it cost."""

    type = "odd"
    waits = False
    text: Text

    def run(self, services):
        costs = {"large": 1e308, "digits": 10**400, "usual": 0.5}
        return {"passed": True, "metadata": {"cost_usd": costs[self.text], "tokens_used": 10**30}}


@pytest.mark.parametrize("text", ["large", "digits", "usual"])
def test_an_invalid_cost_is_unknown(client, text):
    asked = request_of(3, [check("odd", text=text), check("odd", text="usual")])
    answer = client.post("/v1/evaluate", json=asked)
    assert answer.status_code == 200, answer.text
    assert "Infinity" not in answer.text


# Files and the command


def test_a_hostile_file_is_accepted_or_refused_by_the_command(command, tmp_path):
    (tmp_path / "checks.json").write_text(json.dumps([check("exists", value="$.output.value")]))
    (tmp_path / "mine.py").write_text("def agent(task):\n    return task\n")
    for value in ("objects", "objects beyond Python", "400 digits", "NUL as a name"):
        hostile = VALUES[value]
        (tmp_path / "contexts.jsonl").write_text(
            f'{{"test_case": {{"id": "a", "input": {hostile}}}, "output": {{"value": {hostile}}}}}\n'
        )
        (tmp_path / "suite.json").write_text(SUITES[0].replace(HERE, hostile))
        (tmp_path / "any.json").write_text(hostile)
        for row in (
            ("evaluate", "--contexts", "contexts.jsonl", "--checks", "checks.json", "-o", "results.csv"),
            ("evaluate", "--contexts", "contexts.jsonl", "--checks", "any.json"),
            ("run", "suite.json", "--agent", "mine:agent"),
            ("suite", "show", "suite.json"),
            ("admin", "audit", "verify", "--heads", "any.json"),
            ("verify", "--actor", "mine:agent", "--task", "x", "--checks", "any.json"),
        ):
            done = command(*row, folder=tmp_path)
            assert "a bug in assay" not in done.err, (row, done.err)


# The pieces


@pytest.mark.parametrize("kind", [list, dict])
def test_secrets_are_found_however_deep(kind):
    deep = nested(50_000, kind)
    assert is_deeper(redact(deep), 49_999)
    assert redact({"a": [{"api_key": "x", "b": ("sk-0123456789abcdefgh", 1)}]}) == {
        "a": [{"api_key": "[REDACTED:api_key]", "b": ["[REDACTED:openai-key]", 1]}]
    }


WORDS = st.sampled_from(
    ["", "a", "é", "sk-0123456789abcdefgh", "Bearer abcdefghijklmnop", "api_key", "password", "\0"]
)
JSON = st.recursive(
    WORDS | st.text(max_size=3) | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none(),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(WORDS, some, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_value_without_secrets_is_returned_unchanged(value):
    assert redact(value) == redact_parts(value)


@pytest.mark.parametrize(
    ("document", "most", "deeper"),
    [
        (1, 0, False),
        ([], 0, True),
        ([], 1, False),
        ([[1]], 1, True),
        ({"a": [1]}, 2, False),
        (None, 5, False),
    ],
)
def test_the_depth_of_a_value(document, most, deeper):
    assert is_deeper(document, most) is deeper


def test_a_suite_within_the_limit_is_read_however_deep_its_values_are():
    read_suite(suite(input=nested(490)))
    with pytest.raises(InvalidRequest, match=r"tasks\[0\]\.taskId: expected a string"):
        read_suite(suite(taskId=nested(400)))


def test_states_are_compared_member_by_member():
    one, two = {"a": {"b": {"c": 1}, "d": 2}, "e": 1}, {"a": {"b": {"c": 2}, "d": 2}, "e": 1.0}
    assert state_diff(one, two) == {"a": {"a": {"b": {"c": 1}}, "b": {"b": {"c": 2}}}}
    assert state_diff({"a": {}}, {"a": {}}) == {}
    assert state_diff({"a": {}}, {}) == {"a": {"a": {}}}


def test_vectors_of_any_length_are_compared():
    usual = similarity((1.0, 1.0), (1.0, 0.5), "cosine")
    for scale in (1e308, 1e-200):
        assert similarity((scale, scale), (scale, scale / 2), "cosine") == pytest.approx(usual)
