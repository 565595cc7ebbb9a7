"""`assay evaluate`: run checks on outputs, write the results and print a table (FEP 3.1)."""

import math
import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

from assay.backends.provider_config import ProviderPolicy
from assay.checks.registry import Registry, function_checks
from assay.checks.runner import ResultOptions
from assay.cli.console.check_modules import note_unused
from assay.cli.console.console import (
    ProgressLine,
    case_count,
    count_of,
    echo,
    echo_err,
    echo_json,
    stdout_to_stderr,
)
from assay.cli.evaluate.agent_options import AgentReport, validate_agent
from assay.cli.evaluate.bars import (
    BarResult,
    as_document,
    dimensions_without_values,
    exit_code,
    read_bars,
    results_of,
    slice_document,
    slice_sink,
    with_check_names,
)
from assay.cli.evaluate.inputs_outputs import (
    BadLines,
    EvaluateOptions,
    Inputs,
    flush_on_error,
    open_inputs,
    open_sinks,
    run_end,
    write_results,
)
from assay.errors import EnvironmentFailure, InvalidRequest, Refusal, UsageError
from assay.errors.exit_codes import ERROR
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.outputs.failing_cases import FailingCases
from assay.fep.outputs.run_result import metadata_of
from assay.fep.outputs.sinks import Sink
from assay.fep.planning.plan import Plan, ProblemCollector
from assay.fep.planning.request import own_problems, plan_of, scorers_of
from assay.fep.planning.sources import with_file_name
from assay.host import parts as host_parts
from assay.ports import Services
from assay.results.run_end import RunFooter
from assay.results.slices import SliceRates
from assay.results.tally import Tally
from assay.runs.intake import new_id
from assay.settings import Settings, load


def main(options: EvaluateOptions) -> int:
    """Open the inputs, plan, evaluate, write and report. The result is the exit code."""
    with ExitStack() as resources:
        return _run(options, resources)


def _run(options: EvaluateOptions, resources: ExitStack) -> int:
    settings = load(concurrency=options.concurrency)
    _validate(options)
    bars = read_bars(options.bars, options.by)
    policy = ProviderPolicy(seconds=options.timeout or settings.limits.check_seconds)
    services = host_parts.services(settings, policy, cache=options.cache)
    bad = BadLines()
    inputs = open_inputs(options, settings, bad)
    check_options = ResultOptions(resolved_arguments=options.resolved_arguments, timings=options.timings)
    agent = None
    with stdout_to_stderr():
        registry = host_parts.registry(settings, options.modules)
        if inputs.checks is None and options.request is None:
            inputs.checks = function_checks(options.modules)
        plan = _plan(options, inputs, registry, services, check_options)
        if options.checks is not None:
            note_unused(options.modules, plan, options.checks)
        if options.agent is not None:
            from assay.cli.evaluate.agent_dataset import AgentExecution  # deferred import

            agent = AgentExecution(options, settings, registry)
            agent.prepare(plan, inputs, resources)
    began, started = time.perf_counter(), services.clock.now()
    tally, trouble = Tally(), None
    bars = with_check_names(bars, plan.label_types, options.by)
    slices, baseline = slice_sink(bars), _baseline_sink(options)
    counters = [one for one in (slices, baseline) if one is not None]
    sinks = open_sinks(options, plan, inputs, check_options, tally, counters)
    run, failing = new_id("eval_"), FailingCases()
    if agent is None and options.save:
        from assay.fep.records.save import StoreSink  # deferred import: most runs are not stored

        saved = StoreSink(
            host_parts.store(settings, light=True), inputs.checks, inputs.experiment, tally, services.clock
        )
        sinks.append(saved)
        run = saved.run
    try:
        with _sigterm_interrupts(), stdout_to_stderr(), flush_on_error(sinks):
            if agent is not None:
                agent.execute(plan, inputs, tally, [*sinks, failing])
            else:
                _execute(plan, inputs, tally, sinks, failing, options, settings, bad)
    except (EnvironmentFailure, InvalidRequest) as refusal:
        trouble = refusal
    except KeyboardInterrupt:
        trouble = EnvironmentFailure(
            f"interrupted after {case_count(tally.distinct_cases, tally.cases)}; the others were not measured"
        )
    footer = RunFooter(
        evaluation_id=agent.run or run if agent else run,
        started_at=started,
        completed_at=services.clock.now(),
        status="error" if trouble or bad.count else tally.status,
        summary=tally.summary(),
        experiment=inputs.experiment,
        metadata=metadata_of(tally) or None,
        error=str(trouble or ""),
        end=run_end(
            tally.cases, bad.count, inputs, options, agent.planned if agent else None, ended=not trouble
        ),
    )
    trouble = _close(sinks, footer, trouble)
    rates = list(slices.rates()) if slices else []
    for name in dimensions_without_values(rates):
        echo_err(f"--by {name}: no case has a value there")
    bar_results = results_of(bars, tally, plan.label_types, rates)
    _report(
        options,
        tally,
        failing,
        bad,
        footer,
        time.perf_counter() - began,
        trouble,
        agent,
        rates,
        bar_results,
        baseline,
    )
    return _exit_code(options, tally, bad, trouble, bar_results)


def _baseline_sink(options: EvaluateOptions) -> Any:
    if options.baseline is None:
        return None
    from assay.cli.evaluate.baseline_results import BaselineSink  # deferred import

    return BaselineSink(options.baseline)


def _baseline_document(baseline: Any) -> dict[str, Any]:
    return {} if baseline is None else {"baseline": baseline.document()}


def _show_baseline(baseline: Any, options: EvaluateOptions, run: str) -> None:
    if baseline is not None and not options.json:
        files = (name for name in options.to if name.endswith((".jsonl", ".json")))
        baseline.show(run if options.save else next(files, None), to_stderr="-" in options.to)


def _plan(
    options: EvaluateOptions,
    inputs: Inputs,
    registry: Registry,
    services: Services,
    check_options: ResultOptions,
) -> Plan:
    """The plan, or everything that is wrong with the checks and with the request file."""
    collector, parsed = ProblemCollector(), inputs.request_contexts
    plan = collector.read(lambda: plan_of(inputs.checks, registry, services, check_options))
    source = options.checks or options.request or ("--check-module" if options.modules else options.contexts)
    problems = inputs.problems + with_file_name(source or str(options.cases), collector.problems)
    if parsed is not None:
        own = ProblemCollector()
        if plan is None:
            own.problems += own_problems(parsed, Plan(None, registry, services))
        else:
            own.read(lambda: scorers_of(plan, parsed))
        problems += with_file_name(str(options.request), own.problems)
    if problems or plan is None:
        raise InvalidRequest(problems)
    inputs.checks = plan.checks
    return plan


def _validate(options: EvaluateOptions) -> None:
    validate_agent(options)
    if options.timeout == math.inf:
        raise UsageError("--timeout: expected a number of seconds, got inf")
    if options.max_cost is not None and not options.max_cost > 0:
        raise UsageError(f"--max-cost: expected a number above 0, got {options.max_cost:g}")


def _execute(
    plan: Plan,
    inputs: Inputs,
    tally: Tally,
    sinks: list[Sink],
    failing: FailingCases,
    options: EvaluateOptions,
    settings: Settings,
    bad_lines: BadLines,
) -> None:
    progress = ProgressLine(quiet=options.json)
    execution = ExecutionOptions(
        concurrency=settings.concurrency,
        seconds=options.timeout or settings.limits.check_seconds,
        run_seconds=settings.limits.run_seconds,
        fail_fast=options.fail_fast,
        first=tally.cases,
        max_cost=options.max_cost,
    )
    until = time.monotonic() + execution.run_seconds
    try:
        jobs = _process_count(plan, inputs, options, settings)
        if jobs > 1 and options.jobs is None:
            from assay.cli.evaluate.automatic_jobs import Head  # deferred import: most runs are short

            head, rest = Head(str(options.contexts), inputs), inputs.contexts
            inputs.contexts = iter(head)
            write_results(plan, inputs, tally, [*sinks, failing], execution, progress)
            inputs.contexts = rest
            execution = execution._replace(run_seconds=max(0.0, until - time.monotonic()))
            if not head.remains:
                return
            jobs = jobs if head.divisible else 1
        if jobs > 1 and (
            scheduler := _start_jobs(
                jobs, inputs, tally, sinks, failing, options, settings, execution, bad_lines, progress
            )
        ):
            scheduler.run(execution)
        else:
            write_results(plan, inputs, tally, [*sinks, failing], execution, progress)
    finally:
        progress.clear()


def _process_count(plan: Plan, inputs: Inputs, options: EvaluateOptions, settings: Settings) -> int:
    """The number of --jobs, or of what this machine allows; 1 for a run that cannot be divided."""
    if options.jobs == 1 or (options.jobs is None and not inputs.size):
        return 1
    from assay.cli.evaluate.automatic_jobs import automatic_jobs  # deferred import: small runs need neither
    from assay.cli.evaluate.jobs import reason_for_one_process

    reason = reason_for_one_process(plan, inputs, options)
    if reason is None:
        return options.jobs or automatic_jobs(plan, options, settings)
    if options.jobs:
        echo_err(f"--jobs {options.jobs}: {reason}, so it runs in one process")
    return 1


def _start_jobs(jobs: int, inputs: Inputs, *parts: Any) -> Any:
    """The scheduler of the workers; None if they cannot start."""
    from assay.cli.evaluate.jobs import start_jobs  # deferred import: most runs use one process

    try:
        return start_jobs(jobs, inputs, *parts)
    except OSError as wrong:
        echo_err(f"{jobs} processes cannot start ({wrong.strerror}), so it runs in one process")
        return None


def _close(sinks: list[Sink], footer: RunFooter, error: Refusal | None) -> Refusal | None:
    """Close every file; the first trouble is the one to report."""
    for sink in sinks:
        try:
            sink.close(footer)
        except EnvironmentFailure as failure:
            error = error or failure
    return error


def _report(
    options: EvaluateOptions,
    tally: Tally,
    failing: FailingCases,
    bad_lines: BadLines,
    footer: RunFooter,
    seconds: float,
    error: Refusal | None,
    agent: AgentReport | None,
    slices: Sequence[SliceRates],
    bars: Sequence[BarResult],
    baseline: Any,
) -> None:
    from assay.cli.evaluate import report_lines
    from assay.cli.render import check_table  # deferred import: rich loads slowly

    overall = next((one.bar.minimum for one in bars if not one.bar.target), None)

    if options.json:
        document: dict[str, Any] = {
            "evaluation_id": footer.evaluation_id,
            **check_table.summary_of(tally, options.ks),
            **({"slices": [slice_document(one) for one in slices]} if slices else {}),
            **({"bars": as_document(bars)} if bars else {}),
            **_baseline_document(baseline),
            "failing_cases": failing.cases,
            "outputs": options.to,
            "status": footer.status,
            "seconds": round(seconds, 3),
            "bad_lines": bad_lines.count,
            **({"agent": agent.summary()} if agent else {}),
            **({"error": str(error)} if error else {}),
        }
        echo_json(msgspec.json.encode(document), sys.stderr if "-" in options.to else sys.stdout)
    elif "-" not in options.to:
        name = footer.experiment.name if footer.experiment and footer.experiment.name else None
        check_table.show(
            tally,
            min_pass_rate=overall,
            seconds=seconds,
            experiment=name,
            ks=options.ks,
        )
        report_lines.show_slices(slices)
        report_lines.show_bars(bars)
        for line in agent.lines() if agent else ():
            echo(line)
        report_lines.show_failing(failing, footer.evaluation_id if options.save else None)
        if options.save:
            echo(f"stored; details: assay show {footer.evaluation_id}")
        for name in options.to:
            echo(f"results in {name}")
    else:
        for line in (*check_table.shortfalls(tally, overall), *(agent.lines() if agent else ())):
            echo_err(line)
        for one in bars:
            if one.bar.target and one.share is not None and not one.passed:
                echo_err(report_lines.bar_line(one))
    _show_baseline(baseline, options, footer.evaluation_id)
    if options.max_cost is not None and (unknown := tally.spending.unknown_costs):
        calls = tally.spending.calls
        echo_err(f"--max-cost: the cost of {unknown:,} of {calls:,} answers is unknown and not counted")
    _report_error(tally, bad_lines, error)


def _report_error(tally: Tally, bad_lines: BadLines, error: Refusal | None) -> None:
    if bad_lines.count:
        echo_err(f"{count_of(bad_lines.count, 'invalid line')} skipped and not measured")
    if error is None:
        if not tally.cases:
            echo_err("there was nothing to evaluate: no test cases")
        elif not tally.rows:
            echo_err("there was nothing to measure: no checks")
        return
    for line in error.lines:
        echo_err(line)
    if tally.cases and not isinstance(error, EnvironmentFailure):
        echo_err(
            f"stopped after {case_count(tally.distinct_cases, tally.cases)}; the others were not measured"
        )


def _exit_code(
    options: EvaluateOptions,
    tally: Tally,
    bad_lines: BadLines,
    error: Refusal | None,
    bars: Sequence[BarResult],
) -> int:
    from assay.cli.evaluate.report_lines import unmeasured_line  # deferred import: it is loaded by now

    measured = not (tally.error_cases or tally.skipped_cases or bad_lines.count)
    rows = tally.rows.values()
    nothing = not tally.cases or (rows and not any(row.completed for row in rows))
    if error or nothing or not (measured or options.allow_errors):
        return ERROR
    for one in bars:
        if one.share is None:
            echo_err(unmeasured_line(one))
    return exit_code(bars)


@contextmanager
def _sigterm_interrupts() -> Generator[None]:
    """SIGTERM acts as Ctrl-C: the results that are done are written first."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
