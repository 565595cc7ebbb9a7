"""`assay run --server`: the same on another host: put the suite there, start, follow, report."""

import secrets
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.detail import EvalDetail
from assay.api.suites import suite_from
from assay.cli import scorecard
from assay.cli.exporting import Export
from assay.cli.remote import HostClient
from assay.cli.say import say, tell
from assay.cli.wanted import BROKEN, NOT_PASSED, PASSED, RunOptions, compares
from assay.cli.watching import RunProgress
from assay.errors import EnvironmentFailure, UsageError
from assay.protocol.runs import EventPage, ForkCreated, RunCreated
from assay.protocol.scorecard import EvalSummary
from assay.settings import Settings

_created = msgspec.json.Decoder(RunCreated).decode
_forked = msgspec.json.Decoder(ForkCreated).decode
_page = msgspec.json.Decoder(EventPage).decode
_detail = msgspec.json.Decoder(EvalDetail).decode
_summary = msgspec.json.Decoder(EvalSummary).decode


def run_remote(wanted: RunOptions, settings: Settings) -> int:
    assert wanted.server is not None
    _sensible(wanted)
    host = HostClient(wanted.server, wanted.key_file)
    run = _begun(wanted, settings, host) if wanted.resume is None else _resumed(host, wanted.resume)
    _watched(host, run, quiet=wanted.json)
    return _told(wanted, host, run)


def _sensible(wanted: RunOptions) -> None:
    for name, value in (
        ("concurrency", wanted.concurrency),
        ("timeout", wanted.timeout),
    ):
        if value is not None:
            raise UsageError(f"--{name} is the server's own: give none with --server")


def _begun(wanted: RunOptions, settings: Settings, host: HostClient) -> str:
    assert wanted.suite is not None
    suite = suite_from(wanted.suite, settings)
    if wanted.baseline is not None:
        compares(wanted.modes or suite.modes)
    host.ask("POST", "/v1/host/assay/suites", suite)
    said: dict[str, Any] = {"trials": wanted.trials} if wanted.trials != 1 else {}
    said |= {} if wanted.modes is None else {"evalModes": list(wanted.modes)}
    said |= {} if wanted.judge is None else {"judge": wanted.judge}
    said |= {} if wanted.model is None else {"model": wanted.model}
    said |= {"allowTargetMismatch": True} if wanted.any_agent else {}
    if wanted.baseline is not None:
        said["baselineRunId"] = _found(host, wanted.baseline, suite.suite_id)
    body: dict[str, Any] = {
        "mode": "eval",
        "evalSuiteRef": f"{suite.suite_id}@{suite.version}",
        "agentId": wanted.agent,
        "configurable": said,
        "tags": list(wanted.tags),
    }
    once = {"Idempotency-Key": secrets.token_hex(16)}
    try:
        return _created(host.ask("POST", "/v1/runs", body, **once)).run_id
    except KeyboardInterrupt:
        there = f"{host.address}/v1/host/assay/runs lists it"
        raise EnvironmentFailure(
            f"interrupted while it was being started: if it has begun, {there}"
        ) from None


def _found(host: HostClient, which: str, suite: str | None = None) -> str:
    """A run by its id, or the latest."""
    if which != "latest":
        return which
    query = "mode=eval&page_size=1" + (f"&workflowId={suite}&status=completed" if suite else "")
    runs = msgspec.json.decode(host.ask("GET", f"/v1/host/assay/runs?{query}"))["runs"]
    if not runs:
        raise UsageError(f"{host.address}: there is no eval run yet")
    return runs[0]["runId"]


def _resumed(host: HostClient, which: str) -> str:
    """What has a score is kept, and the rest is done."""
    source = _found(host, which)
    page = _page(host.ask("GET", f"/v1/runs/{source}/events/poll?timeout=1&lastSequence=999999999"))
    if page.run_status == "completed":
        raise UsageError(f"{source} is completed: there is nothing to resume")
    body = {"mode": "branch", "fromSeq": page.last_event_seq}
    return _forked(host.ask("POST", f"/v1/runs/{source}:fork", body)).run_id


def _watched(host: HostClient, run: str, *, quiet: bool) -> None:
    """To its end, or to the end that Ctrl-C makes of it."""
    watch: RunProgress | None = None
    try:
        for told in host.follow(run):
            if told.type == "eval.started":
                watch = RunProgress(told.document["payload"]["taskCount"], quiet=quiet)
            elif watch is not None:
                watch.see(told.type, msgspec.json.encode(told.document["payload"]))
    except KeyboardInterrupt:
        if watch is not None:
            watch.clear()
        say("cancelling: what is under way is kept as far as it came")
        _cancelled(host, run)
    finally:
        if watch is not None:
            watch.clear()


def _cancelled(host: HostClient, run: str) -> None:
    """Once it has stopped; it may have ended before, and then it stays what it is."""
    try:
        host.ask("POST", f"/v1/runs/{run}/cancel", {"reason": "interrupted"})
    except UsageError as refused:
        say(str(refused))
    except EnvironmentFailure as broken:
        again = f"curl -X POST {host.address}/v1/runs/{run}/cancel with the key"
        raise EnvironmentFailure(
            f"{broken}; run {run} was not cancelled and may go on there: {again} cancels it"
        ) from None
    for _ in host.follow(run):
        pass


def _told(wanted: RunOptions, host: HostClient, run: str) -> int:
    path = f"/v1/host/assay/runs/{run}/eval-report"
    card = _detail(host.ask("GET", f"{path}?limit=0"))
    summary = None
    if card.status == "completed":
        summary = _summary(host.ask("GET", f"/v1/runs/{run}/eval-summary"))
    for name in wanted.to:
        if not name.endswith(".json"):
            _exported(name, host.lines(path), card)
        elif summary is None:
            say(f"{name}: the run {card.status}, so there is no scorecard to write")
        else:
            scorecard.write(name, summary)
    if wanted.json:
        scorecard.print_json(card, summary)
    else:
        scorecard.display(card, f"look further: {host.address}{path}")
        for name in wanted.to:
            tell(f"written to {name}")
    if summary is None:
        return BROKEN
    return PASSED if summary.passed else NOT_PASSED


def _exported(name: str, lines: Iterator[bytes], card: EvalDetail) -> None:
    files = Export([name])
    for line in lines:
        files.add(line)
    ended = None if card.ended_at is UNSET else card.ended_at
    files.close(card.run_id, card.status, card.started_at, ended)
