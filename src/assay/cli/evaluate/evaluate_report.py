"""The report of `assay evaluate`: tables for a person, or a JSON document."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from assay.cli.console.console import case_count, count_of, echo, echo_err, echo_json
from assay.cli.evaluate.bars import BarOptions, BarResult, as_document, exit_code, slice_document
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.inputs_outputs import BadLines, Inputs
from assay.errors import EnvironmentFailure, Refusal
from assay.errors.exit_codes import ERROR
from assay.fep.outputs.failing_cases import FailingCases
from assay.inputs.input_digests import OTHER_INPUT
from assay.results.run_end import RunFooter
from assay.results.run_part import RunPart
from assay.results.slices import SliceRates
from assay.results.tally import Tally

if TYPE_CHECKING:
    from assay.cli.evaluate.agent_dataset import AgentExecution
    from assay.cli.evaluate.baseline_results import BaselineSink
    from assay.cli.evaluate.until_decided import UntilDecided
    from assay.cli.render.evaluate_documents import Evaluated
    from assay.cli.stored_runs.send import Delivery, Target


class Reported(Protocol):
    """What a report reads of an evaluation, or of the parts that were merged."""

    @property
    def options(self) -> EvaluateOptions: ...
    @property
    def tally(self) -> Tally: ...
    @property
    def failing(self) -> FailingCases: ...
    @property
    def bad_lines(self) -> BadLines: ...
    @property
    def bars(self) -> BarOptions: ...
    @property
    def inputs(self) -> Inputs: ...
    @property
    def targets(self) -> "Sequence[Target]": ...
    @property
    def agent(self) -> "AgentExecution | None": ...
    @property
    def baseline(self) -> "BaselineSink | None": ...
    @property
    def until(self) -> "UntilDecided | None": ...


class Outcome(NamedTuple):
    """What an evaluation ended in. `error`: why it did not end, or why a file is not complete."""

    footer: RunFooter
    error: Refusal | None
    seconds: float
    slices: Sequence[SliceRates]
    bars: Sequence[BarResult]
    partial: bool  # it stopped before its end
    deliveries: "Sequence[Delivery]" = ()  # of --to


def report_sending(evaluation: Reported, outcome: Outcome) -> bool:
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


def report(evaluation: Reported, outcome: Outcome) -> None:
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


def document_of(evaluation: Reported, outcome: Outcome, window: str = "") -> "Evaluated":
    """What `--json` prints. `window`: the traces that it evaluated, of several."""
    from assay.cli.render import check_table  # deferred import: rich loads slowly
    from assay.cli.render.evaluate_documents import Evaluated, FailingRow

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
        "failing_cases": list(map(FailingRow.of, evaluation.failing.cases)),
        "outputs": options.to,
        **({"sent": [one.document for one in outcome.deliveries]} if evaluation.targets else {}),
        "status": outcome.footer.status,
        "seconds": round(outcome.seconds, 3),
        "bad_lines": evaluation.bad_lines.count,
        **({"agent": agent.summary()} if agent else {}),
        **({"error": str(outcome.error)} if outcome.error else {}),
    }
    return Evaluated(**members)


def print_tables(evaluation: Reported, outcome: Outcome, *, title: str | None = None) -> None:
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


def _print_shortfalls(evaluation: Reported, outcome: Outcome) -> None:
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


def report_error(evaluation: Reported, error: Refusal | None) -> None:
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


def exit_code_of(evaluation: Reported, outcome: Outcome) -> int:
    from assay.cli.evaluate.report_lines import unmeasured_line  # deferred import: it is loaded by now

    tally = evaluation.tally
    measured = not (tally.error_cases or tally.skipped_cases or evaluation.bad_lines.count)
    rows = tally.rows.values()
    nothing = not (tally.cases or evaluation.options.shard) or (
        rows and not any(row.completed for row in rows)
    )
    if outcome.error or nothing or not (measured or evaluation.options.allow_errors):
        return ERROR
    if evaluation.until is not None:
        return evaluation.until.decision.exit_code
    for one in outcome.bars:
        if one.share is None:
            echo_err(unmeasured_line(one))
    return exit_code(outcome.bars)


def _shown_bar(evaluation: Reported, outcome: Outcome) -> float | None:
    """The overall bar, where the table decides it."""
    if outcome.partial or evaluation.until is not None or _chosen_part(outcome):
        return None
    return evaluation.bars.overall


def _chosen_part(outcome: Outcome) -> RunPart | None:
    """The part of the cases that ran on purpose."""
    end = outcome.footer.end
    return None if end is None or end.part is UNSET else end.part


def _part(evaluation: Reported) -> str:
    tally = evaluation.tally
    return f"stopped after {case_count(tally.distinct_cases, tally.cases)}; the others were not measured"


def _report_repeats(evaluation: Reported) -> None:
    """Say that lines of a table count as trials: a stranger may not know that an id occurs twice."""
    source, tally = evaluation.inputs.source, evaluation.tally
    repeated = tally.cases - tally.distinct_cases
    if source is None or not source.rows or evaluation.agent is not None or repeated <= 0:
        return
    message = f"{count_of(repeated, 'line')} with the id and input of an earlier one: trials of one case"
    if other := source.other_expected:
        message += f"; {count_of(other, 'line')} with another expected value: give other cases other ids"
    echo_err(message)
