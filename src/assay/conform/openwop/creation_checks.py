"""Who may create a run, which requests are refused, in which order, and that a request is carried out once."""

import secrets
from typing import Any

from assay.conform.check import (
    ABSENT,
    Host,
    NotOffered,
    NotTried,
    at_once,
    document_of,
    expect,
    expect_error_body,
    expect_status,
    refused_as,
)
from assay.conform.http_client import Answer
from assay.conform.json_values import Document, object_in, shown
from assay.conform.openwop.runs import any_run, created, ran, request, store_suite, suite_document, suite_ref
from assay.conform.openwop.surface import (
    NO_RUN,
    STRANGE,
    advertises,
    alike,
    capability,
    discovery,
    row,
    run_path,
)

PARALLEL = 8
TYPED = [
    b"", b"{", b"[]", b"null", b'"eval"', b'{"mode":1}', b'{"inputs":[]}', b'{"configurable":[]}', b'{"tags":"x"}',
    b'{"mode":"eval","what":1}', b"\xff\xfe",
]  # fmt: skip
READS = ("", "/events/poll", "/eval-summary", ":diff?against=x", "/annotations")


def _post(host: Host, body: Any, **more: Any) -> Answer:
    discovery(host)
    return host.send("POST", "/v1/runs", body, **more)


def _refused(host: Host, body: Document, what: str, statuses: int | tuple[int, ...] = 400) -> Document:
    """The details of the refusal, whose field is that one if the host names one."""
    return object_in(refused_as(_post(host, body), statuses, f"POST /v1/runs with {what}"), "details")


def _plain(host: Host, **configurable: Any) -> Document:
    return request(host, suite_ref(host, "plain"), **configurable)


def _needs_key(host: Host) -> None:
    discovery(host)
    run = any_run(host).id
    for key in ("", "not-a-key", "assay_abcdefgh_" + "x" * 43):
        for id in (run, NO_RUN):
            for rest in READS:
                path = run_path(id, rest)
                expect_status(host.send("GET", path, key=key), 401, f"GET {path} without a valid key")
            path = run_path(id, "/cancel")
            expect_status(host.send("POST", path, {}, key=key), 401, f"POST {path} without a valid key")
        refused_as(_post(host, {"workflowId": "x"}, key=key), 401, "POST /v1/runs without a valid key")


def _hides_existence(host: Host) -> None:
    run = any_run(host).id
    for rest in READS:
        known, unknown = (host.send("GET", run_path(id, rest), key="") for id in (run, NO_RUN))
        alike(known, unknown, (run, NO_RUN), f"GET {run_path(run, rest)} without a key")


def _error_body(host: Host) -> None:
    discovery(host)
    answers = {
        "GET of an unknown run": host.send("GET", run_path(NO_RUN)),
        "POST /v1/runs {}": _post(host, {}),
        "POST /v1/runs with a cut body": _post(host, b"{"),
        "POST /v1/runs without a key": _post(host, {}, key=""),
        "a poll with a wrong cursor": host.send("GET", run_path(any_run(host).id, "/events/poll?lastSequence=x")),
    }  # fmt: skip
    for what, answer in answers.items():
        body = expect_error_body(answer, what)
        expect(400 <= answer.status < 500, f"{what}: expected a status of 4xx, got {answer.status}")
        expect(body.keys() <= {"error", "message", "details"}, f"{what}: members {sorted(body)}")
        code = body["error"]
        expect(
            code == code.lower() and code.replace("_", "").isalnum(),
            f"{what}: error: expected a code in snake case",
        )


def _unknown_run(host: Host) -> None:
    discovery(host)
    for rest in ("", "/events/poll", "/eval-summary"):
        refused_as(host.send("GET", run_path(NO_RUN, rest)), 404, f"GET {run_path(NO_RUN, rest)}")
    refused_as(host.send("POST", run_path(NO_RUN, "/cancel"), {}), 404, "a cancel of an unknown run")


def _malformed_run(host: Host) -> None:
    discovery(host)
    for id in STRANGE:
        answer = host.send("GET", f"/v1/runs/{id}")
        expect_status(answer, (404, 400, 414), f"GET /v1/runs/{id[:40]}")


def _foreign_run(host: Host) -> None:
    run, other = any_run(host).id, host.other_key
    if host.send("GET", run_path(NO_RUN), key=other).status in (401, 403):
        raise NotTried("--other-key: the key is refused")
    for rest in (*READS, "/ancestry", "/events"):
        found, unknown = (host.send("GET", run_path(id, rest), key=other) for id in (run, NO_RUN))
        alike(found, unknown, (run, NO_RUN), f"GET {run_path(run, rest)} with another key")
        expect(found.status != 200, f"GET {run_path(run, rest)} with another key: another tenant reads")
    writes: dict[str, Document] = {
        "/cancel": {},
        ":fork": {"mode": "replay"},
        "/interrupts/gate": {"resumeValue": {}},
    }
    for rest, body in writes.items():
        found, unknown = (host.send("POST", run_path(id, rest), body, key=other) for id in (run, NO_RUN))
        alike(found, unknown, (run, NO_RUN), f"POST {run_path(run, rest)} with another key")


def _foreign_reference(host: Host) -> None:
    """A run of another tenant as a baseline, or in a comparison, is an unknown one."""
    run, other = any_run(host).id, host.other_key
    ref = store_suite(host, suite_document("plain"), key=other)
    bodies = [request(host, ref, evalModes=["regression"], baselineRunId=id) for id in (run, NO_RUN)]
    found, unknown = (host.send("POST", "/v1/runs", body, key=other) for body in bodies)
    alike(found, unknown, (run, NO_RUN), "POST /v1/runs with the baseline of another tenant")
    expect(found.status == 400, "POST /v1/runs with the baseline of another tenant: expected 400")


def _body_tenant(host: Host) -> None:
    body = _plain(host, evalModes=["golden"]) | {"tenantId": "a-tenant-that-nobody-has"}
    refused_as(_post(host, body), 403, "POST /v1/runs with the tenantId of another")


def _find_runs(host: Host) -> None:
    """NotOffered: the host has no route for runs, and advertises nothing that could run."""
    found = discovery(host)
    answer = _post(host, {})
    if answer.status in ABSENT and not advertises(host, "agents.evalSuite") and not found.get("fixtures"):
        raise NotOffered(f"POST /v1/runs is {answer.status}, and discovery advertises nothing that runs")


def _bad_body(host: Host) -> None:
    _find_runs(host)
    for body in TYPED:
        refused_as(_post(host, body), 400, f"POST /v1/runs with the body {body[:24]!r}")
    for tags in (["x"] * 101, ["x" * 257]):
        refused_as(_post(host, {"tags": tags}), 400, "POST /v1/runs with too many or too long tags")


def _mode(host: Host) -> None:
    _find_runs(host)
    for mode in ("train", "", "EVAL"):
        _refused(host, {"mode": mode}, f"the mode {mode!r}")
    _refused(host, {}, "no mode and no workflow")
    _refused(host, {"workflowId": "a-workflow-that-nobody-has"}, "an unknown workflow", (400, 404))


def _order(host: Host) -> None:
    """Each request has two mistakes. The earlier one gives the answer."""
    good = _plain(host)
    expect_status(_post(host, b'{"what":1}', key=""), 401, "POST /v1/runs without a key and with a bad body")
    expect_status(_post(host, {"mode": "train", "what": 1}), 400, "POST /v1/runs with a bad body and mode")
    order = [
        ("evalSuiteRef", {"mode": "eval", "agentId": "local.conform.nobody"}),
        ("agentId", good | {"agentId": "local.conform.nobody", "evalSuiteRef": "local.conform.evals.none"}),
        ("evalSuiteRef", good | {"evalSuiteRef": "local.conform.evals.none", "configurable": {"evalModes": ["vibes"]}}),
        ("agentId", request(host, suite_ref(host, "other-agent"), evalModes=["vibes"])),
        ("configurable.evalModes", request(host, suite_ref(host, "plain"), evalModes=["vibes"], baselineRunId=NO_RUN)),
    ]  # fmt: skip
    for field, body in order:
        found = _refused(host, body, f"two mistakes, the first in {field}").get("field", field)
        expect(found == field, f"POST /v1/runs with two mistakes: expected {field} first, got {shown(found)}")


def _unknown_agent(host: Host) -> None:
    for agent in ("local.conform.nobody", "x" * 300, "../agent"):
        _refused(host, _plain(host) | {"agentId": agent}, "an unknown agent")
    body = _plain(host)
    del body["agentId"]
    _refused(host, body, "no agent")


def _unknown_suite(host: Host) -> None:
    good = _plain(host)
    for ref in ("local.conform.evals.none", "local.conform.evals.plain@9.9.9", "inline:{}", "file:///etc/passwd",
                f"{host.address}/suite.json", "pack:a.b@1.0.0/evals/x.json", "../suite.json"):  # fmt: skip
        _refused(host, good | {"evalSuiteRef": ref}, f"the suite {ref}")


def _target(host: Host) -> None:
    ref = suite_ref(host, "other-agent")
    _refused(host, request(host, ref), "a suite for another agent")
    answer = _post(host, request(host, ref, allowTargetMismatch=True))
    expect_status(answer, 201, "POST /v1/runs with allowTargetMismatch")
    created(host, document_of(answer, "POST /v1/runs"))


def _models(host: Host) -> None:
    _refused(host, request(host, suite_ref(host, "models")), "a suite for agents that code")


def _modes(host: Host) -> None:
    for modes in ([], ["vibes"], ["golden", "vibes"], ["rubric"]):
        _refused(host, _plain(host, evalModes=modes), f"the modes {modes}")


def _baseline(host: Host) -> None:
    other = ran(host, "other", evalModes=["golden"]).id
    for baseline in (None, NO_RUN, other):
        more = {} if baseline is None else {"baselineRunId": baseline}
        _refused(host, _plain(host, evalModes=["regression"], **more), f"the baseline {baseline}")
    good = ran(host, "plain", evalModes=["golden"]).id
    later = suite_ref(host, "later").replace("later", "plain")
    drift = {"evalModes": ["regression"], "baselineRunId": good}
    _refused(host, request(host, later, **drift), "a baseline of another suite version")
    answer = _post(host, request(host, later, **drift, allowSuiteVersionDrift=True))
    expect_status(answer, 201, "POST /v1/runs with allowSuiteVersionDrift")
    created(host, document_of(answer, "POST /v1/runs"))


def _accepted(host: Host) -> None:
    answer = _post(host, _plain(host, evalModes=["golden"]) | {"tags": ["conform"], "metadata": {"x": 1}})
    expect_status(answer, 201, "POST /v1/runs")
    body = document_of(answer, "POST /v1/runs")
    created(host, body)
    for name in ("status", "eventsUrl"):
        expect(isinstance(body.get(name), str), f"POST /v1/runs: {name}: expected a text")


def _key(host: Host) -> tuple[Document, dict[str, str]]:
    return _plain(host, evalModes=["golden"]), {"Idempotency-Key": f"conform-{secrets.token_hex(8)}"}


def _same_key(host: Host) -> None:
    body, headers = _key(host)
    first, again = (_post(host, body, headers=headers) for _ in range(2))
    runs = [created(host, document_of(one, "POST /v1/runs")) for one in (first, again)]
    expect_status(again, (200, 201), "POST /v1/runs again with its Idempotency-Key")
    expect(runs[0] == runs[1], "POST /v1/runs again with its Idempotency-Key: another run")
    replays = [one.headers.get("openwop-idempotent-replay") for one in (first, again)]
    expect(replays == [None, "true"], f"openwop-Idempotent-Replay: expected none, then true; got {replays}")


def _other_body(host: Host) -> None:
    body, headers = _key(host)
    created(host, document_of(_post(host, body, headers=headers), "POST /v1/runs"))
    what = "POST /v1/runs with another body and its Idempotency-Key"
    found = refused_as(_post(host, body | {"tags": ["other"]}, headers=headers), 409, what)
    expect("runId" not in found, f"{what}: the answer names a run")


def _one_winner(host: Host) -> None:
    body, headers = _key(host)
    answers = at_once(lambda _: _post(host, body, headers=headers), range(PARALLEL))
    done = [document_of(one, "POST /v1/runs") for one in answers if one.status in (200, 201)]
    expect(done, "POST /v1/runs at once with one Idempotency-Key: no request was carried out")
    runs = {created(host, one) for one in done}
    expect(len(runs) == 1, f"POST /v1/runs at once with one Idempotency-Key: {len(runs)} runs")
    rest = {one.status for one in answers} - {200, 201, 409}
    expect(not rest, f"POST /v1/runs at once with one Idempotency-Key: the statuses {sorted(rest)}")


def _key_of_tenant(host: Host) -> None:
    """Two tenants choose one key. Each has an answer of its own."""
    capability(host, "agents.evalSuite")
    other, (body, headers) = host.other_key, _key(host)
    run = created(host, document_of(_post(host, body, headers=headers), "POST /v1/runs"))
    store_suite(host, suite_document("plain"), key=other)
    answer = _post(host, body, headers=headers, key=other)
    what = "POST /v1/runs with the Idempotency-Key of another tenant"
    expect_status(answer, 201, what)
    found = str(document_of(answer, what).get("runId"))
    expect(
        found != run and "openwop-idempotent-replay" not in answer.headers, f"{what}: the run of the other"
    )
    host.send("POST", run_path(found, "/cancel"), {}, key=other)


CREATION_CHECKS = [
    row("auth.needs-key", "2.1", "Every read and every create needs a valid key.", "Reads, a cancel and a create without a key and with wrong ones.", "401.", _needs_key),
    row("auth.hides-existence", "2.1", "An answer without a key does not tell whether a run exists.", "Reads of a run of ours and of an unknown one, without a key.", "Equal answers.", _hides_existence),
    row("errors.body", "0.3", "An error is {error, message, details?} and nothing else.", "Five requests that are refused.", "4xx with such a body; error is in snake case.", _error_body),
    row("ids.unknown", "2.2", "A run that does not exist is not found.", "Reads and a cancel of an id that nobody gave.", "404 with an error body.", _unknown_run),
    row("ids.malformed", "0.7", "An id that is no id is not found, and breaks nothing.", f"GET /v1/runs/{{runId}} with {len(STRANGE)} ids such as ../../etc/passwd.", "404 or 400.", _malformed_run),
    row("ids.foreign", "2.2", "A run of another tenant is answered as one that does not exist.", "Every read, a cancel and a fork, with the key of another tenant.", "The answers to an id that nobody gave.", _foreign_run),
    row("ids.foreign-reference", "2.2", "A run of another tenant as a baseline is unknown.", "A create with such a baseline.", "The answer to an id that nobody gave.", _foreign_reference),
    row("create.tenant", "2.2", "The tenant comes from the key; another one in the body is refused.", "A create with another tenantId.", "403.", _body_tenant),
    row("create.body", "3.2", "A body that is no request is refused.", f"POST /v1/runs with {len(TYPED)} bodies: cut, empty, of other types, with unknown members; and tags.", "400.", _bad_body),
    row("create.mode", "3.2", "The only mode of a run is eval.", "Other modes, no mode and no workflow, an unknown workflow.", "400.", _mode),
    row("create.order", "3.2", "Of two mistakes the earlier step gives the answer.", "Requests with two mistakes each.", "The status of the first, and details.field of the first if it is there.", _order),
    row("create.unknown-agent", "3.2", "An agent that does not exist is refused.", "A create with unknown agents, and without one.", "400.", _unknown_agent),
    row("create.unknown-suite", "7.4", "A suite that cannot be resolved is refused; an address is never fetched.", "A create with unknown suites, addresses and paths.", "400.", _unknown_suite),
    row("create.target", "3.2", "A suite for another agent is refused unless the request allows it.", "A create with a suite whose targetAgentId is another.", "400; 201 with allowTargetMismatch.", _target),
    row("create.models", "3.2", "An agent of a model class that the suite does not allow is refused.", "A create with a suite for coding agents.", "400.", _models),
    row("create.modes", "3.2", "A mode that the suite or the host does not have is refused.", "evalModes that are empty, unknown, or not of the suite.", "400.", _modes),
    row("create.baseline", "3.2", "A baseline is a completed run of the same suite and version.", "Regression without a baseline, with an unknown one, of another suite, of another version.", "400; 201 with allowSuiteVersionDrift.", _baseline),
    row("create.accepted", "3.1", "A good request creates a run.", "POST /v1/runs with tags and metadata.", "201 with runId, status and eventsUrl.", _accepted),
    row("idempotency.same", "3.6", "The same key and content give the first answer.", "One create twice.", "One run; openwop-Idempotent-Replay only the second time.", _same_key),
    row("idempotency.other", "3.6", "The same key with other content is refused.", "Two creates with one Idempotency-Key.", "409 without a runId.", _other_body),
    row("idempotency.at-once", "3.6", "Requests at once with one key make one run.", f"One create {PARALLEL} times at once.", "One run; the others have its answer or 409.", _one_winner),
    row("idempotency.tenants", "3.6", "A key counts for one tenant.", "One create with the keys of two tenants.", "No answer of the other.", _key_of_tenant),
]  # fmt: skip
