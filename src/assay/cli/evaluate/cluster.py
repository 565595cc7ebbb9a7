"""`assay evaluate --cluster dask`: the files of `--contexts` are scored on a cluster, into a folder of parts."""

import time
from typing import Any

from msgspec import UNSET

from assay.batch.arrow_scorer import ArrowScorer, scorer
from assay.batch.cluster_run import ClusterRun, open_cluster, threads_of
from assay.batch.dataset_parts import plan_parts
from assay.batch.summary import Summary
from assay.cli.console.console import count_of, echo_err
from assay.cli.evaluate.bars import read_bars, results_of, with_check_names
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.evaluate_report import Outcome, exit_code_of, report
from assay.cli.evaluate.inputs_outputs import BadLines, Inputs
from assay.errors import EnvironmentFailure, Refusal, UsageError
from assay.fep.outputs.failing_cases import FailingCases
from assay.fep.planning.sources import checks_in
from assay.inputs.rows import read_map
from assay.ports import SystemClock
from assay.results.run_end import RunEnd, RunFooter
from assay.results.tally import Tally
from assay.runs.intake import new_id
from assay.settings import load

ENGINES = ("dask",)
TAKEN = {
    *("contexts", "columns", "checks", "to", "modules", "by", "bars", "allow_errors", "skip_bad_lines"),
    *("concurrency", "timeout", "resume", "cluster", "scheduler", "verbose", "json"),
}


def main(options: EvaluateOptions) -> int:
    """Plan, score on the cluster, and report. The result is the exit code."""
    began, started = time.perf_counter(), SystemClock().now()
    _validate(options)
    (output,), address = options.to, str(options.contexts)
    score = _scorer(options, 1)
    parts = plan_parts(address)
    run = ClusterRun(score, parts, address, output)
    evaluation = ClusterEvaluation(options, score)
    run.prepare(resume=options.resume)
    error: Refusal | None = None
    with open_cluster(options.scheduler) as client:
        run.score = _scorer(options, threads_of(client))
        try:
            run.execute(client)
        except EnvironmentFailure as failure:
            error = failure
    if run.earlier:
        echo_err(f"{output} already has {count_of(run.earlier, 'part')} of {len(parts):,}")
    for one in run.set_aside:
        echo_err(f"set aside and not measured: {one.part}: {one.reason}")
    if run.set_aside:
        error = error or EnvironmentFailure(
            f"{count_of(len(run.set_aside), 'part')} of {len(parts):,} not measured; --resume scores them again"
        )
    if run.summary is not None:
        evaluation.take(run.summary)
    outcome = evaluation.outcome(started, time.perf_counter() - began, error)
    report(evaluation, outcome)
    return exit_code_of(evaluation, outcome)


def _validate(options: EvaluateOptions) -> None:
    if options.cluster not in ENGINES:
        raise UsageError(f"--cluster: expected {' or '.join(ENGINES)}, got {options.cluster or 'none'}")
    if not options.contexts or not options.checks:
        raise UsageError(
            "--cluster: expected --contexts with the files of the cases, and --checks; got one or none"
        )
    if len(options.to) != 1 or options.to[0] == "-":
        raise UsageError(
            f"--cluster: expected one folder of results in -o, got {', '.join(options.to) or 'none'}"
        )
    default = EvaluateOptions()
    for name in options.__struct_fields__:
        if name not in TAKEN and getattr(options, name) != getattr(default, name):
            option = name.replace("_", "-")
            why = "; a batch of judges is submitted by one process" if name == "batch" else ""
            raise UsageError(f"--cluster and --{option}: expected one of them, got both{why}")


def _scorer(options: EvaluateOptions, tasks: int) -> ArrowScorer:
    bars = read_bars(options.bars, options.by)
    return scorer(
        checks_in(str(options.checks), load().limits),
        columns=read_map(options.columns) or None,
        by=[one.name for one in bars.dimensions],
        skip_bad_rows=options.skip_bad_lines,
        tasks=tasks,
        timeout=options.timeout,
        concurrency=options.concurrency,
        check_modules=options.modules,
    )


class ClusterEvaluation:
    """A run on a cluster as an evaluation that has ended: what a report reads of it."""

    agent = baseline = until = None
    targets = ()

    def __init__(self, options: EvaluateOptions, score: ArrowScorer) -> None:
        self.options = options
        self.inputs = Inputs(iter(()), None)
        self.tally, self.failing, self.bad_lines = Tally(), FailingCases(), BadLines()
        self._types = score.check_types
        self.bars = with_check_names(read_bars(options.bars, options.by), self._types, options.by)
        self._summary: Summary | None = None

    def take(self, summary: Summary) -> None:
        """The summary of all parts that were scored."""
        self._summary, self.tally = summary, summary.tally()
        self.bad_lines.count = summary.bad_rows
        self.failing.cases = summary.failing
        self.failing.complete = summary.failed_cases <= len(summary.failing)

    def outcome(self, started: Any, seconds: float, error: Refusal | None) -> Outcome:
        tally, bad_rows = self.tally, self.bad_lines.count
        slices = self._summary.slices if self._summary else []
        bars = results_of(self.bars, tally, self._types, slices)
        if error is not None:
            bars = [one._replace(share=None, problem="some parts were not measured") for one in bars]
        footer = RunFooter(
            evaluation_id=new_id("eval_"),
            started_at=started,
            completed_at=SystemClock().now(),
            status="error" if error or bad_rows else tally.status,
            summary=tally.summary(),
            error=str(error or ""),
            end=RunEnd(planned=None, results=tally.cases, complete=not (error or bad_rows), part=UNSET),
        )
        return Outcome(footer, error, seconds, slices, bars, partial=error is not None)
