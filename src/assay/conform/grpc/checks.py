"""The checks of FEP over gRPC: the vectors, the laws of results, and the methods of the two services."""

import time
from functools import partial
from typing import Any

from assay.conform.check import Check, Failed, Host, NotOffered, NotTried, RpcAnswer, at_once, expect
from assay.conform.fep_checks import (
    ODD_TEXT,
    PARALLEL,
    UNKNOWN,
    expect_every_second,
    expect_lawful,
    expect_same,
    fail_if,
    large_request,
    remember,
    simple_request,
)
from assay.conform.json_values import Document, list_in, object_in, objects_in, same, shown
from assay.conform.result_laws import LAWS
from assay.conform.vectors import Vector, VectorFile, unlike, vector_files

DENIED = ("UNAUTHENTICATED", "PERMISSION_DENIED")
MISSING = ("NOT_FOUND", "INVALID_ARGUMENT")
MALFORMED = ("", "../../etc/passwd", "' or 1=1", "x" * 2000, "😀", "null", "-1")
NO_OUTPUT: Document = {"outputs": []}
ENDED = ("completed", "failed", "cancelled")
LONGEST = 30.0  # seconds until an evaluation has ended
ERROR = {"type": "regex", "arguments": {"text": "$.output.nothing", "pattern": "x"}}


def grpc_checks() -> list[Check]:
    """Every check of gRPC, in their order."""
    files = vector_files()
    return [*(_vectors_check(file) for file in files), *METHOD_CHECKS]


def _vectors_check(file: VectorFile) -> Check:
    vectors = [one for one in file.vectors if one.decision is None and not one.json_only]
    return Check(
        f"fep.grpc.{file.topic}",
        "FEP 0.0.1 §5.2, §6.1 level 3",
        f"A request has the same result over gRPC as over REST: the checks fep.{file.topic}.",
        f"RunEvaluation with the requests of {len(vectors)} vectors.",
        "What each vector expects. A refusal is INVALID_ARGUMENT.",
        partial(_run_vectors, vectors),
    )


def _run_vectors(vectors: list[Vector], host: Host) -> None:
    fail_if(
        f"{vector.name}: {problem}"
        for vector in vectors
        for problem in unlike(vector, _evaluation(host, vector.request))
    )


def _evaluation(host: Host, request: Document) -> Document | None:
    """The result of a request, or None if the host refused it."""
    host.once("grpc", partial(_find_service, host))
    answer = host.call("RunEvaluation", request)
    return None if answer.code == "INVALID_ARGUMENT" else remember(host, _only(answer, "RunEvaluation"))


def _result(host: Host, request: Document) -> Document:
    found = _evaluation(host, request)
    if found is None:
        raise Failed("RunEvaluation: expected a result, got a refusal")
    return found


def _find_service(host: Host) -> None:
    answer = host.call("RunEvaluation", simple_request())
    if answer.code == "UNIMPLEMENTED":
        raise NotOffered("RunEvaluation is UNIMPLEMENTED")
    if answer.code in DENIED:
        raise NotTried(f"RunEvaluation: the key is refused with {answer.code}")
    if answer.code == "OK":
        remember(host, _only(answer, "RunEvaluation"))


def _only(answer: RpcAnswer, what: str) -> Document:
    """The one message of an answer. Failed: it is an error, or has more or fewer."""
    _expect_code(answer, ("OK",), what)
    expect(len(answer.messages) == 1, f"{what}: expected one message, got {len(answer.messages)}")
    return answer.messages[0]


def _expect_code(answer: RpcAnswer, codes: tuple[str, ...], what: str) -> None:
    if answer.code not in codes:
        came = f"{answer.code}: {answer.details[:200]}" if answer.details else answer.code
        raise Failed(f"{what}: expected {' or '.join(codes)}, got {came}")


def _stored(host: Host) -> Document:
    """An evaluation of ours, which has an id."""

    def make() -> Document:
        result = _result(host, simple_request("Paris over gRPC"))
        expect(result.get("evaluation_id"), "RunEvaluation: expected a text in evaluation_id, got none")
        return result

    return host.once("grpc stored", make)


def _laws(host: Host) -> None:
    """Results with errors, several checks and metadata."""
    simple = simple_request()
    request = simple | {
        "outputs": [{"value": "Paris", "metadata": {"model": "m"}}],
        "checks": [*simple["checks"], ERROR],
    }
    expect_lawful(request, _result(host, request))


def _reads_back(host: Host) -> None:
    result = _stored(host)
    again = _only(host.call("GetEvaluation", {"evaluation_id": result["evaluation_id"]}), "GetEvaluation")
    expect_same("GetEvaluation", again, result)


def _unknown_is_not_found(host: Host) -> None:
    _stored(host)
    _expect_code(
        host.call("GetEvaluation", {"evaluation_id": UNKNOWN}), ("NOT_FOUND",), f"GetEvaluation {UNKNOWN}"
    )
    for id in MALFORMED:
        _expect_code(host.call("GetEvaluation", {"evaluation_id": id}), MISSING, f"GetEvaluation {id[:40]!r}")


def _foreign_is_unknown(host: Host) -> None:
    id, other = _stored(host)["evaluation_id"], host.other_key
    foreign = host.call("GetEvaluation", {"evaluation_id": id}, key=other)
    unknown = host.call("GetEvaluation", {"evaluation_id": UNKNOWN}, key=other)
    if unknown.code in DENIED:
        raise NotTried(f"--other-key: the key is refused with {unknown.code}")
    _expect_code(unknown, MISSING, f"GetEvaluation {UNKNOWN} with another key")
    _expect_code(foreign, (unknown.code,), f"GetEvaluation {id} with another key")
    if foreign.details.replace(id, "") != unknown.details.replace(UNKNOWN, ""):
        raise Failed(f"GetEvaluation {id} with another key: the details are others than for an unknown id")


def _needs_key(host: Host) -> None:
    id = _stored(host)["evaluation_id"]
    for key, what in (("", "without a key"), ("not-a-key", "with a wrong key")):
        for method, request in (
            ("RunEvaluation", simple_request()),
            ("StreamEvaluation", simple_request()),
            ("GetEvaluation", {"evaluation_id": id}),
            ("GetEvaluation", {"evaluation_id": UNKNOWN}),
        ):
            _expect_code(host.call(method, request, key=key), DENIED, f"{method} {what}")


def _refuses(host: Host) -> None:
    _stored(host)
    what, request = "a case without an output", simple_request() | NO_OUTPUT
    for method in ("RunEvaluation", "StreamEvaluation"):
        answer = host.call(method, request)
        if (method, answer.code) == ("StreamEvaluation", "UNIMPLEMENTED"):
            continue
        _expect_code(answer, ("INVALID_ARGUMENT",), f"{method} with {what}")
        expect(answer.details, f"{method} with {what}: expected details of the refusal, got none")
        expect(not answer.messages, f"{method} with {what}: it has messages before the refusal")


def _bad_message(host: Host) -> None:
    """A field that ends too early, a wrong tag, and a text that is not UTF-8."""
    _stored(host)
    for data in (b"\x0a\x7f", b"\xff" * 100, b"\x0a\x04\x0a\x02\xff\xfe"):
        answer = host.call("RunEvaluation", data)
        expect(answer.code != "OK", f"RunEvaluation with the bytes {data[:4]!r}: expected an error, got OK")
    _result(host, simple_request())


def _unknown_method(host: Host) -> None:
    _stored(host)
    _expect_code(host.call("NoSuchMethod", {}), ("UNIMPLEMENTED",), "EvaluationService/NoSuchMethod")


def _health(host: Host) -> None:
    answer = host.call("HealthCheck", {}, key="")
    if answer.code == "UNIMPLEMENTED":
        host.once("grpc", partial(_find_service, host))
    found = _only(answer, "HealthCheck without a key")
    expect(found.get("status"), "HealthCheck: expected a text in status, got none")


def _own_ids(host: Host) -> None:
    ids = [_result(host, simple_request()).get("evaluation_id") for _ in range(3)]
    expect(all(ids) and len({*ids}) == len(ids), f"three evaluations have the ids {shown(ids)}")


def _many_cases(host: Host) -> None:
    request = large_request()
    expect_every_second(request, _result(host, request))


def _at_once(host: Host) -> None:
    texts = [f"conform {at}" for at in range(PARALLEL)]
    _stored(host)
    for text, result in zip(
        texts, at_once(lambda text: _result(host, simple_request(text)), texts), strict=True
    ):
        expect_lawful(simple_request(text), result)


def _any_text(host: Host) -> None:
    text = ODD_TEXT.replace("\u0000", "")  # a host may refuse it: PostgreSQL cannot store it
    expect_lawful(simple_request(text), _result(host, simple_request(text)))


def _stream(host: Host) -> None:
    _stored(host)
    request = large_request()
    answer = host.call("StreamEvaluation", request)
    if answer.code == "UNIMPLEMENTED":
        raise NotOffered("StreamEvaluation is UNIMPLEMENTED")
    _expect_code(answer, ("OK",), "StreamEvaluation")
    fail_if(_stream_problems(answer.messages, len(request["test_cases"])))
    expect_every_second(request, remember(host, _joined(answer.messages)))


def _stream_problems(messages: list[Document], total: int) -> list[str]:
    statuses = [one["status"] for one in messages]
    done = [one["completed_test_cases"] for one in messages]
    rules = {
        "expected messages that are running, and one at the end that is completed": statuses
        and statuses[-1] == "completed"
        and {*statuses} <= {"running", "completed"}
        and statuses == sorted(statuses, reverse=True),
        "expected one evaluation_id": len({one["evaluation_id"] for one in messages}) == 1
        and messages[0]["evaluation_id"],
        "expected that completed_test_cases only grows, up to all": done == sorted(done)
        and done[-1:] == [total],
        f"total_test_cases: expected {total}": {one["total_test_cases"] for one in messages} <= {0, total},
        "expected a final_result in completed messages alone": all(
            ("final_result" in one) == (one["status"] == "completed") for one in messages
        ),
    }
    return [f"StreamEvaluation: {rule}" for rule, holds in rules.items() if not holds]


def _joined(messages: list[Document]) -> Document:
    """The final result. A host may send a large one in parts: the first has everything but some results."""
    parts = [object_in(one, "final_result") for one in messages if one["status"] == "completed"]
    results = [case for part in parts for case in list_in(part, "results")]
    if not same(parts[0].get("evaluation_id"), messages[0]["evaluation_id"]):
        raise Failed("StreamEvaluation: the final_result is of another evaluation")
    return parts[0] | {"results": results}


def _operation(host: Host) -> Document:
    """A started evaluation that has ended, as its operation."""

    def start() -> Document:
        _stored(host)
        answer = host.call("StartEvaluation", simple_request("Paris later"))
        if answer.code == "UNIMPLEMENTED":
            raise NotOffered("StartEvaluation is UNIMPLEMENTED")
        started = _only(answer, "StartEvaluation")
        id = started["operation_id"]
        expect(id, "StartEvaluation: expected a text in operation_id, got none")
        remember(host, {"evaluation_id": id})
        end, pause = time.monotonic() + LONGEST, 0.01
        while (found := _only(host.call("GetOperation", {"operation_id": id}), "GetOperation"))[
            "status"
        ] not in ENDED:
            expect(
                found["status"] in ("pending", "running"), f"GetOperation: status: got {found['status']!r}"
            )
            expect(time.monotonic() < end, f"GetOperation: not ended after {LONGEST:g} seconds")
            time.sleep(pause)
            pause = min(0.25, pause * 1.5)
        return found

    return host.once("grpc operation", start)


def _operation_ends(host: Host) -> None:
    found = _operation(host)
    expect(
        found["status"] == "completed", f"GetOperation: status: expected completed, got {found['status']!r}"
    )
    expect_lawful(simple_request("Paris later"), object_in(found, "result"))


def _operation_listed(host: Host) -> None:
    id = _operation(host)["operation_id"]
    found = _only(host.call("ListOperations", {}), "ListOperations")
    ids = [one["operation_id"] for one in objects_in(found, "operations")]
    expect(id in ids, f"ListOperations: expected {id} on the first page, got {len(ids)} others")
    page = _only(host.call("ListOperations", {"page_size": 1}), "ListOperations with page_size 1")
    first = [one["operation_id"] for one in objects_in(page, "operations")]
    expect(len(first) == 1, f"ListOperations with page_size 1: got {len(first)} operations")
    if page.get("next_page_token"):
        request = {"page_size": 1, "page_token": page["next_page_token"]}
        after = _only(host.call("ListOperations", request), "ListOperations with a page_token")
        second = [one["operation_id"] for one in objects_in(after, "operations")]
        expect(second != first, "ListOperations with a page_token: got the first page again")


def _operation_unknown(host: Host) -> None:
    _operation(host)
    for method in ("GetOperation", "CancelOperation"):
        _expect_code(host.call(method, {"operation_id": UNKNOWN}), ("NOT_FOUND",), f"{method} {UNKNOWN}")


def _hides_key(host: Host) -> None:
    _needs_key(host)
    _refuses(host)
    host.expect_no_key()


def _check(name: str, reference: str, rule: str, sends: str, expects: str, run: Any) -> Check:
    return Check(f"fep.grpc.{name}", reference, rule, sends, expects, run)


METHOD_CHECKS = [
    _check("laws", "FEP 0.0.1 §4, §5.2", f"A result over gRPC keeps the {len(LAWS)} laws fep.law, and the metadata of a check names its case.", "RunEvaluation with a check that passes, one with an error, and metadata.", "A result that keeps them.", _laws),
    _check("reads-back", "FEP 0.0.1 §5.2 GetEvaluation", "The results of an earlier evaluation can be read by its id.", "GetEvaluation of an evaluation that was just made.", "The same id, status, summary, times and results.", _reads_back),
    _check("unknown-is-not-found", "FEP 0.0.1 §5.2 GetEvaluation", "An evaluation that does not exist is not found.", f"GetEvaluation with an id that nobody gave, and with {len(MALFORMED)} malformed ones.", "NOT_FOUND; INVALID_ARGUMENT for an id that is none.", _unknown_is_not_found),
    _check("foreign-is-unknown", "FEP 0.0.1 §6.4", "A tenant learns nothing about the evaluations of another.", "GetEvaluation of an evaluation with the key of another tenant.", "The answer to an id that nobody gave.", _foreign_is_unknown),
    _check("needs-a-key", "FEP 0.0.1 §6.4", "The methods need a key, and say nothing without one.", "RunEvaluation, StreamEvaluation and GetEvaluation without a key and with a wrong one, in the metadata authorization.", "UNAUTHENTICATED or PERMISSION_DENIED.", _needs_key),
    _check("refuses", "FEP 0.0.1 §5.2 RunEvaluation", "A request that is wrong is refused as a whole, with a reason.", "RunEvaluation and StreamEvaluation with a case without an output.", "INVALID_ARGUMENT with details, and no message before.", _refuses),
    _check("bad-message", "FEP 0.0.1 §5.2", "Bytes that are no message are refused, and break nothing.", "RunEvaluation with three bodies: cut, of a wrong tag, not UTF-8; then with a right one.", "An error for each, then a result.", _bad_message),
    _check("unknown-method", "FEP 0.0.1 §5.2", "A method that the service does not have is unimplemented.", "EvaluationService/NoSuchMethod.", "UNIMPLEMENTED.", _unknown_method),
    _check("health", "FEP 0.0.1 §5.2 HealthCheck", "A healthy host says so.", "HealthCheck without a key.", "A message with a status.", _health),
    _check("own-ids", "FEP 0.0.1 §4.2", "An evaluation has an id of its own.", "RunEvaluation three times with one request.", "Three ids.", _own_ids),
    _check("many-cases", "FEP 0.0.1 §6.1 level 2", "A large request has a result for each case, in order.", "RunEvaluation with many cases; each second one passes.", "Results in order, counted right.", _many_cases),
    _check("at-once", "FEP 0.0.1 §6.1 level 2", "Evaluations at the same time do not mix.", f"RunEvaluation {PARALLEL} times at once, each with another text.", "Each answer has the text of its request.", _at_once),
    _check("any-text", "FEP 0.0.1 §2.1, §2.2", "A text of any characters comes back as it was.", "RunEvaluation with controls, emoji, escapes and markup.", "The same text in the context.", _any_text),
    _check("stream", "FEP 0.0.1 §5.2, §6.1 level 3", "An evaluation is streamed: its progress, then its result.", "StreamEvaluation with many cases.", "Messages that are running, counts that only grow, one id; at the end completed, with the result.", _stream),
    _check("operation-ends", "FEP 0.0.1 §5.2 StartEvaluation, GetOperation", "A started evaluation ends, and its operation has the result.", "StartEvaluation, then GetOperation until it has ended.", "completed, with a result that keeps the laws.", _operation_ends),
    _check("operation-listed", "FEP 0.0.1 §5.2 ListOperations", "Operations are listed, in pages.", "ListOperations, then with page_size 1 and the page_token that came.", "The operation that was just started; one operation; another one.", _operation_listed),
    _check("operation-unknown", "FEP 0.0.1 §5.2 GetOperation, CancelOperation", "An operation that does not exist is not found.", "GetOperation and CancelOperation with an id that nobody gave.", "NOT_FOUND.", _operation_unknown),
    _check("hides-the-key", "FEP 0.0.1 §6.4", "No answer shows the key.", "Calls that are refused, with the key.", "Details and metadata without the key.", _hides_key)._replace(last=True),
]  # fmt: skip
