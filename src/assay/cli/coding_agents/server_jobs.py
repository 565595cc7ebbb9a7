"""
The jobs of `assay mcp --server` that read runs there. Their documents are those that the command prints of runs here.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from assay.agenteval.planning.run_header import KIND
from assay.agenteval.results.detail import EvalDetail
from assay.agenteval.results.report import failure_reason
from assay.agenteval.trial_events import task_node
from assay.agents.trajectory import Invocations, steps_of_events
from assay.cli.agent_evals.remote import card_of
from assay.cli.console.client import HostClient
from assay.cli.console.console import count_of
from assay.cli.render.failing_cases import FailingCases, bounded, case_command, failing_case
from assay.cli.stored_runs.show_run import Selection, ShowOptions
from assay.comparison.policy import read_gate_policy
from assay.comparison.views.shown_cases import ShownCase, case_of
from assay.ports import CLOSED
from assay.protocol.json_types import JSON
from assay.settings import load

RUNS = "/v1/host/assay/runs"


def failures(host: HostClient, given: JSON) -> bytes:
    """As `assay show --failing --json`."""
    options = ShowOptions(failing=True, check=given.get("check"), limit=given["limit"], json=True)
    card, selection = _select(host, given["run"], options)
    report = card.report
    unmeasured = len(report.unmeasured)
    failed = report.total - report.passed_count - unmeasured
    counts = f"{report.passed_count:,} passed, {failed:,} failed, {unmeasured:,} not measured"
    count = f"{count_of(report.total, 'task')}: {counts}"
    cases = [failing_case(case, case_command(card.run_id), options.check) for case in selection.cases]
    document = FailingCases(card.run_id, card.status, count, cases=cases, more=sum(selection.more))
    return bounded(document, given["max_bytes"])


def show_case(host: HostClient, given: JSON) -> bytes:
    """As `assay show --case --json`."""
    card, selection = _select(host, given["run"], ShowOptions(case=given["case"], limit=100, json=True))
    cases = [case.document for case in selection.cases]
    return msgspec.json.encode({"runId": card.run_id, "status": card.status, "cases": cases})


def compare(host: HostClient, given: JSON) -> bytes:
    """As `assay compare --json`."""
    run, baseline = (host.find_run(given[name], kind=[KIND]) for name in ("run", "baseline"))
    query = {name: given[name] for name in ("metric", "margin") if given.get(name) is not None}
    query |= {"baseline": baseline, "limit": min(100, given["limit"])}
    return host.request("GET", f"/v1/evaluations/{run}/comparison?{urlencode(query)}")


def gate(host: HostClient, given: JSON) -> bytes:
    """As `assay gate --json`."""
    policy: JSON = {}
    if given.get("policy") is not None:
        policy = msgspec.to_builtins(read_gate_policy(given["policy"], load().limits))
    names = ("preset", "min_mean", "margin", "metric", "max_unmeasured")
    policy |= {name: given[name] for name in names if given.get(name) is not None}
    body: JSON = {"policy": policy}
    if given.get("baseline") is not None:
        body["baseline"] = host.find_run(given["baseline"], kind=[KIND])
    run = host.find_run(given["run"], kind=[KIND])
    return host.request("POST", f"{RUNS}/{run}:gate", body)


JOBS: dict[str, Callable[[HostClient, JSON], bytes]] = {
    "failures": failures,
    "show_case": show_case,
    "compare": compare,
    "gate": gate,
}


def _select(host: HostClient, reference: str, options: ShowOptions) -> tuple[EvalDetail, Selection]:
    """The card of a run there, and the cases of it that are asked for, with their trajectories."""
    card = card_of(host, host.find_run(reference, "eval run", kind=[KIND]))
    selection = Selection(options)
    left = {task.task_id: task.score for task in card.report.tasks}
    scores = dict(left)
    for line in host.lines(f"{RUNS}/{card.run_id}/eval-report"):
        case = case_of(msgspec.json.decode(line))
        left.pop(case.id, None)
        wrong = failure_reason(case.result or {}, card.report.pass_score) is not None
        case.failing = wrong or scores.get(case.id) == 0
        case.score = scores.get(case.id) if card.report.trials == 1 else None
        case.trial = case.trial if card.report.trials > 1 else None
        selection.add(case)
    reason = "this task was not run, or its evidence was not stored"
    for id in left:
        selection.add(ShownCase(id=id, failing=True, result=None, reason=reason))
    selection.refuse_unknown(card.run_id, "task")
    if card.status in CLOSED:  # the events of another would have no end
        _add_trajectories(host, card.run_id, selection.cases)
    return card, selection


def _add_trajectories(host: HostClient, run: str, cases: list[ShownCase]) -> None:
    wanted = [case for case in cases if case.result is not None and not case.trajectory]
    nodes = {task_node(case.id): Invocations() for case in wanted}
    if not nodes:
        return
    for event in host.follow(run):
        if (node := event.document.get("nodeId")) in nodes:
            nodes[node].add(event.document)
    for case in wanted:
        result: Any = case.result
        times = result["execution_context"]["output"].get("metadata", {}).get("step_ms", [])
        case.trajectory = steps_of_events(nodes[task_node(case.id)].trial(case.trial or 0), times)
