"""The checks of FEP over REST: the vectors that the text decides, the laws of results, and the routes."""

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import quote

from assay.conform.check import (
    ABSENT,
    Check,
    Failed,
    Host,
    NotOffered,
    NotTried,
    at_once,
    document_of,
    expect_error_body,
    expect_status,
)
from assay.conform.http_client import Answer
from assay.conform.json_values import Document, is_object, same, shown
from assay.conform.result_laws import LAWS, Law
from assay.conform.vectors import Vector, unlike, vector_files

EVALUATE = "/v1/evaluate"
UNKNOWN = "00000000-0000-4000-8000-000000000000"  # an id that no host gave
MALFORMED = ("%00", "..%2f..%2fetc%2fpasswd", "%27%20or%201%3D1", "x" * 2000, "%F0%9F%98%80", "null", "-1")
LAW_TOPICS = ("results", "requests", "jsonpath")  # their results have errors, several cases and metadata
PARALLEL = 8
MANY = 200  # cases of a large request
ODD_TEXT = '\u0000 \u001b[31m é e\u0301 😀 \u202e \\ " </script> \u2028 $.x {{$.y}}'
SHAPE = LAWS[0]  # the others read what has this shape
FOUND = 3  # problems that a message names


def fep_checks() -> list[Check]:
    """Every check of FEP, in their order."""
    files = vector_files()
    vectors = [(file.topic, one) for file in files for one in file.vectors if one.decision is None]
    return [
        *(_vector_check(topic, one) for topic, one in vectors),
        *(
            _law_check(law, [one for topic, one in vectors if topic in LAW_TOPICS and one.expected])
            for law in LAWS
        ),
        *ROUTE_CHECKS,
    ]


def evaluation(host: Host, request: Document) -> Document | None:
    """
    The result of a request, or None if the host refused it.

    NotOffered: the host has no such route. Failed: it answers with another status than 200 and 400.
    """
    host.once("fep", partial(_find_fep, host))
    answer = host.send("POST", EVALUATE, request)
    if answer.status in (400, 422):
        return None
    expect_status(answer, 200, f"POST {EVALUATE}")
    return remember(host, document_of(answer, f"POST {EVALUATE}"))


def _find_fep(host: Host) -> None:
    answer = host.send("POST", EVALUATE, simple_request())
    if answer.status in ABSENT:
        raise NotOffered(f"POST {EVALUATE} is {answer.status}")
    if answer.status in (401, 403):
        raise NotTried(f"POST {EVALUATE}: the key is refused with {answer.status}")
    if answer.status == 200:
        remember(host, document_of(answer, f"POST {EVALUATE}"))


def remember(host: Host, result: Document) -> Document:
    """The result, remembered so that it is deleted at the end."""
    id = result.get("evaluation_id")
    if isinstance(id, str) and id:
        host.made.append(f"/v1/evaluations/{quote(id, safe='')}")
    return result


def simple_request(text: str = "Paris") -> Document:
    """A request with one case and one check, which passes."""
    return {
        "test_cases": [{"id": "conform", "input": "What is the capital of France?", "expected": text}],
        "outputs": [{"value": text}],
        "checks": [
            {
                "type": "exact_match",
                "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"},
            }
        ],
    }


def _vector_check(topic: str, vector: Vector) -> Check:
    expected = {
        "refused": "A refusal of the whole request.",
        "rejected": "A refusal, or checks with a validation_error.",
    }
    return Check(
        f"fep.{topic}.{vector.name}",
        vector.reference,
        f"{vector.reason} The text: “{vector.text}”",
        f"POST {EVALUATE} {shown(vector.request, None)}",
        expected[vector.outcome] if vector.outcome else f"A result with {shown(vector.expected, None)}",
        partial(_run_vector, vector),
    )


def _run_vector(vector: Vector, host: Host) -> None:
    fail_if(unlike(vector, evaluation(host, vector.request)))


def _law_check(law: Law, vectors: list[Vector]) -> Check:
    return Check(
        f"fep.law.{law.name}",
        law.reference,
        law.rule,
        f"POST {EVALUATE} with {len(vectors)} requests of the vectors.",
        "Results that keep the rule.",
        partial(_run_law, law, vectors),
    )


def _run_law(law: Law, vectors: list[Vector], host: Host) -> None:
    results = host.once("results", lambda: [(one.request, evaluation(host, one.request)) for one in vectors])
    judged = [(request, result) for request, result in results if result is not None]
    if not judged:
        raise NotTried("the host refused every request")
    if law is not SHAPE and any(next(SHAPE.find(request, result), "") for request, result in judged):
        raise NotTried("the results have another shape: see fep.law.shape")
    fail_if(problem for request, result in judged for problem in law.find(request, result))


def expect_lawful(request: Document, result: Document) -> None:
    """Failed: the result breaks a law."""
    fail_if(problem for law in LAWS for problem in law.find(request, result))


def fail_if(problems: Iterable[str]) -> None:
    """Failed: there are problems."""
    found = list(islice(problems, FOUND + 1))
    if found:
        more = "; and more" if len(found) > FOUND else ""
        raise Failed("; ".join(found[:FOUND]) + more)


def _result(host: Host, request: Document) -> Document:
    found = evaluation(host, request)
    if found is None:
        raise Failed(f"POST {EVALUATE}: expected a result, got a refusal")
    return found


def _stored(host: Host) -> tuple[str, Document]:
    """The path of an evaluation of ours, and its result."""

    def make() -> tuple[str, Document]:
        result = _result(host, simple_request("Paris stored"))
        id = result.get("evaluation_id")
        if not isinstance(id, str) or not id:
            raise Failed(f"evaluation_id: expected a text, got {shown(id)}")
        return f"/v1/evaluations/{quote(id, safe='')}", result

    return host.once("stored", make)


def _answers_json(host: Host) -> None:
    host.once("fep", partial(_find_fep, host))
    answer = host.send("POST", EVALUATE, simple_request())
    expect_status(answer, 200, f"POST {EVALUATE}")
    result = remember(host, document_of(answer, f"POST {EVALUATE}"))
    fail_if(SHAPE.find(simple_request(), result))
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Failed(f"POST {EVALUATE}: expected the type application/json, got {kind or 'none'}")


def _reads_back(host: Host) -> None:
    path, result = _stored(host)
    answer = host.send("GET", path)
    expect_status(answer, 200, f"GET {path}")
    again = document_of(answer, f"GET {path}")
    expect_same(f"GET {path}", again, result)


def expect_same(what: str, again: Document, result: Document) -> None:
    """Failed: a read has something else than the first answer."""
    names = ("evaluation_id", "status", "summary", "started_at", "completed_at", "results")
    fail_if(
        f"{what}: {name} is another than in the first answer"
        for name in names
        if not same(again.get(name), result.get(name))
    )


def _unknown(host: Host) -> Answer:
    _stored(host)
    return host.send("GET", f"/v1/evaluations/{UNKNOWN}")


def _unknown_is_404(host: Host) -> None:
    answer = _unknown(host)
    expect_status(answer, 404, f"GET /v1/evaluations/{UNKNOWN}")
    expect_error_body(answer, f"GET /v1/evaluations/{UNKNOWN}")


def _malformed_is_404(host: Host) -> None:
    unknown = _unknown(host)
    for id in MALFORMED:
        answer = host.send("GET", f"/v1/evaluations/{id}")
        if answer.status not in (unknown.status, 400, 414):
            expected = f"expected {unknown.status} as for an unknown id, or 400; got {answer.status}"
            raise Failed(f"GET /v1/evaluations/{id[:40]}: {expected}")


def _foreign_is_unknown(host: Host) -> None:
    path, _ = _stored(host)
    other = host.other_key
    foreign = host.send("GET", path, key=other)
    unknown = host.send("GET", f"/v1/evaluations/{UNKNOWN}", key=other)
    if unknown.status in (401, 403):
        raise NotTried(f"--other-key: the key is refused with {unknown.status}")
    if foreign.status != unknown.status:
        raise Failed(
            f"GET {path} with another key: expected {unknown.status} as for an unknown id, got {foreign.status}"
        )
    id = path.rpartition("/")[2]
    if foreign.body.replace(id.encode(), b"") != unknown.body.replace(UNKNOWN.encode(), b""):
        raise Failed(f"GET {path} with another key: the body is another than for an unknown id")


def _error_body(host: Host) -> None:
    host.once("fep", partial(_find_fep, host))
    answer = host.send("POST", EVALUATE, simple_request() | {"outputs": []})
    expect_status(answer, (400, 422), f"POST {EVALUATE} with a case and no output")
    expect_error_body(answer, f"POST {EVALUATE}")


def _bad_json(host: Host) -> None:
    host.once("fep", partial(_find_fep, host))
    for body in (b"{", b"", b"[1,2", b'{"test_cases": NaN}', b"\xff\xfe", b"null", b"[]", b"[" * 5000):
        answer = host.send("POST", EVALUATE, body)
        expect_status(answer, (400, 422), f"POST {EVALUATE} with the body {body[:20]!r}")


def _health(host: Host) -> None:
    answer = host.send("GET", "/v1/health", key="")
    if answer.status in ABSENT:
        host.once("fep", partial(_find_fep, host))
    expect_status(answer, 200, "GET /v1/health")
    body = document_of(answer, "GET /v1/health")
    fail_if(
        f"GET /v1/health: {name}: expected a text"
        for name in ("status", "version")
        if not isinstance(body.get(name, ""), str)
    )


def _needs_key(host: Host) -> None:
    path, _ = _stored(host)
    for key, what in (("", "without a key"), ("not-a-key", "with a wrong key")):
        for method, at, body in (
            ("POST", EVALUATE, simple_request()),
            ("GET", path, None),
            ("GET", f"/v1/evaluations/{UNKNOWN}", None),
        ):
            expect_status(host.send(method, at, body, key=key), (401, 403), f"{method} {at} {what}")


def _own_ids(host: Host) -> None:
    ids = [_result(host, simple_request()).get("evaluation_id") for _ in range(3)]
    if len({shown(id) for id in ids}) < len(ids):
        raise Failed(f"three evaluations have the ids {shown(ids)}")


def large_request() -> Document:
    """A request with many cases. Each second one has an output that does not pass."""
    return simple_request() | {
        "test_cases": [
            {"id": f"c{at}", "input": f"question {at}", "expected": f"{at}"} for at in range(MANY)
        ],
        "outputs": [{"value": f"{at}" if at % 2 else f"not {at}"} for at in range(MANY)],
    }


def _many_cases(host: Host) -> None:
    request = large_request()
    expect_every_second(request, _result(host, request))


def expect_every_second(request: Document, result: Document) -> None:
    """Failed: the result of a large request is another."""
    expect_lawful(request, result)
    passed = [
        check.get("results", {}).get("passed") if is_object(check) else None
        for case in result["results"]
        for check in case["check_results"]
    ]
    if passed != [bool(at % 2) for at in range(MANY)]:
        raise Failed("expected that every second case passes")


def _at_once(host: Host) -> None:
    texts = [f"conform {at}" for at in range(PARALLEL)]
    host.once("fep", partial(_find_fep, host))

    def ask(text: str) -> Document:
        return _result(host, simple_request(text))

    for text, result in zip(texts, at_once(ask, texts), strict=True):
        expect_lawful(simple_request(text), result)


def _any_text(host: Host) -> None:
    text = ODD_TEXT
    request = simple_request(text)
    result = evaluation(host, request)
    if result is None:
        request = simple_request(
            text.replace("\u0000", "")
        )  # PostgreSQL cannot store it, so a host may refuse it
        result = _result(host, request)
    expect_lawful(request, result)


def _hides_key(host: Host) -> None:
    _needs_key(host)
    _error_body(host)
    _unknown(host)
    host.expect_no_key()


def _route(name: str, reference: str, rule: str, sends: str, expects: str, run: Any) -> Check:
    return Check(f"fep.rest.{name}", reference, rule, sends, expects, run)


ID = "GET /v1/evaluations/{evaluation_id}"
ROUTE_CHECKS = [
    _route("answers-json", "FEP 0.0.1 §5.1 runEvaluation", "An evaluation is answered with its result as JSON.", f"POST {EVALUATE} with one case.", "200, application/json.", _answers_json),
    _route("reads-back", "FEP 0.0.1 §5.1 getEvaluation", "The results of an earlier evaluation can be read by its id.", f"{ID} of an evaluation that was just made.", "200, with the same id, status, summary, times and results.", _reads_back),
    _route("unknown-is-404", "FEP 0.0.1 §5.1 getEvaluation", "An evaluation that does not exist is not found.", f"{ID} with an id that nobody gave.", "404 with an error body.", _unknown_is_404),
    _route("malformed-is-404", "FEP 0.0.1 §5.1 getEvaluation", "An id that is no id is not found, and breaks nothing.", f"{ID} with {len(MALFORMED)} ids such as ../../etc/passwd.", "The status of an unknown id, or 400.", _malformed_is_404),
    _route("foreign-is-unknown", "FEP 0.0.1 §6.4", "A tenant learns nothing about the evaluations of another.", f"{ID} of an evaluation with the key of another tenant.", "The answer to an id that nobody gave.", _foreign_is_unknown),
    _route("error-body", "FEP 0.0.1 §5.1 ErrorResponse", "A refusal is an object with error and message.", f"POST {EVALUATE} with a case and no output.", "400, with texts in error and message, and an object in details if it is there.", _error_body),
    _route("bad-json-is-400", "FEP 0.0.1 §5.1 runEvaluation", "A body that is no request is refused.", f"POST {EVALUATE} with eight bodies: cut, empty, not UTF-8, too deep, not an object.", "400.", _bad_json),
    _route("health", "FEP 0.0.1 §5.1 healthCheck", "A healthy host says so.", "GET /v1/health without a key.", "200, an object; status and version are texts.", _health),
    _route("needs-a-key", "FEP 0.0.1 §6.4, §5.1 security", "The routes need a key, and say nothing without one.", f"POST {EVALUATE} and {ID} without a key and with a wrong one.", "401 or 403.", _needs_key),
    _route("own-ids", "FEP 0.0.1 §4.2", "An evaluation has an id of its own.", f"POST {EVALUATE} three times with one request.", "Three ids.", _own_ids),
    _route("many-cases", "FEP 0.0.1 §6.1 level 2", "A large request has a result for each case, in order.", f"POST {EVALUATE} with {MANY} cases; each second one passes.", f"{MANY} results in order, counted right.", _many_cases),
    _route("at-once", "FEP 0.0.1 §6.1 level 2", "Evaluations at the same time do not mix.", f"POST {EVALUATE} {PARALLEL} times at once, each with another text.", "Each answer has the text of its request.", _at_once),
    _route("any-text", "FEP 0.0.1 §2.1, §2.2", "A text of any characters comes back as it was.", f"POST {EVALUATE} with controls, emoji, escapes and markup.", "The same text in the context. A host may refuse U+0000.", _any_text),
    _route("hides-the-key", "FEP 0.0.1 §6.4", "No answer shows the key.", "Requests that are refused, with the key.", "Bodies without the key.", _hides_key)._replace(last=True),
]  # fmt: skip
