"""Cancels of runs: at any moment, twice, of runs that have ended, of many at once."""

from functools import partial

from assay.conform.check import Failed, Host, at_once, document_of, expect, expect_status, refused_as
from assay.conform.json_values import Document, object_in, objects_in, same, shown
from assay.conform.openwop.event_laws import EVENT_LAWS
from assay.conform.openwop.runs import (
    any_run,
    log,
    poll,
    request,
    start,
    suite_ref,
    wait_for_end,
    wait_for_rest,
    workflow_request,
)
from assay.conform.openwop.surface import NO_RUN, fixtures, row, run_path
from assay.conform.openwop.workflow_checks import SLOW

CLOSING = {"terminal", "brackets", "order", "tools-paired", "sequence"}
SECONDS = 20  # that a log may take to have some events
WORKERS = 4  # runs at the same time


def _cancelled(host: Host, run: str) -> list[Document]:
    """Cancel a run, and check what must come of it."""
    path = run_path(run, "/cancel")
    answer = host.send("POST", path, {"reason": "conform"})
    expect_status(answer, 200, f"POST {path}")
    found = document_of(answer, f"POST {path}")
    expect(
        found.get("status") in ("cancelled", "cancelling"), f"POST {path}: got {shown(found.get('status'))}"
    )
    shot = wait_for_end(host, run)
    expect(shot["status"] == "cancelled", f"a cancelled run: got {shot['status']}")
    events = log(host, run)
    for law in (one for one in EVENT_LAWS if one.name in CLOSING):
        for problem in law.find(events, "cancelled"):
            raise Failed(f"a cancelled run: {problem}")
    return events


def _cancel(host: Host) -> None:
    run = start(host, request(host, suite_ref(host, "slow"), evalModes=["golden"]))
    events = _cancelled(host, run)
    scored = [one for one in events if one.get("type") == "eval.scored"]
    expect(not scored, "a trial that was cut off has an eval.scored")
    again = host.send("POST", run_path(run, "/cancel"), {})
    expect_status(again, 200, "a second cancel")
    status = document_of(again, "a second cancel").get("status")
    expect(status == "cancelled", f"a second cancel: expected cancelled, got {shown(status)}")
    expect(same(log(host, run), events), "a second cancel changed the log")


def _after_each(host: Host) -> None:
    """
    Runs that are cancelled once their log has so many events: as many as there are before the last task, which waits.

    Each is read again when the others have been cancelled: nothing may follow.
    """
    body = request(host, suite_ref(host, "steps"), evalModes=["golden"])
    first = start(host, body)
    events = _until(host, first, "eval.scored", 2)
    _cancelled(host, first)
    ended = [(first, log(host, first, status="cancelled"))]

    def cancelled_after(many: int) -> tuple[str, list[Document]]:
        run = start(host, body)
        _until(host, run, "", many)
        return run, _cancelled(host, run)

    ended += at_once(cancelled_after, range(1, len(events) + 1), WORKERS)
    for run, events in ended:
        expect(
            same(log(host, run, status="cancelled"), events), "an event follows the end of a cancelled run"
        )


def _until(host: Host, run: str, type: str, many: int) -> list[Document]:
    """The log of a run that goes on, once it has so many events of a type that begins so."""
    events: list[Document] = []
    for _ in range(SECONDS):  # a poll waits for a second
        events += poll(host, run, len(events) - 1)
        if sum(str(one.get("type")).startswith(type) for one in events) >= many:
            return events
    raise Failed(f"{run}: not {many} events {type} after {SECONDS} seconds")


def _workflows(host: Host) -> None:
    """Every workflow, cancelled at once, and every one that waits, cancelled while it waits."""
    ids = fixtures(host)
    ended = at_once(
        partial(_stopped, host), [(id, at_rest) for id in ids for at_rest in (False, True)], WORKERS
    )
    for run, events, status in filter(None, ended):
        expect(same(log(host, run, status=status), events), "an event follows the end of a cancelled run")


def _stopped(host: Host, how: tuple[str, bool]) -> tuple[str, list[Document], str] | None:
    """The log of a workflow that was cancelled, or had ended before. None: it waits for a time, not for a person."""
    id, at_rest = how
    if at_rest and id.removeprefix("conformance-") in SLOW:
        return None
    run = start(host, workflow_request(id))
    if at_rest:
        wait_for_rest(host, run)
    answer = host.send("POST", run_path(run, "/cancel"), {})
    expect_status(answer, 200, f"a cancel of {id}")
    status = str(wait_for_end(host, run)["status"])
    events = log(host, run, status=status)
    for law in (one for one in EVENT_LAWS if one.name in CLOSING - {"order"}):
        for problem in law.find(events, status):
            raise Failed(f"a cancel of {id}: {problem}")
    return run, events, status


def _cancel_ended(host: Host) -> None:
    run = any_run(host)
    answer = host.send("POST", run_path(run.id, "/cancel"), {})
    expect_status(answer, 200, "a cancel of a run that has ended")
    status = document_of(answer, "a cancel of a run that has ended").get("status")
    expect(status == run.snapshot["status"], f"a cancel of a run that has ended: got {shown(status)}")
    expect(same(log(host, run.id), run.events), "a cancel of a run that has ended changed its log")


def _bulk(host: Host) -> None:
    run = any_run(host).id
    answer = host.send("POST", "/v1/runs:bulk-cancel", {"runIds": [run, NO_RUN]})
    expect_status(answer, 200, "POST /v1/runs:bulk-cancel")
    rows = objects_in(document_of(answer, "POST /v1/runs:bulk-cancel"), "results")
    expect(
        [one.get("runId") for one in rows] == [run, NO_RUN], "results: expected one for each run, in order"
    )
    expect([one.get("ok") for one in rows] == [True, False], "results: ok: expected true for ours alone")
    code = object_in(rows[1], "error").get("code")
    expect(code == "not_found", f"results: an unknown run: expected not_found, got {shown(code)}")
    full = [f"{NO_RUN[:-3]}{at:03}" for at in range(100)]
    most = host.send("POST", "/v1/runs:bulk-cancel", {"runIds": full})
    expect_status(most, 200, "a bulk cancel of 100")
    many = len(objects_in(document_of(most, "a bulk cancel of 100"), "results"))
    expect(many == 100, f"a bulk cancel of 100: expected 100 results, got {many}")
    for ids in ([], [*full, NO_RUN]):
        refused_as(
            host.send("POST", "/v1/runs:bulk-cancel", {"runIds": ids}), 400, f"a bulk cancel of {len(ids)}"
        )


CANCEL_CHECKS = [
    row("cancel.ends", "3.5", "A cancel ends the run with one run.cancelled; a trial that is cut off has no score.", "A cancel of a slow run, twice.", "200; one last event; closed brackets; the second changes nothing.", _cancel),
    row("cancel.after-each-event", "3.5", "A cancel at any moment closes every bracket, and nothing follows.", "Runs that are cancelled after 1 event, after 2, and so on up to the last one before a task that waits.", "Logs that keep the laws, and are the same when they are read again.", _after_each),
    row("cancel.workflows", "3.5", "A cancel of a workflow ends it with one event, and nothing follows.", "Each advertised fixture, cancelled at once, and again while it waits for a person.", "Logs that keep the laws, and are the same when they are read again.", _workflows),
    row("cancel.ended", "3.5", "A cancel of a run that has ended changes nothing.", "A cancel of a completed run.", "200 with its status.", _cancel_ended),
    row("cancel.bulk", "3.5", "A bulk cancel answers for each of up to 100 runs.", "A bulk cancel of our run and an unknown one, of 100, of none and of 101.", "Results in order; not_found; 400.", _bulk),
]  # fmt: skip
