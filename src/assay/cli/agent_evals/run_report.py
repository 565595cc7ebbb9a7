"""What `assay run` prints and writes at the end, and its exit code."""

from assay.agenteval.planning.run_header import read_request
from assay.agenteval.results.baseline import BaselineRun, compare
from assay.agenteval.results.detail import EvalDetail
from assay.agenteval.results.report import read_summary
from assay.api.recordings import write_recording
from assay.cli.agent_evals.run_setup import RunOptions, read_baseline, say_recorded, show_comparison
from assay.cli.agent_evals.run_until import decision_of
from assay.cli.console.console import echo, echo_err
from assay.cli.render import scorecard
from assay.cli.render.decision import RunDecision
from assay.cli.render.findings import exit_code
from assay.cli.render.repeats import method_line
from assay.comparison.eval_reports import compare_reports
from assay.ports import CLOSED, Run, Store
from assay.protocol.agent_evals import EvalSummary
from assay.runs.run_names import name_of
from assay.stats.number_text import format_usd


async def report(options: RunOptions, store: Store, run: Run, baseline: BaselineRun | None) -> int:
    """Print and write. The result is the exit code."""
    assert run.status in CLOSED
    summary = await read_summary(store, run)
    decision = decision_of(run, await read_request(store, run))
    for name in options.to:
        await _write(name, store, run, summary)
    recorded = None
    if options.record is not None:
        recorded = await write_recording(store, run, options.record, "--record")
    detail = await _show(options, store, run, baseline if decision is None else None, decision)
    if recorded is not None:
        say_recorded(recorded, options.record or "", quiet=options.json)
    if options.max_cost is not None:
        _say_cost(options.max_cost, detail.report.cost_usd)
    code = exit_code(detail, options.max_attack_success)
    if decision is None or detail.report.verdict is None or _has_critical(detail):
        return code
    return decision.exit_code


async def _show(
    options: RunOptions,
    store: Store,
    run: Run,
    baseline: BaselineRun | None,
    decision: RunDecision | None,
) -> EvalDetail:
    """Print the scorecard, with the baseline beside it or what was decided."""
    comparison = pair = None
    if baseline is not None:
        current = await read_baseline(store, run)
        pair = compare_reports(baseline.report, current.report)
        comparison = compare(baseline, current.report, current.suite_digest)
    if options.json:
        until = None if decision is None else decision.document()
        return await scorecard.show_json(store, run, comparison, pair, options.ks, until)
    detail = await scorecard.show(store, run, ks=options.ks)
    if options.verbose:
        echo(method_line([detail.report.interval_method]))
    if comparison is not None:
        found = await store.run(comparison.baseline_run_id, tenant=run.tenant)
        show_comparison(comparison, pair, "" if found is None else name_of(found.metadata))
    for line in () if decision is None else decision.lines():
        echo(line)
    for name in options.to:
        echo(f"written to {name}")
    return detail


def _has_critical(detail: EvalDetail) -> bool:
    """A critical finding is not passed, whatever was decided."""
    return detail.report.safety is not None and bool(detail.report.safety.critical)


def _say_cost(most: float, cost: float | None) -> None:
    if cost is None:
        echo_err("--max-cost: the cost of some answers is unknown and not counted")
    elif cost > most:
        spent, limit = format_usd(cost), format_usd(most)
        echo_err(f"--max-cost: {spent} was spent, above {limit}: tasks that had started were finished")


async def _write(name: str, store: Store, run: Run, summary: EvalSummary | None) -> None:
    if not name.endswith(".json"):
        await scorecard.export(store, run, [name])
    elif summary is None:
        echo_err(f"{name}: not written: {scorecard.no_scorecard(run)}")
    else:
        scorecard.write(name, summary)
