"""Clients for a server of our own over gRPC, and their messages as JSON."""

import contextlib
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc.status_pb2 import Status

from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.server import METHODS
from assay.serve.grpc.server import RpcServer as GrpcServer
from support.servers.rest_client import Server
from support.waiting import PATIENCE

GIVES = {
    "RunEvaluation": fep.EvaluationRunResult,
    "GetEvaluation": fep.EvaluationRunResult,
    "HealthCheck": fep.HealthCheckResponse,
    "StreamEvaluation": fep.EvaluationProgress,
    "RunBatch": fep.BatchEvaluationResponse,
    "StartEvaluation": fep.EvaluationOperation,
    "GetOperation": fep.EvaluationOperation,
    "ListOperations": fep.ListOperationsResponse,
    "CancelOperation": fep.CancelOperationResponse,
}


class RestAndGrpcServer(Server):
    """REST and gRPC in one process."""

    def beside(self, host):
        server = GrpcServer(host, address="127.0.0.1", port=0, tls=self.tls)
        self.grpc_port = server.port
        return server.serve()


BY_NAME = {method.name: method for method in METHODS}


class Client:
    """`client.RunEvaluation(message, timeout=…, metadata=…)`; `.last` is what came with the last answer."""

    def __init__(self, channel, key):
        self._channel = channel
        self._key = (("authorization", f"Bearer {key}"),) if key else ()
        self.last = {}

    def __getattr__(self, name):
        if name not in BY_NAME:
            raise AttributeError(name)
        return lambda message=None, **more: self.call(name, message, **more)

    def call(self, name, message=None, *, metadata=(), timeout=PATIENCE, wait=True):
        method = BY_NAME[name]
        kind = self._channel.unary_stream if method.stream else self._channel.unary_unary
        rpc = kind(
            method.path,
            request_serializer=lambda sent: sent if isinstance(sent, bytes) else sent.SerializeToString(),
            response_deserializer=GIVES[name].FromString,
        )
        sent = method.request() if message is None else message
        headers = (*self._key, *metadata)
        if method.stream:
            return rpc(sent, metadata=headers, timeout=timeout)
        if not wait:
            return rpc.future(sent, metadata=headers, timeout=timeout)
        answer, call = rpc.with_call(sent, metadata=headers, timeout=timeout)
        self.last = dict(call.trailing_metadata())
        return answer


@contextlib.contextmanager
def connect(host, key=None, options=(), **key_of):
    """A client with a key of its own; `key=""` has none."""
    with grpc.insecure_channel(f"127.0.0.1:{host.grpc_port}", options=options) as channel:
        yield Client(channel, host.key(**key_of) if key is None else key)


def refusal_of(call, *arguments, **more) -> tuple[grpc.StatusCode, dict[str, Any]]:
    """The status, and the error body in its details."""
    try:
        answer = call(*arguments, **more)
        list(answer) if hasattr(answer, "__iter__") else answer
    except grpc.RpcError as error:
        given: Any = error.trailing_metadata() or ()
        trailers: dict[str, Any] = dict(given)
        (detail,) = Status.FromString(trailers["grpc-status-details-bin"]).details
        body = fep.FepError()
        assert detail.Unpack(body)
        refusal: dict[str, Any] = {"error": body.code, "message": body.message}
        if body.HasField("details"):
            refusal["details"] = plain(MessageToDict(body.details))
        return error.code(), refusal
    raise AssertionError(f"not refused: {answer}")


def message_of(request):
    """A request as JSON has it, as its message."""
    made = fep.EvaluationRequest()
    for case in request["test_cases"]:
        one = made.test_cases.add(id=case["id"])
        put(one.input, case["input"])
        if "expected" in case:
            put(one.expected, case["expected"])
        if "metadata" in case:
            ParseDict(case["metadata"], one.metadata)
            one.metadata.SetInParent()
    for output in request["outputs"]:
        one = made.outputs.add()
        if "value" in output:
            put(one.value, output["value"])
        if "id" in output:
            one.id = output["id"]
        if "metadata" in output:
            ParseDict(output["metadata"], one.metadata)
            one.metadata.SetInParent()
    put_checks(made, request.get("checks"))
    if "experiment_metadata" in request:
        made.experiment_metadata.SetInParent()
        ParseDict(request["experiment_metadata"], made.experiment_metadata)
    return made


def put_checks(made, checks):
    if checks is None:
        return
    if any(isinstance(one, list) for one in checks):
        for one in checks:
            made.checks.per_test_case_checks.check_lists.add(checks=[check_of(check) for check in one])
    else:
        made.checks.shared_checks.SetInParent()
        made.checks.shared_checks.checks.extend(check_of(check) for check in checks)


def check_of(check):
    made = fep.Check(type=check["type"])
    if "name" in check:
        made.name = check["name"]
    made.arguments.SetInParent()
    ParseDict(check["arguments"], made.arguments)
    if "version" in check:
        made.version = check["version"]
    return made


def put(field, value):
    field.SetInParent()
    if isinstance(value, str):
        field.string_value = value
    elif isinstance(value, dict):
        field.object_value.SetInParent()
        ParseDict(value, field.object_value)
    else:
        ParseDict(value, field.json_value)


def result_of(message) -> dict[str, Any]:
    """An EvaluationRunResult as JSON has it: FEP-2's mapping, back."""
    shown = {
        "evaluation_id": message.evaluation_id,
        "started_at": moment(message.started_at),
        "completed_at": moment(message.completed_at),
        "status": STATUS[message.status],
        "summary": {field.name: getattr(message.summary, field.name) for field in fep.EvaluationSummary.DESCRIPTOR.fields},
        "results": [case_of(case) for case in message.results],
    }  # fmt: skip
    if message.HasField("experiment"):
        shown["experiment"] = some(message.experiment, "name", "metadata")
    return shown | some(message, "metadata")


STATUS = {1: "completed", 2: "error", 3: "skip"}
ERRORS = {1: "jsonpath_error", 2: "validation_error", 3: "timeout_error", 4: "unknown_error"}


def case_of(case):
    context, summary = case.execution_context, case.summary
    test_case = {"id": context.test_case.id, "input": value_of(context.test_case.input)}
    if context.test_case.HasField("expected"):
        test_case["expected"] = value_of(context.test_case.expected)
    output = {"value": value_of(context.output.value)} | some(context.output, "id", "metadata")
    test_case |= some(context.test_case, "metadata")
    return {
        "status": STATUS[case.status],
        "execution_context": {"test_case": test_case, "output": output},
        "check_results": [checked_of(one, test_case, output) for one in case.check_results],
        "summary": {field.name: getattr(summary, field.name) for field in summary.DESCRIPTOR.fields},
    } | some(case, "metadata")


def checked_of(check, case, output):
    metadata = check.metadata
    assert metadata.test_case_id == case["id"]
    assert some(metadata, "test_case_metadata") == (
        {"test_case_metadata": case["metadata"]} if "metadata" in case else {}
    )
    assert some(metadata, "output_metadata") == (
        {"output_metadata": output["metadata"]} if "metadata" in output else {}
    )
    shown = {
        "check_type": check.check_type,
        "status": STATUS[check.status],
        "results": plain(MessageToDict(check.results)),
        "evaluated_at": moment(check.evaluated_at),
        "metadata": {"check_version": metadata.check_version},
    } | some(check, "resolved_arguments")
    if metadata.HasField("additional_metadata"):
        shown["metadata"] |= plain(MessageToDict(metadata.additional_metadata))
    if check.HasField("error"):
        assert check.error.HasField("recoverable")
        error = check.error
        shown["error"] = {
            "type": ERRORS[error.type],
            "message": error.message,
            "recoverable": error.recoverable,
        }
    return shown


def some(message, *names):
    """The members that are there."""
    return {
        name: value if isinstance(value := getattr(message, name), str) else plain(MessageToDict(value))
        for name in names
        if message.HasField(name)
    }


def value_of(field):
    kind = field.WhichOneof("value")
    return field.string_value if kind == "string_value" else plain(MessageToDict(getattr(field, kind)))


def plain(value: Any) -> Any:
    """A double without a fraction is an int."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value


def moment(stamp):
    return f"{stamp.ToDatetime().isoformat(timespec='microseconds')}Z"
