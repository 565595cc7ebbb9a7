"""Faults of a FEP server, and the checks that find each of them."""

from assay.conform.vectors import vector_files
from support.conform.proxy import Mutation

VECTORS = {
    f"fep.{file.topic}.{one.name}": one
    for file in vector_files()
    for one in file.vectors
    if one.decision is None
}
RIGHT = {
    "evaluation_id": "eval_1", "started_at": "2026-01-01T00:00:00Z", "completed_at": "2026-01-01T00:00:01Z",
    "status": "completed", "results": [],
    "summary": {"total_test_cases": 0, "completed_test_cases": 0, "error_test_cases": 0, "skipped_test_cases": 0},
}  # fmt: skip


def vectors_with(select):
    """The checks whose vectors expect a check result like that."""
    cases = {name: (one.expected or {}).get("results", []) for name, one in VECTORS.items()}
    return tuple(
        name
        for name, rows in cases.items()
        if any(select(one) for row in rows for one in row.get("check_results", []))
    )


def is_evaluation(exchange):
    return (
        exchange.status == 200 and exchange.path.startswith("/v1/evaluat") and b'"results"' in exchange.body
    )


def in_results(change):
    """Change the results of evaluations."""

    def apply(exchange):
        if is_evaluation(exchange):
            document = exchange.document
            change(document)
            exchange.document = document

    return apply


def in_checks(change):
    """Change each result of a check."""

    def each(result):
        for case in result["results"]:
            for check in case["check_results"]:
                change(check)

    return in_results(each)


def in_cases(change):
    def each(result):
        for case in result["results"]:
            change(case)

    return in_results(each)


def turn_round(check):
    if "passed" in check["results"]:
        check["results"]["passed"] = not check["results"]["passed"]


def rename_error(check):
    if "error" in check:
        check["error"]["type"] = "timeout_error"


def complete(check):
    if check["status"] == "error":
        check["status"] = "completed"
        del check["error"]


def accept_everything(exchange):
    if exchange.method == "POST" and exchange.status == 400:
        exchange.status, exchange.document = 200, RIGHT


def on(method, start, change, status=None):
    """Change answers to a method and paths that begin so; perhaps those of a status alone."""

    def apply(exchange):
        if (
            exchange.method == method
            and exchange.path.startswith(start)
            and status in (None, exchange.status)
        ):
            change(exchange)

    return apply


def to(status, **headers):
    def change(exchange):
        exchange.status = status
        exchange.headers |= headers

    return change


def first_id_for_all(exchange):
    if is_evaluation(exchange) and exchange.method == "POST":
        document = exchange.document
        document["evaluation_id"] = exchange.memory.setdefault("id", document["evaluation_id"])
        exchange.document = document


def first_result_for_all(exchange):
    """A cache that forgets what it was asked."""
    if is_evaluation(exchange) and b"conform" in exchange.sent:
        exchange.body = exchange.memory.setdefault("first", exchange.body)


def owner(exchange):
    """The first key that came."""
    return exchange.memory.setdefault("key", exchange.key) if exchange.key else exchange.memory.get("key", "")


def anybody_reads(exchange):
    """Reads with the first key that came, whoever asks."""
    first = owner(exchange)
    if exchange.method == "GET" and exchange.key and exchange.status == 404:
        exchange.forward(key=first.removeprefix("Bearer "))


def tell_existence(exchange):
    """Another status for what another tenant has."""
    first = owner(exchange)
    refused = exchange.status
    if exchange.method == "GET" and exchange.key and exchange.key != first and refused == 404:
        exchange.forward(key=first.removeprefix("Bearer "))
        exchange.status, exchange.document = (
            (403 if exchange.status == 200 else 404),
            {"error": "x", "message": "x"},
        )


def answer_without_key(exchange):
    if exchange.status == 401:
        exchange.forward(key=owner(exchange).removeprefix("Bearer "))
    else:
        owner(exchange)


def show_key(exchange):
    if exchange.status == 400:
        exchange.document = {"error": "invalid", "message": f"refused for {exchange.key}"}


def set_member(name, value):
    def change(document):
        document[name] = value

    return change


def cut_case(result):
    result["results"] = result["results"][:-1]


def swap_cases(result):
    result["results"] = result["results"][::-1]


def swap_checks(case):
    case["check_results"] = case["check_results"][::-1]


def lose_nul(exchange):
    if is_evaluation(exchange):
        exchange.body = exchange.body.replace("😀".encode(), b"?").replace(b"\\ud83d\\ude00", b"?")


def context(name, member, value):
    return in_cases(lambda case: case["execution_context"][name].update({member: value}))


def path_for_literals(check):
    for argument in check.get("resolved_arguments", {}).values():
        argument["jsonpath"] = "$.output.value"


FEP_FAULTS = [
    Mutation("an answer is turned round", vectors_with(lambda one: "passed" in one.get("results", {})), in_checks(turn_round)),
    Mutation("errors have another type", vectors_with(lambda one: "error" in one), in_checks(rename_error)),
    Mutation("errors are shown as completed", vectors_with(lambda one: "error" in one), in_checks(complete)),
    Mutation("a refused request has a result", (*(name for name, one in VECTORS.items() if one.outcome), "fep.rest.error-body", "fep.rest.bad-json-is-400"), accept_everything),
    Mutation("the input is replaced", ("fep.results.the-context-is-repeated", "fep.law.context", "fep.rest.many-cases", "fep.rest.at-once", "fep.rest.any-text"), context("test_case", "input", "?")),
    Mutation("metadata of an output is lost", ("fep.results.the-context-is-repeated", "fep.law.context"), in_cases(lambda case: case["execution_context"]["output"].pop("metadata", None))),
    Mutation("the experiment is another", ("fep.results.the-experiment-is-repeated",), in_results(lambda result: "experiment" in result and result["experiment"].update(name="other"))),
    Mutation("evaluated_at is missing", ("fep.law.shape",), in_checks(lambda check: check.pop("evaluated_at"))),
    Mutation("a summary is a text", ("fep.law.shape",), in_results(set_member("summary", "fine"))),
    Mutation("a member of our own in a case", ("fep.law.closed",), in_cases(set_member("test_case_id", "a"))),
    Mutation("a member of our own in the result", ("fep.law.closed",), in_results(set_member("score", 1))),
    Mutation("every case is completed", ("fep.law.status", "fep.law.run-counts", "fep.jsonpath.nothing-there"), in_cases(set_member("status", "completed"))),
    Mutation("a status that the text does not know", ("fep.law.status",), in_checks(set_member("status", "failed"))),
    Mutation("a case counts a check too many", ("fep.law.case-counts",), in_cases(lambda case: case["summary"].update(total_checks=99))),
    Mutation("errors are not counted", ("fep.law.case-counts",), in_cases(lambda case: case["summary"].update(error_checks=0))),
    Mutation("the run counts a case too many", ("fep.law.run-counts",), in_results(lambda result: result["summary"].update(total_test_cases=99))),
    Mutation("check counts of the run are wrong", ("fep.law.run-counts",), in_results(lambda result: result["summary"].update(completed_checks=-1))),
    Mutation("the last case is lost", ("fep.law.context", "fep.rest.many-cases", "fep.requests.outputs-belong-to-cases-by-place"), in_results(cut_case)),
    Mutation("cases are in another order", ("fep.law.context", "fep.rest.many-cases", "fep.requests.outputs-belong-to-cases-by-place"), in_results(swap_cases)),
    Mutation("checks are in another order", ("fep.law.check-order", "fep.results.checks-of-several-kinds"), in_cases(swap_checks)),
    Mutation("times have no zone", ("fep.law.times",), in_results(set_member("started_at", "2026-01-01T00:00:00"))),
    Mutation("the end is before the start", ("fep.law.times",), in_results(set_member("completed_at", "2020-01-01T00:00:00Z"))),
    Mutation("a check was evaluated in another year", ("fep.law.times",), in_checks(set_member("evaluated_at", "2020-01-01T00:00:00Z"))),
    Mutation("an error has no message", ("fep.law.errors",), in_checks(lambda check: "error" in check and check["error"].pop("message"))),
    Mutation("a completed check has an error", ("fep.law.errors",), in_checks(set_member("error", {"type": "unknown_error", "message": "x"}))),
    Mutation("a literal is shown as a path", ("fep.law.arguments",), in_checks(path_for_literals)),
    Mutation("an argument has no value", ("fep.law.arguments",), in_checks(lambda check: [one.pop("value") for one in check.get("resolved_arguments", {}).values()])),
    Mutation("a result is sent as text", ("fep.rest.answers-json",), on("POST", "/v1/evaluate", to(200, **{"content-type": "text/plain"}), 200)),
    Mutation("an evaluation is created", ("fep.rest.answers-json", "fep.rest.many-cases", "fep.rest.own-ids"), on("POST", "/v1/evaluate", to(201), 200)),
    Mutation("a read has another summary", ("fep.rest.reads-back",), on("GET", "/v1/evaluations/", in_results(set_member("summary", {})))),
    Mutation("a read is 204", ("fep.rest.reads-back",), on("GET", "/v1/evaluations/", to(204), 200)),
    Mutation("an unknown id is 200", ("fep.rest.unknown-is-404",), on("GET", "/v1/evaluations/", to(200), 404)),
    Mutation("a 404 has no error body", ("fep.rest.unknown-is-404",), on("GET", "/v1/evaluations/", lambda one: setattr(one, "document", {"detail": "x"}), 404)),
    Mutation("a strange id breaks the server", ("fep.rest.malformed-is-404",), on("GET", "/v1/evaluations/%", to(500))),
    Mutation("another tenant reads", ("fep.rest.foreign-is-unknown",), anybody_reads),
    Mutation("another tenant learns that an id exists", ("fep.rest.foreign-is-unknown",), tell_existence),
    Mutation("a refusal has no message", ("fep.rest.error-body",), on("POST", "/v1/evaluate", lambda one: setattr(one, "document", {"error": "invalid"}), 400)),
    Mutation("a cut body breaks the server", ("fep.rest.bad-json-is-400",), on("POST", "/v1/evaluate", to(500), 400)),
    Mutation("health needs a key", ("fep.rest.health",), on("GET", "/v1/health", to(401))),
    Mutation("health is a number", ("fep.rest.health",), on("GET", "/v1/health", lambda one: setattr(one, "document", {"status": 1}))),
    Mutation("no key is needed", ("fep.rest.needs-a-key",), answer_without_key),
    Mutation("every evaluation has one id", ("fep.rest.own-ids",), first_id_for_all),
    Mutation("a cache mixes results", ("fep.rest.at-once",), first_result_for_all),
    Mutation("emoji are lost", ("fep.rest.any-text",), lose_nul),
    Mutation("a refusal shows the key", ("fep.rest.hides-the-key",), show_key),
]  # fmt: skip
