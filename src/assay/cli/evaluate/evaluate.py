"""`assay evaluate`: run checks on outputs, write the results and print a table (FEP 3.1)."""

import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.cli.console.console import (
    case_count,
    count_of,
    echo,
    echo_err,
    echo_json,
    stdout_to_stderr,
)
from assay.cli.console.only import NothingToRun
from assay.cli.evaluate.bars import (
    BarResult,
    as_document,
    dimensions_without_values,
    exit_code,
    results_of,
    slice_document,
)
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.evaluation import Evaluation
from assay.cli.evaluate.inputs_outputs import flush_on_error, run_end
from assay.cli.evaluate.table_input import with_commands, with_table
from assay.errors import EnvironmentFailure, InvalidRequest, Refusal
from assay.errors.exit_codes import ERROR, PASSED
from assay.fep.outputs.run_result import metadata_of
from assay.inputs.input_digests import OTHER_INPUT
from assay.inputs.rows import UnclearColumns
from assay.results.run_end import RunFooter
from assay.results.run_part import RunPart
from assay.results.slices import SliceRates

if TYPE_CHECKING:
    from assay.cli.evaluate.jobs import JobScheduler
    from assay.cli.render.evaluate_documents import Evaluated
    from assay.cli.stored_runs.send import Delivery


class Outcome(NamedTuple):
    """What an evaluation ended in. `error`: why it did not end, or why a file is not complete."""

    footer: RunFooter
    error: Refusal | None
    seconds: float
    slices: Sequence[SliceRates]
    bars: Sequence[BarResult]
    partial: bool  # it stopped before its end
    deliveries: "Sequence[Delivery]" = ()  # of --to


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
        _report(evaluation, outcome)
        sent = _report_sending(evaluation, outcome)
        code = exit_code_of(evaluation, outcome)
        return code if sent else ERROR


def execute(evaluation: Evaluation) -> Outcome:
    """Evaluate all cases and close every file."""
    return _close(evaluation, _run(evaluation))


def _run(evaluation: Evaluation) -> Refusal | None:
    """Evaluate. Returns why it did not end."""
    agent, tally, sinks = evaluation.agent, evaluation.tally, evaluation.sinks
    try:
        with _signals_interrupt(), stdout_to_stderr(), flush_on_error(sinks):
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
        if evaluation.until is not None:
            evaluation.until.score(evaluation)
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
    """The part of the cases that --only chose, or that ran until it was decided."""
    if evaluation.until is not None:
        return evaluation.until.part
    choice = evaluation.inputs.choice
    return choice.part(evaluation.tally.distinct_cases) if choice else None


def _send(evaluation: Evaluation, outcome: Outcome) -> "Sequence[Delivery]":
    """Send the verdicts of a run that came to its end."""
    if not evaluation.targets or outcome.partial:
        return ()
    from assay.cli.stored_runs.send import send_stored  # deferred import: most runs send nothing

    explanations = evaluation.settings.send_explanations
    return send_stored(outcome.footer.evaluation_id, evaluation.targets, explanations=explanations)


def _report_sending(evaluation: Evaluation, outcome: Outcome) -> bool:
    """Say what was sent. False: not everything was."""
    if not evaluation.targets:
        return True
    from assay.cli.stored_runs.send import report_problems  # deferred import: most runs send nothing

    run, options = outcome.footer.evaluation_id, evaluation.options
    if outcome.partial:
        echo_err(f"nothing was sent, because the run stopped; send what it has: assay export {run} --to …")
        return False
    for one in outcome.deliveries:
        if not one.error and not options.json:
            (echo_err if "-" in options.to else echo)(one.line)
    return report_problems(run, outcome.deliveries)


def _report(evaluation: Evaluation, outcome: Outcome) -> None:
    options, footer = evaluation.options, outcome.footer
    if options.json:
        document = document_of(evaluation, outcome)
        echo_json(msgspec.json.encode(document), sys.stderr if "-" in options.to else sys.stdout)
    elif "-" in options.to:
        _print_shortfalls(evaluation, outcome)
    else:
        print_tables(evaluation, outcome)
    if evaluation.baseline is not None and not options.json:
        files = (name for name in options.to if name.endswith((".jsonl", ".json")))
        results = footer.evaluation_id if options.save else next(files, None)
        evaluation.baseline.show(results, to_stderr="-" in options.to)
    if evaluation.until is not None and not options.json:
        evaluation.until.show(to_stderr="-" in options.to)
    spending = evaluation.tally.spending
    if options.max_cost is not None and (unknown := spending.unknown_costs):
        echo_err(
            f"--max-cost: the cost of {unknown:,} of {spending.calls:,} answers is unknown and not counted"
        )
    _report_repeats(evaluation)
    report_error(evaluation, outcome.error)


def document_of(evaluation: Evaluation, outcome: Outcome, window: str = "") -> "Evaluated":
    """What `--json` prints. `window`: the traces that it evaluated, of several."""
    from assay.cli.render import check_table  # deferred import: rich loads slowly
    from assay.cli.render.evaluate_documents import Evaluated

    options, agent, baseline = evaluation.options, evaluation.agent, evaluation.baseline
    members: dict[str, Any] = {
        **({"traces": window} if window else {}),
        **({"partial": _part(evaluation)} if outcome.partial else {}),
        **({"part": part} if (part := _chosen_part(outcome)) else {}),
        "evaluation_id": outcome.footer.evaluation_id,
        **check_table.summary_of(evaluation.tally, options.ks),
        **({"slices": [slice_document(one) for one in outcome.slices]} if outcome.slices else {}),
        **({"bars": as_document(outcome.bars)} if outcome.bars else {}),
        **({"baseline": baseline.document()} if baseline else {}),
        **({"until": evaluation.until.decision.document()} if evaluation.until else {}),
        "failing_cases": evaluation.failing.cases,
        "outputs": options.to,
        **({"sent": [one.document for one in outcome.deliveries]} if evaluation.targets else {}),
        "status": outcome.footer.status,
        "seconds": round(outcome.seconds, 3),
        "bad_lines": evaluation.bad_lines.count,
        **({"agent": agent.summary()} if agent else {}),
        **({"error": str(outcome.error)} if outcome.error else {}),
    }
    return Evaluated(**members)


def print_tables(evaluation: Evaluation, outcome: Outcome, *, title: str | None = None) -> None:
    """Print what a person reads. `title` begins it; without one, the name of the experiment does."""
    from assay.cli.evaluate import report_lines
    from assay.cli.render import check_table  # deferred import: rich loads slowly
    from assay.cli.render.repeats import method_line

    options, footer, agent = evaluation.options, outcome.footer, evaluation.agent
    undecided = ", and no bar is decided" if outcome.bars else ""
    if outcome.partial and evaluation.tally.cases:
        echo(f"only a part: {_part(evaluation)}{undecided}")
    elif (part := _chosen_part(outcome)) is not None:
        echo(f"only a part: {part.text()}; nothing is known of the others{undecided}")
    check_table.show(
        evaluation.tally,
        min_pass_rate=_shown_bar(evaluation, outcome),
        seconds=outcome.seconds,
        experiment=title or (footer.experiment.name if footer.experiment else None) or None,
        ks=options.ks,
    )
    if options.verbose:
        echo(method_line(check_table.methods_of(evaluation.tally)))
    report_lines.show_slices(outcome.slices)
    report_lines.show_bars(outcome.bars)
    for line in agent.lines() if agent else ():
        echo(line)
    report_lines.show_failing(evaluation.failing, footer.evaluation_id if options.save else None)
    if options.save:
        echo(f"stored; details: assay show {options.name or footer.evaluation_id}")
    for name in options.to:
        echo(f"results in {name}")


def _print_shortfalls(evaluation: Evaluation, outcome: Outcome) -> None:
    """On standard error: standard output has the results."""
    from assay.cli.evaluate import report_lines
    from assay.cli.render import check_table  # deferred import: rich loads slowly

    agent = evaluation.agent
    bar = _shown_bar(evaluation, outcome)
    shortfalls = check_table.shortfalls(evaluation.tally, bar)
    for line in (*shortfalls, *(agent.lines() if agent else ())):
        echo_err(line)
    for one in outcome.bars:
        if one.bar.target and one.share is not None and not one.passed:
            echo_err(report_lines.bar_line(one))


def report_error(evaluation: Evaluation, error: Refusal | None) -> None:
    tally = evaluation.tally
    if evaluation.bad_lines.count:
        echo_err(f"{count_of(evaluation.bad_lines.count, 'line')} skipped and not measured")
    if error is None:
        if not tally.cases:
            echo_err("there was nothing to evaluate: no test cases")
        elif not tally.rows:
            echo_err("there was nothing to measure: no checks")
        return
    for line in error.lines:
        echo_err(line)
    if OTHER_INPUT in str(error):
        echo_err(
            "give every case its own id, or say --map id=COLUMN; --skip-bad-lines leaves the line out, not measured"
        )
    if tally.cases and not isinstance(error, EnvironmentFailure):
        echo_err(_part(evaluation))


def _shown_bar(evaluation: Evaluation, outcome: Outcome) -> float | None:
    """The overall bar, where the table decides it."""
    if outcome.partial or evaluation.until is not None or _chosen_part(outcome):
        return None
    return evaluation.bars.overall


def _chosen_part(outcome: Outcome) -> RunPart | None:
    """The part of the cases that ran on purpose."""
    end = outcome.footer.end
    return None if end is None or end.part is UNSET else end.part


def _part(evaluation: Evaluation) -> str:
    tally = evaluation.tally
    return f"stopped after {case_count(tally.distinct_cases, tally.cases)}; the others were not measured"


def _report_repeats(evaluation: Evaluation) -> None:
    """Say that lines of a table count as trials: a stranger may not know that an id occurs twice."""
    source, tally = evaluation.inputs.source, evaluation.tally
    repeated = tally.cases - tally.distinct_cases
    if source is None or not source.rows or evaluation.agent is not None or repeated <= 0:
        return
    message = f"{count_of(repeated, 'line')} with the id and input of an earlier one: trials of one case"
    if other := source.other_expected:
        message += f"; {count_of(other, 'line')} with another expected value: give other cases other ids"
    echo_err(message)


def exit_code_of(evaluation: Evaluation, outcome: Outcome) -> int:
    from assay.cli.evaluate.report_lines import unmeasured_line  # deferred import: it is loaded by now

    tally = evaluation.tally
    measured = not (tally.error_cases or tally.skipped_cases or evaluation.bad_lines.count)
    rows = tally.rows.values()
    nothing = not tally.cases or (rows and not any(row.completed for row in rows))
    if outcome.error or nothing or not (measured or evaluation.options.allow_errors):
        return ERROR
    if evaluation.until is not None:
        return evaluation.until.decision.exit_code
    for one in outcome.bars:
        if one.share is None:
            echo_err(unmeasured_line(one))
    return exit_code(outcome.bars)


@contextmanager
def _signals_interrupt() -> Generator[None]:
    """
    SIGTERM acts as Ctrl-C: the results that are done are written first.

    Both raise at once. An event loop would wait for the end of a read from a pipe before it acts on the first Ctrl-C.
    """

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = {signal.SIGTERM: signal.getsignal(signal.SIGTERM)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # or the caller ignores it
        before[signal.SIGINT] = signal.default_int_handler
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
