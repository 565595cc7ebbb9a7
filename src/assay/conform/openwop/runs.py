"""Runs that the checks start: agent evals of the suites of conformance/openwop, and workflows."""

import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from assay.conform.check import ABSENT, Failed, Host, NotTried, document_of, expect, expect_status
from assay.conform.json_values import Document, is_object, list_in, object_in, objects_in
from assay.conform.openwop.surface import capability, run_path

SUITES = "/v1/host/assay/suites"  # of a host that stores suites over HTTP as assay does
LONGEST = 30.0  # seconds of a run
ENDED = ("completed", "failed", "cancelled")
SUSPENDED = ("waiting-approval", "waiting-input", "waiting-external", "paused")
STATUSES = (*ENDED, *SUSPENDED, "pending", "running", "cancelling")
PAGES = 1000  # of a log
INPUTS: dict[str, Document] = {
    "conformance-identity": {"payload": {"x": [1, "y"]}}
}  # of workflows that need some


class EvalRun(NamedTuple):
    """An agent eval that has ended. `suite` is None if its content is not known here."""

    id: str
    snapshot: Document
    events: list[Document]
    suite: Document | None

    @property
    def summary(self) -> Document:
        return object_in(self.snapshot, "outputs")

    def payloads(self, type: str) -> list[Document]:
        return payloads(self.events, type)


def payloads(events: list[Document], type: str) -> list[Document]:
    """The payloads of the events of a type."""
    return [object_in(event, "payload") for event in events if event.get("type") == type]


def suite_document(name: str) -> Document:
    """A suite of conformance/openwop."""
    return msgspec.json.decode((files("assay.conform") / "openwop_suites" / f"{name}.json").read_bytes())


def suite_ref(host: Host, name: str) -> str:
    """
    The reference of a suite of conformance/openwop at this host, which stores it if it can.

    NotTried: another suite was named, or the key may not store one.
    """
    if host.suite is not None:
        raise NotTried(f"it needs the suite {name} of conformance/openwop; --suite names another")
    return host.once(f"suite {name}", lambda: store_suite(host, suite_document(name)))


def store_suite(host: Host, document: Document, *, key: str | None = None) -> str:
    """The reference of this suite at the host. A host without a route for suites may have it already."""
    answer = host.send("POST", SUITES, document, key=key)
    if answer.status in (401, 403):
        raise NotTried(f"POST {SUITES}: the key is refused with {answer.status}")
    if answer.status not in ABSENT:
        expect_status(answer, (200, 201), f"POST {SUITES}")
    return f"{document['suiteId']}@{document['version']}"


def request(host: Host, ref: str, **configurable: Any) -> Document:
    """A request for an eval run."""
    capability(host, "agents.evalSuite")
    body: Document = {"mode": "eval", "evalSuiteRef": ref, "agentId": host.agent}
    return body | ({"configurable": configurable} if configurable else {})


def start(host: Host, body: Document, *, key: str | None = None) -> str:
    """The id of a run that was just created. Failed: the host refused it."""
    answer = host.send("POST", "/v1/runs", body, key=key)
    if answer.status in (401, 403):
        raise NotTried(f"POST /v1/runs: the key is refused with {answer.status}")
    expect_status(answer, 201, f"POST /v1/runs for {body.get('evalSuiteRef') or body.get('workflowId')}")
    return created(host, document_of(answer, "POST /v1/runs"))


def created(host: Host, document: Document) -> str:
    """The id in the answer to a create, remembered so that the run is deleted at the end."""
    run = document.get("runId")
    if not isinstance(run, str) or not run:
        raise Failed("POST /v1/runs: expected a text in runId")
    host.made.append(run_path(run).replace("/v1/runs", "/v1/host/assay/runs"))
    return run


def snapshot(host: Host, run: str) -> Document:
    """What GET /v1/runs/{runId} returns, with a status that the contract knows."""
    answer = host.send("GET", run_path(run))
    expect_status(answer, 200, f"GET {run_path(run)}")
    document = document_of(answer, f"GET {run_path(run)}")
    if document.get("status") not in STATUSES:
        raise Failed(f"GET {run_path(run)}: status: expected one of {', '.join(STATUSES)}")
    return document


def wait_until(host: Host, run: str, reached: Callable[[Document], bool], what: str) -> Document:
    """The first snapshot of which this is true. Failed: the run did not come there in time."""
    end, pause = time.monotonic() + LONGEST, 0.03
    while not reached(found := snapshot(host, run)):
        if time.monotonic() > end:
            raise Failed(f"{run}: not {what} after {LONGEST:g} seconds, but {found.get('status')}")
        time.sleep(pause)
        pause = min(0.25, pause * 1.5)
    return found


def wait_for_end(host: Host, run: str) -> Document:
    return wait_until(host, run, lambda one: one["status"] in ENDED, "at an end")


def wait_for_rest(host: Host, run: str) -> Document:
    """The snapshot once the run has ended or waits for a person."""
    return wait_until(host, run, lambda one: one["status"] in (*ENDED, *SUSPENDED), "at rest")


def log(host: Host, run: str, *, status: str = "completed") -> list[Document]:
    """
    The events of a run of that status, from pages. A run that goes on has one: an empty one would wait for more.

    Failed: the pages do not end, or have something else.
    """
    if status not in ENDED:
        return poll(host, run, -1)
    events: list[Document] = []
    after = -1
    for _ in range(PAGES):
        page = poll(host, run, after)
        events += page
        if not page:
            return events
        last = page[-1].get("sequence")
        expect(
            isinstance(last, int) and last > after, f"{run}: a page of events does not go on after {after}"
        )
        after = int(page[-1]["sequence"])
    raise Failed(f"{run}: {PAGES} pages of events and no end")


def poll(host: Host, run: str, after: int) -> list[Document]:
    """The events of one page after a sequence."""
    path = run_path(run, f"/events/poll?lastSequence={after}&timeout=1")
    answer = host.send("GET", path)
    expect_status(answer, 200, f"GET {path}")
    document = document_of(answer, f"GET {path}")
    expect("events" in document, f"GET {path}: expected a list in events")
    found = list_in(document, "events")
    expect(all(is_object(one) for one in found), f"GET {path}: expected objects in events")
    return objects_in(document, "events")


def ran(host: Host, name: str, **configurable: Any) -> EvalRun:
    """The run of a suite of conformance/openwop, which has ended. It is started once for all checks."""
    run = started_run(host, name, **configurable)
    return host.once(f"ended {run}", lambda: _ended(host, run, suite_document(name)))


def started_run(host: Host, name: str, **configurable: Any) -> str:
    """The id of such a run, which may go on."""

    def begin() -> str:
        capability(host, "agents.evalSuite")
        return start(host, request(host, suite_ref(host, name), **configurable))

    return host.once(f"run {name} {sorted(configurable.items())}", begin)


def any_run(host: Host) -> EvalRun:
    """A run of the suite that was named, or of `plain`."""
    if host.suite is None:
        return ran(host, "plain", evalModes=["golden"])

    def make() -> EvalRun:
        run = start(host, request(host, host.suite or ""))
        return _ended(host, run, None)

    return host.once("any run", make)


def _ended(host: Host, run: str, suite: Document | None) -> EvalRun:
    return EvalRun(run, wait_for_end(host, run), log(host, run), suite)


def workflow(host: Host, id: str, inputs: Document | None = None, **configurable: Any) -> str:
    """The id of a new run of a workflow."""
    body = workflow_request(id) | ({} if inputs is None else {"inputs": inputs})
    return start(host, body | ({"configurable": configurable} if configurable else {}))


def workflow_request(id: str) -> Document:
    """A request for a run of a workflow, with the inputs that it needs."""
    return {"workflowId": id} | ({"inputs": INPUTS[id]} if id in INPUTS else {})


def frames(host: Host, run: str, query: str = "", after: int | None = None) -> list[Document]:
    """The frames of the stream of a run that has ended: id, event and data."""
    headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
    path = run_path(run, f"/events{query}")
    answer = host.send("GET", path, headers=headers)
    expect_status(answer, 200, f"GET {path} as a stream")
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    expect(kind == "text/event-stream", f"GET {path}: expected text/event-stream, got {kind or 'no type'}")
    return list(_frames(answer.body.decode(errors="replace"), path))


def _frames(text: str, path: str) -> Iterator[Document]:
    for block in text.replace("\r\n", "\n").split("\n\n"):
        parts = [line.partition(": ") for line in block.splitlines() if line and line[0] != ":"]
        fields = {name: value for name, _, value in parts}
        if "data" in fields:
            try:
                data = msgspec.json.decode(fields["data"])
            except msgspec.MsgspecError:
                raise Failed(f"GET {path}: a frame has no JSON") from None
            yield {"id": fields.get("id"), "event": fields.get("event"), "data": data}
