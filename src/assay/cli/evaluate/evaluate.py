"""`assay evaluate`: run checks on outputs, write the results and print a table (FEP 3.1)."""

import signal
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import UNSET

from assay.cli.console.console import (
    case_count,
    echo,
    echo_err,
    stdout_to_stderr,
)
from assay.cli.console.only import NothingToRun
from assay.cli.evaluate.bars import (
    dimensions_without_values,
    results_of,
)
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.evaluate_report import Outcome, exit_code_of, report, report_sending
from assay.cli.evaluate.evaluation import Evaluation
from assay.cli.evaluate.inputs_outputs import flush_on_error, run_end
from assay.cli.evaluate.shard import finish_part, shard_part
from assay.cli.evaluate.table_input import with_commands, with_table
from assay.concurrency.interrupts import Interrupts
from assay.errors import EnvironmentFailure, InvalidRequest, Refusal
from assay.errors.exit_codes import ERROR, PASSED
from assay.fep.outputs.run_result import metadata_of
from assay.inputs.rows import UnclearColumns
from assay.results.run_end import RunFooter
from assay.results.run_part import RunPart

if TYPE_CHECKING:
    from assay.cli.evaluate.jobs import JobScheduler
    from assay.cli.stored_runs.send import Delivery


def main(options: EvaluateOptions) -> int:
    """Open the inputs, plan, evaluate, write and report. The result is the exit code."""
    options = with_table(options)
    with ExitStack() as resources:
        try:
            evaluation = Evaluation(options, resources)
        except UnclearColumns as unclear:
            raise with_commands(unclear, options) from None
        except NothingToRun as nothing:
            (echo_err if options.json or "-" in options.to else echo)(str(nothing))
            return PASSED
        outcome = execute(evaluation)
        outcome = outcome._replace(deliveries=_send(evaluation, outcome))
        report(evaluation, outcome)
        sent = report_sending(evaluation, outcome)
        code = exit_code_of(evaluation, outcome)
        return code if sent else ERROR


def execute(evaluation: Evaluation) -> Outcome:
    """Evaluate all cases and close every file."""
    return _close(evaluation, _run(evaluation))


def _run(evaluation: Evaluation) -> Refusal | None:
    """Evaluate. Returns why it did not end."""
    agent, tally, sinks = evaluation.agent, evaluation.tally, evaluation.sinks
    try:
        with _signals_interrupt(evaluation.interrupts), stdout_to_stderr(), flush_on_error(sinks):
            if agent is not None:
                agent.execute(evaluation.plan, evaluation.inputs, tally, [*sinks, evaluation.failing])
            else:
                _execute(evaluation)
    except (EnvironmentFailure, InvalidRequest) as refusal:
        return refusal
    except KeyboardInterrupt:
        return EnvironmentFailure(
            f"interrupted after {case_count(tally.distinct_cases, tally.cases)}; the others were not measured"
        )
    return None


def _execute(evaluation: Evaluation) -> None:
    """Evaluate in one process, or begin in this one and leave the rest to several."""
    inputs = evaluation.inputs
    try:
        if (until := evaluation.until) is not None:
            for part in until.rounds(inputs, evaluation.settings.limits):
                evaluation.progress.note = until.note
                evaluation.score(part)
            return
        jobs = _process_count(evaluation)
        if jobs > 1 and evaluation.options.jobs is None:
            from assay.cli.evaluate.automatic_jobs import Head  # deferred import: most runs are short

            head = Head(str(evaluation.options.contexts), inputs)
            evaluation.score(iter(head))
            if not head.remains:
                return
            jobs = jobs if head.divisible else 1
        if jobs > 1 and (scheduler := _start_jobs(jobs, evaluation)):
            scheduler.run()
        else:
            evaluation.score(inputs.contexts)
    finally:
        evaluation.progress.clear()


def _process_count(evaluation: Evaluation) -> int:
    """The number of --jobs, or of what this machine allows; 1 for a run that cannot be divided."""
    plan, inputs, options = evaluation.plan, evaluation.inputs, evaluation.options
    if options.jobs == 1 or (options.jobs is None and not inputs.size):
        return 1
    from assay.cli.evaluate.automatic_jobs import automatic_jobs  # deferred import: small runs need neither
    from assay.cli.evaluate.jobs import reason_for_one_process

    reason = reason_for_one_process(plan, inputs, options)
    if reason is None:
        return options.jobs or automatic_jobs(plan, options, evaluation.settings)
    if options.jobs:
        echo_err(f"--jobs {options.jobs}: {reason}, so it runs in one process")
    return 1


def _start_jobs(jobs: int, evaluation: Evaluation) -> "JobScheduler | None":
    """The scheduler of the workers; None if they cannot start."""
    from assay.cli.evaluate.jobs import start_jobs  # deferred import: most runs use one process

    try:
        return start_jobs(jobs, evaluation)
    except OSError as wrong:
        echo_err(f"--jobs: {jobs} processes do not start ({wrong.strerror}), so it runs in one process")
        return None


def _close(evaluation: Evaluation, error: Refusal | None) -> Outcome:
    """Close every file. The first error is the one to report."""
    tally, inputs, agent = evaluation.tally, evaluation.inputs, evaluation.agent
    bad_lines = evaluation.bad_lines.count
    planned, partial = agent.planned if agent else None, error is not None
    footer = RunFooter(
        evaluation_id=(agent and agent.run) or evaluation.run,
        started_at=evaluation.started,
        completed_at=evaluation.services.clock.now(),
        status="error" if error or bad_lines else tally.status,
        summary=tally.summary(),
        experiment=inputs.experiment,
        metadata=metadata_of(tally) or None,
        error=str(error or ""),
        end=run_end(
            tally.cases,
            _part_of(evaluation),
            bad_lines,
            inputs,
            evaluation.options,
            planned,
            ended=not error,
        ),
    )
    for sink in evaluation.sinks:
        try:
            sink.close(footer)
        except EnvironmentFailure as failure:
            error = error or failure
    if error is None:
        inputs = evaluation.inputs
        finish_part(
            evaluation.options, evaluation.plan, inputs.columns(evaluation.options), tally.cases, bad_lines
        )
    slices = list(evaluation.slices.rates()) if evaluation.slices else []
    for name in dimensions_without_values(slices):
        echo_err(f"--by {name}: no case has a value there")
    bars = results_of(evaluation.bars, tally, evaluation.plan.label_types, slices)
    if evaluation.until is not None:
        bars = []  # the rounds have decided
    elif partial:
        bars = [one._replace(share=None, problem="the run stopped before its end") for one in bars]
    elif footer.end is not None and footer.end.part is not UNSET:
        bars = [one._replace(share=None, problem="only a part of the cases ran") for one in bars]
    return Outcome(footer, error, time.perf_counter() - evaluation.began, slices, bars, partial)


def _part_of(evaluation: Evaluation) -> RunPart | None:
    """The part of the cases that --only or --shard chose, or that ran until it was decided."""
    if evaluation.until is not None:
        return evaluation.until.part
    choice, cases = evaluation.inputs.choice, evaluation.tally.distinct_cases
    return choice.part(cases) if choice else shard_part(evaluation.options, cases)


def _send(evaluation: Evaluation, outcome: Outcome) -> "Sequence[Delivery]":
    """Send the verdicts of a run that came to its end."""
    if not evaluation.targets or outcome.partial:
        return ()
    from assay.cli.stored_runs.send import send_stored  # deferred import: most runs send nothing

    explanations = evaluation.settings.send_explanations
    return send_stored(outcome.footer.evaluation_id, evaluation.targets, explanations=explanations)


@contextmanager
def _signals_interrupt(interrupts: Interrupts) -> Generator[None]:
    """SIGTERM acts as Ctrl-C: the results that are done are written first."""
    before = {signal.SIGTERM: signal.getsignal(signal.SIGTERM)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # or the caller ignores it
        before[signal.SIGINT] = signal.default_int_handler
    for number in before:
        signal.signal(number, interrupts.on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
