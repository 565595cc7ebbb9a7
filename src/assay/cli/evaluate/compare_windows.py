"""`assay evaluate --traces A --traces B`: each window of traces is evaluated and compared with the first."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
from msgspec.structs import replace

from assay.cli.compare.render_comparison import show_comparisons
from assay.cli.console.console import echo, echo_err, echo_json
from assay.cli.evaluate.baseline_results import ScoresSink
from assay.cli.evaluate.evaluate import execute, exit_code_of
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.evaluate_report import Outcome, document_of, print_tables, report_error
from assay.cli.evaluate.evaluation import Evaluation
from assay.cli.render.evaluate_documents import ComparedDocument, Evaluated, EvaluatedWindows
from assay.comparison.compare import RunComparison, compare_runs
from assay.comparison.run_scores import ReadOptions
from assay.comparison.sources import CompareOptions, read_options, require_slices
from assay.errors import Refusal, UsageError
from assay.errors.exit_codes import ERROR
from assay.extras import require
from assay.inputs.files import check_readable
from assay.traces.trace_files import KEPT, files_of

OF_ONE = {
    "-o": "to",
    "--name": "name",
    "--to": "send",
    "--baseline": "baseline",
    "--resume": "resume",
    "--only": "only",
}


def compare_windows(options: EvaluateOptions) -> int:
    """Evaluate the windows, print each and the comparison. The result is the exit code."""
    read = _validated(options)
    sinks: list[ScoresSink] = []
    documents: list[Evaluated] = []
    codes: list[int] = []
    spent = 0.0
    for name in options.traces:
        sink = ScoresSink(name, read)
        with ExitStack() as resources:
            evaluation = Evaluation(_of_window(options, name, spent), resources, [sink])
            outcome = execute(evaluation)
            _report(evaluation, outcome, name, documents)
            codes.append(exit_code_of(evaluation, outcome))
            spent += evaluation.tally.spending.known_cost_usd
        sinks.append(sink)
        if outcome.partial:
            echo_err(f"{name} stopped before its end, so nothing is compared")
            break
    else:
        if not _compare(sinks, documents if options.json else None):
            codes.append(ERROR)
    return ERROR if ERROR in codes else max(codes)


def _validated(options: EvaluateOptions) -> ReadOptions:
    """Refuse what is wrong with any window before the first is evaluated."""
    require("a comparison", "compare")
    for option, member in OF_ONE.items():
        if getattr(options, member):
            raise UsageError(
                f"{option}: expected one --traces with it, got {len(options.traces)}, which are windows to compare;"
                " one window of several files is a folder or a pattern: --traces 'week/*.jsonl'"
            )
    seen: dict[str, str] = {}
    for name in options.traces:
        for file in files_of([name]):
            if not file.startswith(KEPT):
                check_readable(file)
            if file in seen:
                raise UsageError(
                    f"--traces {name}: expected other files than those of --traces {seen[file]}, got {file} in both"
                )
            seen[file] = name
    return read_options(CompareOptions(by=tuple(options.by), standardize_by=options.standardize_by))


def _of_window(options: EvaluateOptions, name: str, spent: float) -> EvaluateOptions:
    """The options of one window. A bar is not for the first: it is what the others are compared with."""
    limit = options.max_cost
    if limit is not None and limit > 0 and spent >= limit:
        raise UsageError(
            f"--max-cost: expected more than {spent:.4f} USD, which the windows before {name} have cost, got {limit:g}"
        )
    return replace(
        options,
        traces=[name],
        by=[],
        bars=[] if name == options.traces[0] else options.bars,
        standardize_by=None,
        max_cost=None if limit is None else limit - spent,
    )


def _report(evaluation: Evaluation, outcome: Outcome, name: str, documents: list[Evaluated]) -> None:
    documents.append(document_of(evaluation, outcome, name))
    if not evaluation.options.json:
        print_tables(evaluation, outcome, title=name)
        echo("")
    report_error(evaluation, outcome.error)


def _compare(sinks: Sequence[ScoresSink], documents: list[Evaluated] | None) -> bool:
    """Compare and print. `documents`: those of the windows, for --json. False: nothing can be compared."""
    compared: RunComparison | None = None
    problem = ""
    try:
        scores = [sink.scores for sink in sinks]
        require_slices(scores)
        compared = compare_runs(scores)
    except Refusal as refusal:
        problem = str(refusal)
        for line in refusal.lines:
            echo_err(line)
    if documents is not None:
        members: dict[str, Any] = {"error": problem} if compared is None else msgspec.to_builtins(compared)
        echo_json(msgspec.json.encode(EvaluatedWindows(documents, ComparedDocument(**members))))
    elif compared is not None:
        show_comparisons(compared, names=True)
    return compared is not None
