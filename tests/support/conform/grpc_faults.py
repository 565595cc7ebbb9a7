"""What can be wrong with a host of gRPC, and the checks that find it."""

from itertools import count
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode

from assay.conform.grpc.checks import grpc_checks
from assay.serve.grpc import fep_pb2 as fep
from support.conform.grpc_proxy import Call, GrpcMutation

VECTORS = tuple(one.name for one in grpc_checks() if one.rule.startswith("A request has the same result"))
RIGHT = fep.EvaluationRunResult(evaluation_id="e", status=1)  # type: ignore[arg-type]


def on(method, change, code=StatusCode.OK):
    """Change the answers of a method that have this status."""

    def apply(call: Call) -> None:
        if call.method == method and call.code is code:
            change(call)

    return apply


def results(change, methods=("RunEvaluation", "GetEvaluation")):
    def apply(call: Call) -> None:
        for message in call.messages:
            if call.method in methods:
                change(message)

    return apply


def checks(change):
    return results(lambda result: [change(one) for case in result.results for one in case.check_results])


def to(code, details="x"):
    def change(call: Call) -> None:
        call.code, call.details = code, details
        call.messages = []

    return change


def accept(call: Call) -> None:
    call.code, call.messages = StatusCode.OK, [RIGHT]


def turn_round(check):
    if "passed" in check.results:
        check.results["passed"] = not check.results["passed"]


def another_case(check):
    check.metadata.test_case_id = "another"


def no_end(result):
    result.completed_at.CopyFrom(Timestamp())


def other_id(result):
    result.evaluation_id = str(UUID(int=1))


def owner(call: Call) -> str:
    """The first key that came."""
    return call.memory.setdefault("key", call.key) if call.key else call.memory.get("key", "")


def without_key(call: Call) -> None:
    first = owner(call)
    if call.code is StatusCode.UNAUTHENTICATED:
        call.forward(key=first)


def anybody_reads(call: Call) -> None:
    first = owner(call)
    if call.method == "GetEvaluation" and call.key and call.code is StatusCode.NOT_FOUND:
        call.forward(key=first)


def tell_existence(call: Call) -> None:
    first = owner(call)
    if call.method == "GetEvaluation" and call.key not in ("", first) and call.code is StatusCode.NOT_FOUND:
        call.forward(key=first)
        to(StatusCode.PERMISSION_DENIED if call.messages else StatusCode.NOT_FOUND)(call)


def show_key(call: Call) -> None:
    if call.code is StatusCode.INVALID_ARGUMENT:
        call.details = f"refused for {call.key}"


def first_for_all(call: Call) -> None:
    """A cache that forgets what it was asked."""
    if call.method == "RunEvaluation" and b"conform" in call.sent and call.messages:
        call.messages = call.memory.setdefault("first", call.messages)


def lose_emoji(call: Call) -> None:
    call.messages = [
        type(one).FromString(one.SerializeToString().replace("😀".encode(), b"????")) for one in call.messages
    ]


def swap(result):
    ordered = list(result.results)[::-1]
    del result.results[:]
    result.results.extend(ordered)


def in_stream(change):
    return on("StreamEvaluation", lambda call: change(call.messages))


def running_at_the_end(messages):
    messages[-1].status = "running"


def fall_back(messages):
    messages.insert(-1, fep.EvaluationProgress(evaluation_id=messages[0].evaluation_id, status="running", completed_test_cases=10**6, total_test_cases=messages[0].total_test_cases))  # fmt: skip


def ids_of_their_own(messages):
    number = count()
    for one in messages:
        one.evaluation_id = f"{next(number)}"
    messages.insert(0, fep.EvaluationProgress(evaluation_id="x", status="running"))


def no_result(messages):
    messages[-1].ClearField("final_result")


def another_result(messages):
    messages[-1].final_result.evaluation_id = "another"


def wrong_total(messages):
    messages[-1].total_test_cases = 3


def repeated_page(call: Call) -> None:
    size = fep.ListOperationsRequest.FromString(call.sent).page_size
    call.messages = call.memory.setdefault(f"pages of {size}", call.messages)


def whole_list(call: Call) -> None:
    for page in call.messages:
        page.operations.add(operation_id="x")


def forget(call: Call) -> None:
    for page in call.messages:
        del page.operations[:]


def end_as(status):
    return lambda call: [setattr(one, "status", status) for one in call.messages]


GRPC_FAULTS = [
    GrpcMutation("an answer is turned round", (*VECTORS, "fep.grpc.many-cases"), checks(turn_round)),
    GrpcMutation("a refused request has a result", ("fep.grpc.refuses", "fep.grpc.requests", "fep.grpc.regex"), on("RunEvaluation", accept, StatusCode.INVALID_ARGUMENT)),
    GrpcMutation("a refused stream ends well", ("fep.grpc.refuses",), on("StreamEvaluation", accept, StatusCode.INVALID_ARGUMENT)),
    GrpcMutation("a refusal is INTERNAL", ("fep.grpc.refuses", "fep.grpc.requests"), on("RunEvaluation", to(StatusCode.INTERNAL), StatusCode.INVALID_ARGUMENT)),
    GrpcMutation("a refusal has no details", ("fep.grpc.refuses",), on("RunEvaluation", to(StatusCode.INVALID_ARGUMENT, ""), StatusCode.INVALID_ARGUMENT)),
    GrpcMutation("a check names another case", ("fep.grpc.laws",), checks(another_case)),
    GrpcMutation("a result has no end", ("fep.grpc.laws",), results(no_end)),
    GrpcMutation("a status is unspecified", ("fep.grpc.laws", "fep.grpc.many-cases"), checks(lambda check: check.ClearField("status"))),
    GrpcMutation("a read has another summary", ("fep.grpc.reads-back",), results(lambda result: result.ClearField("summary"), ("GetEvaluation",))),
    GrpcMutation("a read comes twice", ("fep.grpc.reads-back",), on("GetEvaluation", lambda call: call.messages.extend(call.messages[:]))),
    GrpcMutation("an unknown id is found", ("fep.grpc.unknown-is-not-found",), on("GetEvaluation", accept, StatusCode.NOT_FOUND)),
    GrpcMutation("an unknown id breaks the server", ("fep.grpc.unknown-is-not-found",), on("GetEvaluation", to(StatusCode.INTERNAL), StatusCode.NOT_FOUND)),
    GrpcMutation("another tenant reads", ("fep.grpc.foreign-is-unknown",), anybody_reads),
    GrpcMutation("another tenant learns that an id exists", ("fep.grpc.foreign-is-unknown",), tell_existence),
    GrpcMutation("no key is needed", ("fep.grpc.needs-a-key",), without_key),
    GrpcMutation("bytes that are no message are accepted", ("fep.grpc.bad-message",), on("RunEvaluation", accept, StatusCode.INVALID_ARGUMENT)),
    GrpcMutation("any method is there", ("fep.grpc.unknown-method",), on("NoSuchMethod", lambda call: setattr(call, "code", StatusCode.OK), StatusCode.UNIMPLEMENTED)),
    GrpcMutation("health needs a key", ("fep.grpc.health",), on("HealthCheck", to(StatusCode.UNAUTHENTICATED))),
    GrpcMutation("health has no status", ("fep.grpc.health",), on("HealthCheck", lambda call: call.messages[0].ClearField("status"))),
    GrpcMutation("every evaluation has one id", ("fep.grpc.own-ids",), results(other_id)),
    GrpcMutation("cases are in another order", ("fep.grpc.many-cases",), results(swap)),
    GrpcMutation("a cache mixes results", ("fep.grpc.at-once",), first_for_all),
    GrpcMutation("emoji are lost", ("fep.grpc.any-text",), lose_emoji),
    GrpcMutation("a stream does not end", ("fep.grpc.stream",), in_stream(running_at_the_end)),
    GrpcMutation("progress falls back", ("fep.grpc.stream",), in_stream(fall_back)),
    GrpcMutation("messages of a stream have ids of their own", ("fep.grpc.stream",), in_stream(ids_of_their_own)),
    GrpcMutation("a stream has no result", ("fep.grpc.stream",), in_stream(no_result)),
    GrpcMutation("a stream has the result of another", ("fep.grpc.stream",), in_stream(another_result)),
    GrpcMutation("a stream counts other cases", ("fep.grpc.stream",), in_stream(wrong_total)),
    GrpcMutation("a stream is empty", ("fep.grpc.stream",), in_stream(lambda messages: messages.clear())),
    GrpcMutation("an operation fails", ("fep.grpc.operation-ends",), on("GetOperation", end_as("failed"))),
    GrpcMutation("an operation has a strange status", ("fep.grpc.operation-ends", "fep.grpc.operation-listed"), on("GetOperation", end_as("done"))),
    GrpcMutation("an operation has no result", ("fep.grpc.operation-ends",), on("GetOperation", lambda call: call.messages[0].ClearField("result"))),
    GrpcMutation("the list is empty", ("fep.grpc.operation-listed",), on("ListOperations", forget)),
    GrpcMutation("a page is larger", ("fep.grpc.operation-listed",), on("ListOperations", whole_list)),
    GrpcMutation("the first page comes again", ("fep.grpc.operation-listed",), on("ListOperations", repeated_page)),
    GrpcMutation("an unknown operation is there", ("fep.grpc.operation-unknown",), on("GetOperation", lambda call: setattr(call, "code", StatusCode.OK), StatusCode.NOT_FOUND)),
    GrpcMutation("an unknown operation is cancelled", ("fep.grpc.operation-unknown",), on("CancelOperation", lambda call: setattr(call, "code", StatusCode.OK), StatusCode.NOT_FOUND)),
    GrpcMutation("a refusal shows the key", ("fep.grpc.hides-the-key",), show_key),
]  # fmt: skip
