"""gRPC compared with REST: CPU time of the server for the same cases."""

import http.client
from collections.abc import Callable
from typing import Any

import grpc
import msgspec
from google.protobuf.json_format import ParseDict

from assay.serve.grpc import fep_pb2 as fep
from bench import workload
from bench.files import Bench
from bench.measure import Row
from bench.service import ServerProcess, start_server

MANY = 1_000
REPEATS = 20  # requests a round: the kernel counts a process's time in hundredths of a second
BAR = 3.25
RUN = "/fep.v1.EvaluationService/RunEvaluation"


def bodies(many: int) -> tuple[bytes, bytes]:
    """The first workload as JSON, and as an EvaluationRequest."""
    contexts: list[Any] = [msgspec.json.decode(line) for line in workload.lines(many)]
    request = {
        "test_cases": [one["test_case"] for one in contexts],
        "outputs": [one["output"] for one in contexts],
        "checks": workload.CHECKS,
    }
    message = fep.EvaluationRequest()
    for one in contexts:
        case, output = one["test_case"], one["output"]
        made = message.test_cases.add(id=case["id"])
        made.input.string_value, made.expected.string_value = case["input"], case["expected"]
        ParseDict(case["metadata"], made.metadata)
        given = message.outputs.add(id=output["id"])
        ParseDict(output["value"], given.value.object_value)
        ParseDict(output["metadata"], given.metadata)
    for check in workload.CHECKS:
        asked = message.checks.shared_checks.checks.add(type=check["type"])
        ParseDict(check["arguments"], asked.arguments)
    return msgspec.json.encode(request), message.SerializeToString()


def cpu_seconds(host: ServerProcess, ask: Callable[[], object]) -> float:
    before = host.cpu
    for _ in range(REPEATS):
        ask()
    return (host.cpu - before) / REPEATS


def calls(bench: Bench) -> list[Row]:
    rest_body, grpc_body = bodies(MANY)
    values = list[float]()
    rest = ours = 0.0
    with start_server(bench.folder / "calls") as host, grpc.insecure_channel(host.grpc) as channel:
        connection = http.client.HTTPConnection(host.url.removeprefix("http://"))
        headers = {"Content-Type": "application/json", **host.headers}
        call: Any = channel
        run = call.unary_unary(RUN)
        metadata = (("x-api-key", host.headers["X-API-Key"]),)

        def over_rest() -> None:
            connection.request("POST", "/v1/evaluate", rest_body, headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()

        def rest_seconds() -> float:
            try:
                return cpu_seconds(host, over_rest)
            finally:
                connection.close()  # the server closes it when it is idle; the next request opens another

        def over_grpc() -> None:
            run(grpc_body, metadata=metadata)

        def grpc_seconds() -> float:
            return cpu_seconds(host, over_grpc)

        turns = rest_seconds, grpc_seconds
        for turn in turns:
            turn()
        for at in range(bench.rounds()):
            spent = {turn: turn() for turn in (turns if at % 2 == 0 else turns[::-1])}
            rest, ours = (spent[turn] for turn in turns)
            values.append(ours / rest)
    name = f"RunEvaluation over gRPC, {MANY:,} cases × 4 checks, stored: server CPU to REST's"
    note = f"the last round: {ours * 1000:.0f} ms to {rest * 1000:.0f} ms"
    return [Row(name, "at most", BAR, values=values, note=note)]
