"""
gRPC compared with REST: CPU time of the server for the same cases.

One client writes the members of each map in the order of protobuf's Python library. Another shuffles them, in every message anew:
protobuf defines no order, and writers in other languages have none.
"""

import http.client
from collections.abc import Callable
from random import Random
from typing import Any

import grpc
import msgspec
from google.protobuf.json_format import ParseDict

from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.codec.encode import length_delimited, map_entry
from bench import workload
from bench.files import Bench
from bench.measure import Row
from bench.service import ServerProcess, start_server

MANY = 1_000
REPEATS = 20  # requests a round: the kernel counts a process's time in hundredths of a second
BAR, SHUFFLED_BAR = 1.5, 2.0
RUN = "/fep.v1.EvaluationService/RunEvaluation"


def bodies(many: int) -> tuple[bytes, bytes, bytes]:
    """The first workload as JSON, as an EvaluationRequest, and as one whose maps are shuffled."""
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
    shuffled = _shuffled_message(message, Random(workload.SEED))
    assert fep.EvaluationRequest.FromString(shuffled) == message
    return msgspec.json.encode(request), message.SerializeToString(), shuffled


def _shuffled_message(message: Any, dice: Random) -> bytes:
    """The message with the members of each map in random order."""
    parts = list[bytes]()
    for field, content in message.ListFields():
        if field.message_type is None:
            parts.append(type(message)(**{field.name: content}).SerializeToString())
        elif field.message_type.GetOptions().map_entry:  # the one map of a Struct
            members = [
                map_entry(key.encode(), _shuffled_message(value, dice)) for key, value in content.items()
            ]
            parts += dice.sample(members, len(members))
        else:
            tag = bytes((field.number << 3 | 2,))
            messages = content if field.is_repeated else [content]
            parts += [length_delimited(tag, _shuffled_message(one, dice)) for one in messages]
    return b"".join(parts)


def cpu_seconds(host: ServerProcess, ask: Callable[[], object]) -> float:
    before = host.cpu
    for _ in range(REPEATS):
        ask()
    return (host.cpu - before) / REPEATS


def calls(bench: Bench) -> list[Row]:
    rest_body, grpc_body, shuffled_body = bodies(MANY)
    values, shuffled_values = list[float](), list[float]()
    rest = ours = shuffled = 0.0
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

        def over_grpc_shuffled() -> None:
            run(shuffled_body, metadata=metadata)

        def grpc_seconds() -> float:
            return cpu_seconds(host, over_grpc)

        def shuffled_seconds() -> float:
            return cpu_seconds(host, over_grpc_shuffled)

        turns = rest_seconds, grpc_seconds, shuffled_seconds
        for turn in turns:
            turn()
        for at in range(bench.rounds()):
            spent = {turn: turn() for turn in (turns if at % 2 == 0 else turns[::-1])}
            rest, ours, shuffled = (spent[turn] for turn in turns)
            values.append(ours / rest)
            shuffled_values.append(shuffled / rest)
    name = f"RunEvaluation over gRPC, {MANY:,} cases × 4 checks, stored: server CPU to REST's"
    note = f"the last round: {ours * 1000:.0f} ms to {rest * 1000:.0f} ms"
    shuffled_note = f"the last round: {shuffled * 1000:.0f} ms to {rest * 1000:.0f} ms"
    return [
        Row(name, "at most", BAR, values=values, note=note),
        Row(
            f"{name}, for a client that shuffles the members of maps",
            "at most",
            SHUFFLED_BAR,
            values=shuffled_values,
            note=shuffled_note,
        ),
    ]
