"""Discovery that tells the truth: what it has works, what it leaves out is refused, limits are limits."""

from functools import partial
from typing import Any

from assay.conform.check import (
    ABSENT,
    Failed,
    Host,
    NotOffered,
    NotTried,
    at_once,
    document_of,
    expect,
    expect_status,
)
from assay.conform.json_values import Document, is_list, is_object, object_in, same, shown
from assay.conform.openwop.runs import (
    any_run,
    created,
    ran,
    request,
    snapshot,
    start,
    started_run,
    store_suite,
    suite_document,
    suite_ref,
    wait_for_rest,
    workflow_request,
)
from assay.conform.openwop.surface import (
    DISCOVERY,
    NO_RUN,
    advertises,
    capability,
    discovery,
    fixtures,
    row,
    run_path,
)

MODES = ("golden", "rubric", "adversarial", "regression", "live-shadow")
STATES = ("draft", "test", "staged", "active", "paused", "deprecated", "rolled-back")
WORKERS = 4  # runs at the same time
LARGEST_SUITE = 20_000  # tasks that a check sends
LARGEST_BODY = 128 * 2**20
PHASES = {3: "crossHostCausation", 4: "replayDeterminism"}


def _is_count(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _open(host: Host) -> None:
    found = discovery(host)
    version = found.get("protocolVersion")
    expect(
        isinstance(version, str) and version.startswith("1."),
        f"protocolVersion: expected 1.x, got {shown(version)}",
    )
    envelopes = found.get("supportedEnvelopes")
    expect(
        is_list(envelopes) and all(isinstance(one, str) for one in envelopes),
        "supportedEnvelopes: expected texts",
    )
    expect(is_object(found.get("schemaVersions")), "schemaVersions: expected an object")
    for name in ("clarificationRounds", "schemaRounds", "envelopesPerTurn"):
        expect(_is_count(object_in(found, "limits").get(name)), f"limits.{name}: expected a whole number")


def _cache(host: Host) -> None:
    discovery(host)
    first, second = (host.send("GET", DISCOVERY, key="") for _ in range(2))
    expect(first.headers.get("cache-control"), f"GET {DISCOVERY}: expected the header Cache-Control")
    tag = first.headers.get("capabilities-etag")
    expect(tag != "", "Capabilities-Etag: expected a text")
    expect(tag == second.headers.get("capabilities-etag"), "Capabilities-Etag: two reads have two")
    if etag := first.headers.get("etag"):
        again = host.send("GET", DISCOVERY, key="", headers={"If-None-Match": etag})
        expect_status(again, 304, f"GET {DISCOVERY} with If-None-Match")
        expect(not again.body, f"GET {DISCOVERY}: expected no body with 304")


def _same_for_all(host: Host) -> None:
    _open(host)
    found = discovery(host)
    for key in (None, "not-a-key"):
        answer = host.send("GET", DISCOVERY, key=key)
        expect_status(answer, 200, f"GET {DISCOVERY} with a key")
        expect(same(document_of(answer, DISCOVERY), found), f"GET {DISCOVERY}: a key changes the document")


def _mirror(host: Host) -> None:
    found = discovery(host)
    if not is_object(found.get("capabilities")):
        raise NotOffered("discovery has no member capabilities")
    for name, value in object_in(found, "capabilities").items():
        expect(
            same(value, found.get(name)),
            f"capabilities.{name}: expected what {name} is at the root of the document",
        )


def _families(host: Host) -> None:
    _open(host)
    found = discovery(host)
    evals = object_in(object_in(found, "agents"), "evalSuite")
    modes = evals.get("modes", [])
    expect(is_list(modes), "agents.evalSuite.modes: expected a list")
    expect(
        all(one in MODES for one in modes) and len(modes) == len({*map(str, modes)}),
        f"agents.evalSuite.modes: expected different ones of {', '.join(MODES)}",
    )
    expect(
        _is_count(evals.get("maxTasksPerSuite", 1), 1),
        "agents.evalSuite.maxTasksPerSuite: expected at least 1",
    )
    states = object_in(object_in(found, "agents"), "deployment").get("states", [])
    expect(is_list(states) and all(one in STATES for one in states), "agents.deployment.states: unknown ones")
    model = object_in(object_in(found, "multiAgent"), "executionModel")
    if model:
        version = model.get("version")
        expect(
            _is_count(version, 1) and int(version or 0) <= 6,
            "multiAgent.executionModel.version: expected 1 to 6",
        )
        for phase, name in PHASES.items():
            expect(
                int(version or 0) < phase or object_in(model, name).get("supported") is True,
                f"multiAgent.executionModel: version {version} needs {name}",
            )


def modes_run(host: Host) -> None:
    for mode in capability(host, "agents.evalSuite").get("modes", []):
        more = {"baselineRunId": ran(host, "plain", evalModes=["golden"]).id} if mode == "regression" else {}
        run = ran(host, "judged" if mode == "rubric" else "plain", evalModes=[mode], **more)
        status = run.snapshot["status"]
        expect(status == "completed", f"the mode {mode}: expected a completed run, got {status}")
        (started,) = run.payloads("eval.started") or [{}]
        expect(started.get("modes") == [mode], f"the mode {mode}: eval.started has {started.get('modes')}")


def fixtures_start(host: Host) -> None:
    ids = fixtures(host)
    expect(len({*ids}) == len(ids), "fixtures: an id is there twice")
    at_once(partial(_start_fixture, host, None), ids, WORKERS)


def _fixtures_start_fresh(host: Host) -> None:
    """A tenant that has made nothing here, at least of workflows."""
    ids, key = fixtures(host), host.other_key
    at_once(partial(_start_fixture, host, key), ids, WORKERS)


def _start_fixture(host: Host, key: str | None, id: str) -> None:
    """Start a sample workflow with this key, or the main one, and clean up."""
    answer = host.send("POST", "/v1/runs", workflow_request(id), key=key)
    expect_status(answer, 201, f"POST /v1/runs with the fixture {id}")
    run = str(document_of(answer, "POST /v1/runs").get("runId"))
    shot = host.send("GET", run_path(run), key=key)
    expect_status(shot, 200, f"GET of a run of the fixture {id}")
    host.send("POST", run_path(run, "/cancel"), {}, key=key)
    host.send("DELETE", f"/v1/host/assay/runs/{run}", key=key)


def _limit_of_tasks(host: Host) -> None:
    most = capability(host, "agents.evalSuite").get("maxTasksPerSuite")
    if not isinstance(most, int):
        raise NotOffered("discovery has no maxTasksPerSuite")
    if most > LARGEST_SUITE:
        raise NotTried(f"{most} tasks are more than this check sends")
    if host.suite is not None:
        raise NotTried("it makes suites; --suite names one")
    for tasks, status in ((most, 201), (most + 1, 400)):
        task = suite_document("other")["tasks"][0]
        document = suite_document("other") | {
            "suiteId": f"local.conform.evals.of-{tasks}",
            "tasks": [task | {"taskId": f"t{at}"} for at in range(tasks)],
        }
        stored = host.send("POST", "/v1/host/assay/suites", document)
        if stored.status in ABSENT:
            raise NotTried("the host has no route for suites")
        if stored.status in (400, 413) and tasks > most:
            continue  # refused one step earlier
        ref = store_suite(host, document)
        answer = host.send("POST", "/v1/runs", request(host, ref, evalModes=["golden"]))
        expect_status(answer, status, f"POST /v1/runs with a suite of {tasks} tasks")
        if answer.status == 201:
            run = created(host, document_of(answer, "POST /v1/runs"))
            host.send("POST", run_path(run, "/cancel"), {})


def _limit_of_body(host: Host) -> None:
    most = object_in(discovery(host), "limits").get("maxRequestBodyBytes")
    if not isinstance(most, int):
        raise NotOffered("discovery has no limits.maxRequestBodyBytes")
    if most > LARGEST_BODY:
        raise NotTried(f"{most} bytes are more than this check sends")
    for size in (most, most + 1):
        body = b"{" + b" " * (size - 2) + b"}"
        answer = host.send("POST", "/v1/runs", body)
        expect(
            (answer.status == 413) == (size > most),
            f"a body of {size} bytes: expected {'413' if size > most else 'no 413'}, got {answer.status}",
        )


OPTIONS: tuple[tuple[str, list[Any], list[Any]], ...] = (
    ("trials", [1, 100], [0, 101, -1, 1.5, "3", True]),
    ("temperature", [0, 2], [-0.1, 2.1, "1"]),
    ("escalationThreshold", [0, 1], [-0.1, 1.1]),
    ("maxTokens", [1], [0, -1]),
    ("runTimeoutMs", [60_000], [0, -1]),
)


def _limits_of_options(host: Host) -> None:
    run = ran(host, "other", evalModes=["golden"])
    ref = run.snapshot.get("evalSuiteRef") or "local.conform.evals.other@1.0.0"
    for name, good, bad in OPTIONS:
        for value, status in [*((one, 201) for one in good), *((one, 400) for one in bad)]:
            answer = host.send(
                "POST", "/v1/runs", request(host, str(ref), **{"evalModes": ["golden"], name: value})
            )
            expect_status(answer, status, f"POST /v1/runs with configurable.{name} {shown(value)}")
            if answer.status == 201:
                made = created(host, document_of(answer, "POST /v1/runs"))
                host.send("POST", run_path(made, "/cancel"), {})


def _limits_of_requests(host: Host) -> None:
    """Each limit that the contract names, at the limit and beyond it."""
    run, text = any_run(host).id, "x" * 256
    rows: list[tuple[str, str, Any, int]] = [
        ("POST", "/v1/runs", {"tags": [text] * 100}, 201),
        ("POST", "/v1/runs", {"tags": [text] * 101}, 400),
        ("POST", "/v1/runs", {"tags": [text + "x"]}, 400),
        *(("GET", run_path(run, f"/events?streamMode=debug&bufferMs={n}"), None, 200) for n in (0, 5000)),
        *(("GET", run_path(run, f"/events?streamMode=debug&bufferMs={n}"), None, 400) for n in (-1, 5001)),
        *(("GET", run_path(run, f"/events/poll?timeout={n}"), None, 200) for n in (1, 60)),
        *(("GET", run_path(run, f"/events/poll?timeout={n}"), None, 400) for n in (0, 61)),
    ]
    if advertises(host, "feedback"):
        rating = run_path(run, "/annotations")
        for value, status in ((1, 201), (5, 201), (0, 400), (6, 400)):
            rows.append(("POST", rating, {"signal": {"kind": "rating", "rating": value}}, status))
    ref = host.suite or suite_ref(host, "plain")
    plain = request(host, ref) if host.suite else request(host, ref, evalModes=["golden"])
    for method, path, body, status in rows:
        answer = host.send(method, path, plain | body if path == "/v1/runs" else body)
        expect_status(answer, status, f"{method} {path} {shown(body)}")
        if path == "/v1/runs" and answer.status == 201:
            made = created(host, document_of(answer, "POST /v1/runs"))
            host.send("POST", run_path(made, "/cancel"), {})


def _unadvertised(host: Host) -> None:
    """What is refused if the host leaves it out. Something of it is left out on every host."""
    discovery(host)
    gone: list[tuple[str, str, str, Document | None, tuple[int, ...]]] = [
        ("agents.evalSuite", "POST", "/v1/runs", {"mode": "eval"}, (501,)),
        ("agents.evalSuite", "GET", run_path(NO_RUN, "/eval-summary"), None, (404,)),
        ("agents.manifestRuntime", "GET", "/v1/agents", None, (404, 405, 501)),
        (
            "feedback",
            "POST",
            run_path(NO_RUN, "/annotations"),
            {"signal": {"kind": "flag"}},
            (501,),
        ),
        ("feedback", "GET", run_path(NO_RUN, "/annotations"), None, (501,)),
        ("replay", "POST", run_path(NO_RUN, ":fork"), {"mode": "replay"}, (403, 404, 405, 501)),
        ("agents.deployment", "GET", "/v1/agents/local.x.y/deployments", None, (404, 405, 501)),
        (
            "agents.deployment",
            "POST",
            "/v1/agents/local.x.y/deployments",
            {"version": "1.0.0", "transition": "pause"},
            (404, 405, 501),
        ),
    ]
    for name, method, path, body, statuses in gone:
        if not advertises(host, name):
            expect_status(host.send(method, path, body), statuses, f"{method} {path} without {name}")
    if not object_in(discovery(host), "conformance").get("mockProvider"):
        body = {"workflowId": "conformance-noop", "configurable": {"mockProvider": {"id": "x"}}}
        expect_status(
            host.send("POST", "/v1/runs", body), (400, 403, 404), "POST /v1/runs with a mockProvider"
        )
    _unadvertised_modes(host)


def _unadvertised_modes(host: Host) -> None:
    if not advertises(host, "agents.evalSuite"):
        return
    modes = capability(host, "agents.evalSuite").get("modes", [])
    for mode in (one for one in MODES if one not in modes):
        if mode in ("golden", "adversarial", "regression", "live-shadow") and host.suite is None:
            started_run(host, "plain", evalModes=["golden"])
            body = request(host, "local.conform.evals.plain@1.0.0", evalModes=[mode])
            expect_status(
                host.send("POST", "/v1/runs", body), 400, f"POST /v1/runs with the mode {mode}, which is not"
            )


def _noop_completes(host: Host) -> None:
    ids = [id for id in ("conformance-noop", "conformance-multi-node") if id in fixtures(host)]
    if not ids:
        raise NotOffered("discovery advertises no fixture that ends by itself")
    for id in ids:
        status = wait_for_rest(host, start(host, workflow_request(id)))["status"]
        if status != "completed":
            raise Failed(f"the fixture {id}: expected completed, got {status}")


def _echo(host: Host) -> None:
    run = started_run(host, "plain", evalModes=["golden"])
    found = snapshot(host, run)
    expect(found.get("runId") == run, f"GET {run_path(run)}: runId is another")
    workflow = found.get("workflowId")
    expect(isinstance(workflow, str) and workflow, "workflowId: expected a text")


DISCOVERY_CHECKS = [
    row("discovery.open", "1.1", "Discovery needs no key and has the required members.", f"GET {DISCOVERY} without a key.", "200 with protocolVersion 1.x, supportedEnvelopes, schemaVersions and limits.", _open),
    row("discovery.cache", "1.1", "Discovery can be cached.", f"GET {DISCOVERY} twice, and with If-None-Match.", "Cache-Control; one Capabilities-Etag; 304 without a body.", _cache),
    row("discovery.same-for-all", "1.1", "Discovery is the same for all clients.", f"GET {DISCOVERY} with a key and with a wrong one.", "The document of a client without a key.", _same_for_all),
    row("discovery.mirror", "0.2", "A capability under `capabilities` is the one at the root.", f"GET {DISCOVERY}.", "Equal blocks.", _mirror),
    row("discovery.families", "1.1", "Modes, states and versions are of the protocol, and a version has what its phases need.", f"GET {DISCOVERY}.", "Known modes and states; a version from 1 to 6 with the blocks of its phases.", _families),
    row("discovery.modes-run", "0.4", "Each advertised mode completes a real run.", "An eval run in each mode.", "Runs that complete, with that mode in eval.started.", modes_run),
    row("discovery.fixtures-start", "1.1", "Each advertised fixture can be started.", "POST /v1/runs with each id.", "201 for each.", fixtures_start),
    row("discovery.fixtures-start-fresh", "1.1", "Each advertised fixture can be started by a tenant that has nothing yet.", "POST /v1/runs with each id and the key of another tenant.", "201 for each.", _fixtures_start_fresh),
    row("discovery.fixtures-end", "11", "Sample workflows that wait for nobody complete.", "conformance-noop and conformance-multi-node.", "Both complete.", _noop_completes),
    row("discovery.limit-of-tasks", "3.2", "A suite of the largest advertised size is accepted, and one task more is refused.", "Suites of maxTasksPerSuite tasks, and of one more.", "201, then 400.", _limit_of_tasks),
    row("discovery.limit-of-body", "1.1", "A body of the largest advertised size is read, and one byte more is refused.", "Bodies of maxRequestBodyBytes, and of one more.", "Any status but 413, then 413.", _limit_of_body),
    row("discovery.limits-of-options", "3.1", "Options of a run are accepted to their bounds, and refused beyond.", "Runs with trials 1, 100, 0, 101 and so on.", "201 within, 400 beyond.", _limits_of_options),
    row("discovery.limits-of-requests", "4.4", "Tags, buffers, waits and ratings are accepted to their bounds, and refused beyond.", "100 tags of 256 characters, bufferMs 5000, timeout 60 and a rating of 5, and one more of each.", "200 or 201 within, 400 beyond.", _limits_of_requests),
    row("discovery.unadvertised", "0.4", "A capability that is not advertised is refused.", "Requests for each one that discovery leaves out, and for test doubles.", "501 or 404, as for what never existed.", _unadvertised),
    row("runs.snapshot", "3.3", "A snapshot has the id of the run and a workflow.", "GET /v1/runs/{runId}.", "200 with runId and workflowId.", _echo),
]  # fmt: skip
