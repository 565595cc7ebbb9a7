"""Requests and results of FEP as messages of gRPC, and back (FEP 5.2). FEP-2 says how JSON values are carried."""

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from assay.conform.json_values import Document, is_list, is_object
from assay.serve.grpc import fep_pb2 as fep

STATUS = {1: "completed", 2: "error", 3: "skip"}
ERRORS = {1: "jsonpath_error", 2: "validation_error", 3: "timeout_error", 4: "unknown_error"}
EXACT = 2**53


class Rpc(NamedTuple):
    """One method: its path, its request from a document, and its answer as a document."""

    path: str
    encode: Callable[[Document], Message]
    answer: type[Message]
    decode: Callable[[Any], Document]


def message_of(request: Document) -> fep.EvaluationRequest:
    """The message of a request."""
    made = fep.EvaluationRequest()
    for case in request["test_cases"]:
        one = made.test_cases.add(id=case["id"])
        _put(one.input, case["input"])
        if "expected" in case:
            _put(one.expected, case["expected"])
        if "metadata" in case:
            _put_object(one.metadata, case["metadata"])
    for output in request["outputs"]:
        other = made.outputs.add()
        if "value" in output:
            _put(other.value, output["value"])
        if "id" in output:
            other.id = output["id"]
        if "metadata" in output:
            _put_object(other.metadata, output["metadata"])
    _put_checks(made, request.get("checks"))
    if "experiment_metadata" in request:
        _put_object(made.experiment_metadata, request["experiment_metadata"])
    return made


def _put_checks(made: fep.EvaluationRequest, checks: list[Any] | None) -> None:
    if checks is None:
        return
    if any(is_list(one) for one in checks):
        for one in checks:
            made.checks.per_test_case_checks.check_lists.add(checks=[check_message(check) for check in one])
    else:
        made.checks.shared_checks.SetInParent()
        made.checks.shared_checks.checks.extend(check_message(check) for check in checks)


def check_message(check: Document) -> fep.Check:
    """The message of a check."""
    made = fep.Check(type=check["type"])
    _put_object(made.arguments, check["arguments"])
    for name in ("name", "version"):
        if name in check:
            setattr(made, name, check[name])
    return made


def _put(field: Any, value: Any) -> None:
    field.SetInParent()
    if isinstance(value, str):
        field.string_value = value
    elif is_object(value):
        _put_object(field.object_value, value)
    else:
        ParseDict(value, field.json_value)


def _put_object(field: Any, value: Document) -> None:
    field.SetInParent()
    ParseDict(value, field)


def result_of(message: fep.EvaluationRunResult) -> Document:
    """
    A result.

    ValueError: a check names another case than the one it belongs to.
    """
    shown: Document = {
        "evaluation_id": message.evaluation_id,
        "started_at": _moment(message.started_at),
        "completed_at": _moment(message.completed_at),
        "status": STATUS.get(message.status, "unspecified"),
        "summary": _counts(message.summary),
        "results": [case_of(case) for case in message.results],
    }
    if message.HasField("experiment"):
        shown["experiment"] = _some(message.experiment, "name", "metadata")
    return shown | _some(message, "metadata")


def case_of(case: fep.TestCaseResult) -> Document:
    """The result of a case."""
    context = case.execution_context
    test_case = {"id": context.test_case.id, "input": _value_of(context.test_case.input)}
    if context.test_case.HasField("expected"):
        test_case["expected"] = _value_of(context.test_case.expected)
    test_case |= _some(context.test_case, "metadata")
    output = {"value": _value_of(context.output.value)} | _some(context.output, "id", "metadata")
    return {
        "status": STATUS.get(case.status, "unspecified"),
        "execution_context": {"test_case": test_case, "output": output},
        "check_results": [_check_of(one, test_case, output) for one in case.check_results],
        "summary": _counts(case.summary),
    } | _some(case, "metadata")


def _check_of(check: fep.CheckResult, case: Document, output: Document) -> Document:
    metadata = check.metadata
    belongs = {"test_case_id": case["id"]}
    belongs |= {"test_case_metadata": case["metadata"]} if "metadata" in case else {}
    belongs |= {"output_metadata": output["metadata"]} if "metadata" in output else {}
    came = {"test_case_id": metadata.test_case_id} | _some(metadata, "test_case_metadata", "output_metadata")
    if came != belongs:
        raise ValueError(f"metadata of a check of case {case['id']!r}: expected {belongs}, got {came}")
    shown: Document = {
        "check_type": check.check_type,
        "status": STATUS.get(check.status, "unspecified"),
        "results": plain(MessageToDict(check.results)),
        "evaluated_at": _moment(check.evaluated_at),
        "metadata": {"check_version": metadata.check_version},
    } | _some(check, "resolved_arguments")
    if metadata.HasField("additional_metadata"):
        shown["metadata"] |= plain(MessageToDict(metadata.additional_metadata))
    if check.HasField("error"):
        shown["error"] = {
            "type": ERRORS.get(check.error.type, "unspecified"),
            "message": check.error.message,
        } | _some(check.error, "recoverable")
    return shown


def _counts(summary: Message) -> Document:
    return {field.name: getattr(summary, field.name) for field in summary.DESCRIPTOR.fields}


def _some(message: Any, *names: str) -> Document:
    """The members that are there."""
    found = {name: getattr(message, name) for name in names if message.HasField(name)}
    return {
        name: plain(MessageToDict(value)) if isinstance(value, Message) else value
        for name, value in found.items()
    }


def _value_of(field: Any) -> Any:
    kind = field.WhichOneof("value")
    if kind is None:
        return None
    return field.string_value if kind == "string_value" else plain(MessageToDict(getattr(field, kind)))


def plain(value: Any) -> Any:
    """The value; a double without a fraction is an int."""
    if is_object(value):
        return {key: plain(one) for key, one in value.items()}
    if is_list(value):
        return [plain(one) for one in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return int(value)
    return value


def _moment(stamp: Any) -> str:
    return f"{stamp.ToDatetime().isoformat(timespec='microseconds')}Z"


def _progress_of(message: fep.EvaluationProgress) -> Document:
    names = ("evaluation_id", "status", "completed_test_cases", "total_test_cases")
    shown = {name: getattr(message, name) for name in names}
    return shown | (
        {"final_result": result_of(message.final_result)} if message.HasField("final_result") else {}
    )


def _operation_of(message: fep.EvaluationOperation) -> Document:
    shown: Document = {"operation_id": message.operation_id, "status": message.status}
    return shown | ({"result": result_of(message.result)} if message.HasField("result") else {})


def _page_of(message: fep.ListOperationsResponse) -> Document:
    found: Document = {"operations": [_operation_of(one) for one in message.operations]}
    return found | _some(message, "next_page_token")


def _fields_of(message: Message) -> Document:
    return MessageToDict(message, preserving_proto_field_name=True)


def _of(kind: type[Message]) -> Callable[[Document], Message]:
    return lambda document: kind(**document)


NOW, LATER = "/fep.v1.EvaluationService/", "/fep.v1.AsyncEvaluationService/"
RPCS = {
    "RunEvaluation": Rpc(f"{NOW}RunEvaluation", message_of, fep.EvaluationRunResult, result_of),
    "GetEvaluation": Rpc(f"{NOW}GetEvaluation", _of(fep.GetEvaluationRequest), fep.EvaluationRunResult, result_of),
    "HealthCheck": Rpc(f"{NOW}HealthCheck", _of(fep.HealthCheckRequest), fep.HealthCheckResponse, _fields_of),
    "StreamEvaluation": Rpc(f"{NOW}StreamEvaluation", message_of, fep.EvaluationProgress, _progress_of),
    "StartEvaluation": Rpc(f"{LATER}StartEvaluation", message_of, fep.EvaluationOperation, _operation_of),
    "GetOperation": Rpc(f"{LATER}GetOperation", _of(fep.GetOperationRequest), fep.EvaluationOperation, _operation_of),
    "ListOperations": Rpc(f"{LATER}ListOperations", _of(fep.ListOperationsRequest), fep.ListOperationsResponse, _page_of),
    "CancelOperation": Rpc(f"{LATER}CancelOperation", _of(fep.CancelOperationRequest), fep.CancelOperationResponse, _fields_of),
    "NoSuchMethod": Rpc(f"{NOW}NoSuchMethod", _of(fep.HealthCheckRequest), fep.HealthCheckResponse, _fields_of),
}  # fmt: skip
