"""The scorecard of an eval run: the verdict, the tasks that did not pass and why, and the commands for details."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from assay.agenteval.planning.run_header import part_of
from assay.agenteval.results.baseline import Comparison
from assay.agenteval.results.detail import Effective, EvalDetail, detail_of
from assay.agenteval.results.report import EvalReport, Reason, read_results, read_summary, unmet_text
from assay.agenteval.results.safety_report import critical_text
from assay.agenteval.results.safety_results import safety_results
from assay.agenteval.scoring.task_checks import check_tally, recorded_checks
from assay.cli.console.console import count_of, echo, echo_json
from assay.cli.console.console_table import Page, Table, Text, cell
from assay.cli.render import check_table
from assay.cli.render.evaluate_documents import ChecksDocument, UntilDocument
from assay.cli.render.findings import put_safety
from assay.cli.render.repeats import repeat_line, select_ks
from assay.cli.render.result_export import ResultExport
from assay.cli.render.run_documents import RunDocument
from assay.comparison.compare import PairComparison
from assay.errors import UsageError
from assay.fep.outputs.output_file import OutputFile
from assay.ports import Run, Store
from assay.protocol.agent_evals import EvalSummary
from assay.results.run_part import part_in
from assay.runs.annotations import annotations, effective
from assay.stats.intervals import METHOD_NAMES
from assay.stats.number_text import (
    SCORE_DIGITS,
    case_value,
    change_text,
    cost_text,
    format_usd,
    milliseconds_text,
    range_text,
    score_text,
)

FIRST_REASONS = 10  # tasks that are listed if too many did not pass to list all of them
MAX_REASON = 400  # characters


async def show(store: Store, run: Run, *, reasons: int = 50, ks: Sequence[int] = ()) -> EvalDetail:
    """Print the scorecard of a stored run, with at most `reasons` tasks that did not pass."""
    detail = await _detail(store, run, reasons)
    display(detail, ks=ks)
    await show_checks(store, run)
    return detail


async def _detail(store: Store, run: Run, reasons: int) -> EvalDetail:
    return await detail_of(store, run, effective(await annotations(store, run)), max_reasons=reasons)


def display(detail: EvalDetail, hint: str | None = None, ks: Sequence[int] = ()) -> None:
    """Print a scorecard. `hint` says where the details of a run on another host are; `ks` are those of `--k`."""
    report, page = detail.report, Page()
    trials = f" × {report.trials} trials" if report.trials > 1 else ""
    page.put(
        f"{report.suite_id} {report.suite_version} · {report.agent_id} · {', '.join(report.modes)} ·"
        f" {report.part or count_of(report.total, 'task')}{trials} in {detail.seconds:.1f} s"
    )
    if (line := provenance(detail)) is not None:
        page.put(line)
    scored = sum(task.score is not None for task in report.tasks)
    if scored:
        page.put(headline(report))
    if detail.effective is not UNSET:
        page.put(correction_line(detail.effective))
    page.put(_tasks(report, scored, ks))
    page.put(_spending(report))
    if detail.status != "completed":
        page.put(incomplete(detail), "yellow")
    listed = detail.reasons[:FIRST_REASONS] if detail.more_reasons else detail.reasons
    more = detail.more_reasons + len(detail.reasons) - len(listed)
    put_safety(page, detail)
    _put_failing(page, report, {reason.task_id: reason for reason in listed}, more)
    if hint is None:
        _put_hints(page, detail)
    else:
        page.put(hint)


def provenance(card: EvalDetail) -> str | None:
    """The file of a pack that the suite came from, with its digest."""
    if card.suite_source is UNSET:
        return None
    return f"suite {card.suite_source}, sha256 {card.suite_file_digest}"


def correction_line(effective: Effective) -> str:
    """The score with the corrections of annotations; the recorded score stands above."""
    corrected = effective.verdict
    verdict = "no verdict" if corrected is None else "passed" if corrected.passed else "not passed"
    return with_corrections(effective.corrected, f"score {score_text(effective.score)}  {verdict}")


def with_corrections(corrected: Sequence[str], result: str = "") -> str:
    """`with 1 correction: score 1.000  passed (exactly)`. `corrected` are ids of tasks or cases."""
    ids = f"({', '.join(corrected[:5])}{' …' if len(corrected) > 5 else ''})"
    return f"with {count_of(len(corrected), 'correction')}{f': {result}' if result else ''} {ids}"


def headline(report: EvalReport) -> Text:
    """The score with its interval, and the verdict with the threshold that decided it."""
    critical = critical_text(report.safety)
    scored_tasks = sum(task.score is not None for task in report.tasks)
    if report.score is None:
        return _verdict(cell(f"score {score_text(None)}  "), report, critical)
    interval = METHOD_NAMES[report.interval_method]
    if report.low is not None:
        interval = range_text(report.low, report.high, "score")
    text = cell(f"score {score_text(report.score)} ({interval}) over {count_of(scored_tasks, 'task')}  ")
    return _verdict(text, report, critical)


def _verdict(text: Text, report: EvalReport, critical: str | None) -> Text:
    """A critical finding decides, whatever the score is and however much was not measured."""
    failed = [] if report.verdict is None else [unmet_text(name, report) for name in report.verdict.failed]
    if critical is not None or failed:
        text.append("not passed", style="bold red")
        return text.append(cell(": " + "; ".join([*([critical] if critical else []), *failed])))
    if report.verdict is None:
        return text.append("no verdict", style="bold yellow")
    text.append("passed", style="bold green")
    text.append(f": at least the bar of {report.pass_score:g}")
    return text.append(f", by {report.part}") if report.part else text


def _tasks(report: EvalReport, scored_tasks: int, ks: Sequence[int]) -> str:
    text = (
        f"tasks {report.passed_count:,} of {scored_tasks:,} passed"
        if scored_tasks
        else "no task was measured"
    )
    if report.pass_k:
        text += "; " + ", ".join(repeat_lines(report, ks))
    if report.baseline_score is not None and report.score is not None:
        text += f"; {change_text(report.score - report.baseline_score, SCORE_DIGITS)} against {report.baseline_run_id}"
    return text


def repeat_lines(report: EvalReport, ks: Sequence[int] = ()) -> list[str]:
    """pass^k and pass@k of a run with several trials."""
    rates = (("pass^", report.pass_k_intervals), ("pass@", report.pass_at_k_intervals))
    lines = [repeat_line(name, found, ks, "task") for name, found in rates]
    return [line for line in lines if line is not None]


def with_ks(report: EvalReport, ks: Sequence[int]) -> EvalReport:
    """The report with pass@k and pass^k of these k alone; all of them without a choice."""
    return msgspec.structs.replace(
        report,
        pass_k={k: rate.rate for k, rate in select_ks(report.pass_k_intervals, ks).items()},
        pass_k_intervals=select_ks(report.pass_k_intervals, ks),
        pass_at_k_intervals=select_ks(report.pass_at_k_intervals, ks),
    )


def known_ks(report: EvalReport, ks: Sequence[int]) -> EvalReport:
    """The report with those of these k for which some task has enough measured trials. It refuses none: it has run."""
    return with_ks(report, [k for k in ks if k in report.pass_k]) if report.pass_k else report


def _spending(report: EvalReport) -> str:
    cost = cost_text(report.known_cost_usd, int(report.cost_usd is None))
    p95 = "–" if report.p95_latency_ms is None else milliseconds_text(report.p95_latency_ms)
    again = report.repeated_cost_usd
    more = "" if again is UNSET else f" and {format_usd(again)} for trials that ran again"
    return f"cost {cost}{more}, p95 latency {p95}"


def incomplete(detail: EvalDetail) -> str:
    report = detail.report
    left = sum(task.score is None for task in report.tasks)
    status = "the run failed" if detail.status == "failed" else f"the run was {detail.status}"
    error = "" if detail.error is UNSET else f": {detail.error}"
    if len(report.unmeasured) == left and left:
        return f"not measured: {count_of(left, 'task')} of {report.total:,}, so there is no verdict"
    return f"{status}{error}; {count_of(left, 'task')} not done"


def _put_failing(page: Page, report: EvalReport, reasons: dict[str, Reason], hidden_count: int) -> None:
    if not reasons:
        return
    table = Table(show_header=False, padding=(0, 2, 0, 0))
    table.add_column("mark")
    table.add_column("task", overflow="fold")
    table.add_column("score", justify="right")
    table.add_column("why", overflow="fold", ratio=1)
    for task in report.tasks:
        reason = reasons.get(task.task_id)
        if reason is None:
            continue
        mark = cell("✗", "red") if task.score is not None else cell("?", "yellow")
        score = "–" if task.score is None else case_value(task.score)
        if task.trials > 1:
            score += f" {task.trials_passed}/{task.trials}"
        table.add_row(mark, task.task_id, score, _one_line(reason.message))
    page.print(table)
    if hidden_count:
        page.put(f"  … and {hidden_count:,} more")


def _put_hints(page: Page, detail: EvalDetail) -> None:
    run = detail.run_id
    if detail.status in ("failed", "cancelled"):
        page.put(f"to complete it: assay run --resume {run}")
    page.put(f"details: assay show {run}")
    page.put(f"results: assay export {run} -o results.csv")


async def show_json(
    store: Store,
    run: Run,
    comparison: Comparison | None = None,
    pair: PairComparison | None = None,
    ks: Sequence[int] = (),
    until: UntilDocument | None = None,
) -> EvalDetail:
    """Print the scorecard of a stored run as JSON, with pass^k and pass@k of these k alone."""
    checks, detail = await checks_document(store, run), await _detail(store, run, 0)
    shown = msgspec.structs.replace(detail, report=known_ks(detail.report, ks))
    print_json(shown, await read_summary(store, run), comparison, pair, checks, until)
    return detail


def print_json(
    detail: EvalDetail,
    summary: EvalSummary | None,
    comparison: Comparison | None = None,
    pair: PairComparison | None = None,
    checks: ChecksDocument | None = None,
    until: UntilDocument | None = None,
) -> None:
    document = document_of(detail, summary)
    document.comparison = UNSET if comparison is None else comparison
    document.difference = UNSET if pair is None else pair
    document.checks = checks or UNSET
    document.until = until or UNSET
    echo_json(msgspec.json.encode(document))


def document_of(detail: EvalDetail, summary: EvalSummary | None) -> RunDocument:
    """The scorecard for `--json`."""
    document = RunDocument(
        run_id=detail.run_id,
        status=detail.status,
        summary=summary,
        report=detail.report,
        suite_source=detail.suite_source,
        suite_file_digest=detail.suite_file_digest,
        agent_pack=detail.agent_pack,
        effective=detail.effective,
    )
    if detail.report.safety is not None:
        document.findings, document.more_findings = detail.findings, detail.more_findings
    return document


async def export(store: Store, run: Run, to: list[str]) -> int:
    """
    Write the scorecard to `.json`, as `assay run -o` does, and the evidence to other files; return the number of
    results.
    """
    cards = [name for name in to if name.endswith(".json")]
    if cards:
        summary = await read_summary(store, run)
        if summary is None:
            hint = "a .jsonl, .csv, .xlsx or .parquet file takes its results"
            raise UsageError(f"{cards[0]}: {no_scorecard(run)}; {hint}")
        for name in cards:
            write(name, summary)
    files = ResultExport([name for name in to if name not in cards])
    async for line in read_results(store, run):
        files.add(line)
    async for line in recorded_checks(store, run.id):
        files.add_beside(line)
    async for line in safety_results(store, run):
        files.add_beside(line)
    return files.close(run.id, run.status, run.started or run.created, run.ended, part_in(run.metadata))


def no_scorecard(run: Run) -> str:
    """Why a run has no scorecard."""
    part = part_of(run) if run.status == "completed" else ""
    if part:
        return f"{run.id} has {part}, and only a run of all of them has a scorecard"
    return f"{run.id} is {run.status}, so it has no scorecard"


def write(name: str, summary: EvalSummary) -> None:
    """Write the scorecard to a file."""
    file = OutputFile(name)
    file.write(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    file.close()


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_REASON else f"{line[: MAX_REASON - 1]}…"


# The table of `assay run --checks`: checks beside the scorecard, never in its score.


async def show_checks(store: Store, run: Run) -> None:
    """Print the table of the checks, if the run has some."""
    tally = await check_tally(store, run.id)
    if tally.cases:
        echo("checks beside the scorecard, not part of its score:")
        seconds = ((run.ended or run.created) - (run.started or run.created)).total_seconds()
        check_table.show(tally, min_pass_rate=None, seconds=seconds, noun="task")


async def checks_document(store: Store, run: Run) -> ChecksDocument | None:
    """The same for `--json`; None if the run has no such checks."""
    tally = await check_tally(store, run.id)
    return ChecksDocument(**check_table.summary_of(tally)) if tally.cases else None
