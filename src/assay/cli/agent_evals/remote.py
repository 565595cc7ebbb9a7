"""`assay run --server`: upload the suite to another host, start the run there, follow it and report it."""

import secrets
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.planning.run_header import KIND
from assay.agenteval.results.baseline import BaselineRun, compare, fits_regression
from assay.agenteval.results.detail import EvalDetail
from assay.agenteval.results.report import EvalReport
from assay.agenteval.suites.extension import not_here
from assay.api.pack_refs import is_reference
from assay.api.suites import suite_from
from assay.cli.agent_evals.run_progress import RunProgress
from assay.cli.agent_evals.run_setup import (
    RunOptions,
    check_baseline,
    note_no_baseline,
    show_comparison,
)
from assay.cli.agent_evals.selection import RECENT, TaskChoice, check_ids, check_run, chosen_tasks, no_run
from assay.cli.console.client import HostClient, NoRunYet
from assay.cli.console.console import echo, echo_err
from assay.cli.render import scorecard
from assay.cli.render.findings import exit_code
from assay.cli.render.result_export import ResultExport
from assay.comparison.eval_reports import compare_reports
from assay.errors import EnvironmentFailure, UsageError
from assay.ports import CLOSED
from assay.protocol.agent_evals import AgentEvalSuite, EvalSummary
from assay.protocol.runs import EventPage, ForkCreated, RunCreated
from assay.protocol.suite_extension import ExtendedSuite
from assay.settings import Settings

_created = msgspec.json.Decoder(RunCreated).decode
_forked = msgspec.json.Decoder(ForkCreated).decode
_page = msgspec.json.Decoder(EventPage).decode
_detail = msgspec.json.Decoder(EvalDetail).decode
_summary = msgspec.json.Decoder(EvalSummary).decode


def run_remote(options: RunOptions, settings: Settings) -> int:
    """Run the suite on the server. The result is the exit code."""
    assert options.server is not None
    _validate(options)
    host = HostClient(options.server, options.key_file)
    baseline = None
    if options.resume is None:
        run, baseline = _start(options, settings, host)
    else:
        run = _resume(host, options.resume)
    _follow(host, run, quiet=options.json)
    return _report(options, host, run, baseline)


def _validate(options: RunOptions) -> None:
    for name, value in (
        ("concurrency", options.concurrency),
        ("timeout", options.timeout),
    ):
        if value is not None:
            raise UsageError(f"--{name} and --server: expected one of them, got both; the server sets it")
    for name, value, what in (
        ("limit", options.limit, "a number of tasks"),
        ("max-cost", options.max_cost, "a limit of the cost"),
        ("fixtures", options.fixtures, "fixtures beside a suite"),
        ("record", options.record, "a recording"),
    ):
        if value is not None:
            raise UsageError(
                f"--{name} and --server: expected one of them, got both; the protocol has no member for {what}"
            )


def _start(options: RunOptions, settings: Settings, host: HostClient) -> tuple[str, BaselineRun | None]:
    """
    Start the run. The server compares if the baseline fits the mode `regression`; any other baseline is compared here.
    """
    assert options.suite is not None
    if is_reference(options.suite):
        return _start_reference(options, host), None
    suite = suite_from(options.suite, settings)
    if isinstance(suite, ExtendedSuite):
        (problem,) = not_here({"tasks": suite.extension.tasks})
        raise UsageError(f"--server: {options.suite}: {problem}")
    modes, baseline = options.modes or suite.modes, None
    if options.baseline is not None:
        baseline = _baseline(host, options.baseline, suite)
    if baseline is not None:
        check_baseline(baseline, suite, force=options.force)
    elif set(modes) != {"regression"}:  # the server refuses that, and says why
        note_no_baseline(suite, modes, options.baseline)
    regression = "regression" in modes and baseline is not None and fits_regression(baseline, suite, modes)
    if not regression:
        modes = tuple(mode for mode in modes if mode != "regression") or modes
    host.request("POST", "/v1/host/assay/suites", suite)
    configurable: dict[str, Any] = {} if modes == suite.modes else {"evalModes": list(modes)}
    if options.only:
        choice = _choose(options, host, suite)
        configurable |= {"tasks": list(choice.tasks), "failingIn": list(choice.failing_in)}
        regression = False  # a part of the tasks is compared beside the scorecard
    if regression and baseline is not None:
        configurable["baselineRunId"] = baseline.run_id
    return _create(options, host, f"{suite.suite_id}@{suite.version}", configurable), baseline


def _choose(options: RunOptions, host: HostClient, suite: AgentEvalSuite) -> TaskChoice:
    """The tasks of --only, by the runs of the suite there."""
    only, agent = options.only, options.agent or ""
    check_ids(only, suite)
    reports: list[EvalReport] = []
    for reference in only.runs:
        report = card_of(host, host.find_run(reference, kind=[KIND])).report
        check_run(reference, suite, report.suite_id, report.status)
        reports.append(report)
    ended = {"kind": [KIND], "name": suite.suite_id, "status": sorted(CLOSED)}
    for run in host.newest_runs(RECENT, ended) if only.latest else ():
        if run.get("agentId") == agent and "erasedAt" not in run:
            reports.append(card_of(host, run["runId"]).report)
            if not reports[-1].part:
                break
    if only.latest and not reports:
        raise no_run(suite, agent)
    return chosen_tasks(only, suite, reports)


def _start_reference(options: RunOptions, host: HostClient) -> str:
    """Start a run on a suite that the server has: an uploaded one, or one of a pack."""
    assert options.suite is not None
    if options.baseline is not None:
        raise UsageError("--baseline: expected SUITE as a file with --server, to compare the suites")
    if options.only:
        raise UsageError("--only: expected SUITE as a file with --server, to look up its tasks")
    modes = {} if options.modes is None else {"evalModes": list(options.modes)}
    return _create(options, host, options.suite, modes)


def _create(options: RunOptions, host: HostClient, suite_ref: str, configurable: dict[str, Any]) -> str:
    configurable |= {"trials": options.trials} if options.trials != 1 else {}
    configurable |= {} if options.judge is None else {"judge": options.judge}
    configurable |= {} if options.model is None else {"model": options.model}
    configurable |= {"allowTargetMismatch": True} if options.any_agent else {}
    body: dict[str, Any] = {
        "mode": "eval",
        "evalSuiteRef": suite_ref,
        "agentId": options.agent,
        "configurable": configurable,
        "tags": list(options.tags),
    }
    headers = {"Idempotency-Key": secrets.token_hex(16)}
    try:
        return _created(host.request("POST", "/v1/runs", body, **headers)).run_id
    except KeyboardInterrupt:
        raise EnvironmentFailure(
            f"interrupted while the run was starting: {host.address}/v1/host/assay/runs lists it if it did start"
        ) from None


def _baseline(host: HostClient, reference: str, suite: AgentEvalSuite) -> BaselineRun | None:
    """The baseline; None if `latest` is given and the suite has no completed run there yet."""
    filter: dict[str, Any] = {"kind": [KIND]}
    if reference == "latest":
        filter |= {"name": suite.suite_id, "status": ["completed"]}
    try:
        return _baseline_run(card_of(host, host.find_run(reference, **filter)))
    except NoRunYet:
        return None


def _baseline_run(card: EvalDetail) -> BaselineRun:
    return BaselineRun(report=card.report, suite_digest=card.suite_digest)


def card_of(host: HostClient, run: str) -> EvalDetail:
    """The card of a run there, without its tasks."""
    return _detail(host.request("GET", f"/v1/host/assay/runs/{run}/eval-report?limit=0"))


def _resume(host: HostClient, reference: str) -> str:
    """Copy the tasks that have a score, and run the others."""
    source = host.find_run(reference, "eval run", kind=[KIND])
    page = _page(host.request("GET", f"/v1/runs/{source}/events/poll?timeout=1&lastSequence=999999999"))
    if page.run_status == "completed":
        raise UsageError(f"--resume: expected a run that is not completed, got {source}")
    body = {"mode": "branch", "fromSeq": page.last_event_seq}
    return _forked(host.request("POST", f"/v1/runs/{source}:fork", body)).run_id


def _follow(host: HostClient, run: str, *, quiet: bool) -> None:
    """Show the progress until the run ends; Ctrl-C cancels the run."""
    progress: RunProgress | None = None
    try:
        for event in host.follow(run):
            if event.type == "eval.started":
                progress = RunProgress(run, event.document["payload"]["taskCount"], quiet=quiet)
            elif progress is not None:
                progress.add(event.type, msgspec.json.encode(event.document["payload"]))
    except KeyboardInterrupt:
        if progress is not None:
            progress.clear()
        echo_err("cancelling; the tasks that are done are stored")
        _cancel(host, run)
    finally:
        if progress is not None:
            progress.clear()


def _cancel(host: HostClient, run: str) -> None:
    """Cancel the run and wait until it has stopped. A run that ended before stays as it is."""
    try:
        host.request("POST", f"/v1/runs/{run}/cancel", {"reason": "interrupted"})
    except UsageError as refusal:
        echo_err(str(refusal))
    except EnvironmentFailure as failure:
        command = f"curl -X POST {host.address}/v1/runs/{run}/cancel, with the key,"
        raise EnvironmentFailure(
            f"{failure}; run {run} was not cancelled and may continue there: {command} cancels it"
        ) from None
    for _ in host.follow(run):
        pass


def _report(options: RunOptions, host: HostClient, run: str, baseline: BaselineRun | None) -> int:
    path, card = f"/v1/host/assay/runs/{run}/eval-report", card_of(host, run)
    comparison = None if baseline is None else compare(baseline, card.report, card.suite_digest)
    pair = None if baseline is None else compare_reports(baseline.report, card.report)
    summary = None
    if card.status == "completed" and not card.report.part:
        summary = _summary(host.request("GET", f"/v1/runs/{run}/eval-summary"))
    for name in options.to:
        if not name.endswith(".json"):
            _export(name, host.lines(path), card)
        elif summary is None:
            why = f"it has {card.report.part}" if card.report.part else f"the run is {card.status}"
            echo_err(f"{name}: not written, as there is no scorecard: {why}")
        else:
            scorecard.write(name, summary)
    if options.json:
        shown = msgspec.structs.replace(card, report=scorecard.known_ks(card.report, options.ks))
        scorecard.print_json(shown, summary, comparison, pair)
    else:
        scorecard.display(card, f"details: {host.address}{path}", options.ks)
        if comparison is not None:
            show_comparison(comparison, pair)
        for name in options.to:
            echo(f"written to {name}")
    return exit_code(card, options.max_attack_success)


def _export(name: str, lines: Iterator[bytes], detail: EvalDetail) -> None:
    files = ResultExport([name])
    for line in lines:
        files.add(line)
    ended = None if detail.ended_at is UNSET else detail.ended_at
    part = detail.report.selection
    files.close(detail.run_id, detail.status, detail.started_at, ended, None if part is UNSET else part)
