"""The scorecard as a person sees it: the verdict first, then what failed and why, then how to look further."""

from pathlib import Path

import msgspec
from msgspec import UNSET

from assay.agenteval.detail import Effective, EvalDetail, detail_of
from assay.agenteval.report import EvalReport, Reason, recorded_results, recorded_summary
from assay.cli.exporting import Export
from assay.cli.page import Page, Table, Text, cell
from assay.cli.report import rate
from assay.cli.say import give
from assay.fep.spending import dollars
from assay.ports import Run, Store
from assay.protocol.scorecard import EvalSummary
from assay.runs.annotations import annotations, effective

MANY_TRIALS = 4  # beyond these, pass^k is shown for some k
WIDE = 160  # characters, where no terminal says how many


async def show(store: Store, run: Run, *, shown: int = 50) -> None:
    display(await _detail(store, run, shown))


async def _detail(store: Store, run: Run, shown: int) -> EvalDetail:
    return await detail_of(store, run, effective(await annotations(store, run)), shown=shown)


def display(card: EvalDetail, further: str | None = None) -> None:
    """Of a run here or on another host; `further` says how to look at it there."""
    report, console = card.report, Page(WIDE)
    trials = f" × {report.trials} trials" if report.trials > 1 else ""
    console.put(
        f"{report.suite_id} {report.suite_version} · {report.agent_id} · {', '.join(report.modes)} ·"
        f" {_many(report.total, 'task')}{trials} in {card.seconds:.1f} s"
    )
    scored = sum(task.score is not None for task in report.tasks)
    if scored:
        console.put(_headline(report, scored))
    if card.effective is not UNSET:
        console.put(_corrected(card.effective))
    console.put(_tasks(report, scored))
    console.put(_spent(report))
    if card.status != "completed":
        console.put(_unfinished(card), "yellow")
    _failing(console, report, {reason.task_id: reason for reason in card.reasons}, card.more_reasons)
    if further is None:
        _further(console, card)
    else:
        console.put(further)


def _corrected(effective: Effective) -> str:
    """What people made of it; what was recorded stands above."""
    said = effective.verdict
    verdict = "no verdict" if said is None else "passed" if said.passed else "not passed"
    return (
        f"with {_many(len(effective.corrected), 'correction')}: score {effective.score:.3f}  {verdict}"
        f" ({', '.join(effective.corrected[:5])}{' …' if len(effective.corrected) > 5 else ''})"
    )


def _headline(report: EvalReport, scored: int) -> Text:
    """The number with its error bar, and the verdict with the bar that decided it."""
    interval = "–" if report.low is None or report.high is None else f"{report.low:.3f}–{report.high:.3f}"
    text = cell(f"score {report.score:.3f} ({interval}) over {_many(scored, 'task')}  ")
    if report.verdict is None:
        return text.append("no verdict", style="bold yellow")
    if report.verdict.passed:
        text.append("passed", style="bold green")
        return text.append(f": at least the bar of {report.pass_score:g}")
    text.append("not passed", style="bold red")
    return text.append(cell(": " + "; ".join(_bar(name, report) for name in report.verdict.failed)))


def _bar(name: str, report: EvalReport) -> str:
    if name == "passScore":
        return f"below the bar of {report.pass_score:g}"
    if name == "maxCostUsd":
        most = dollars(report.max_cost_usd or 0.0)
        if report.cost_usd is None:
            return f"its cost is unknown, and the suite allows {most}"
        return f"it cost {dollars(report.cost_usd)}, and the suite allows {most}"
    return f"p95 latency {report.p95_latency_ms:,} ms, and the suite allows {report.max_p95_latency_ms:,} ms"


def _tasks(report: EvalReport, scored: int) -> str:
    told = f"tasks {report.passed_count:,} of {scored:,} passed" if scored else "no task was measured"
    if report.pass_k:
        shown = range(1, report.trials + 1) if report.trials <= MANY_TRIALS else (1, 2, report.trials)
        told += "; " + ", ".join(f"pass^{k} {rate(report.pass_k_intervals[k])}" for k in shown)
    if report.baseline_score is not None:
        told += f"; {report.score - report.baseline_score:+.3f} against {report.baseline_run_id}"
    return told


def _spent(report: EvalReport) -> str:
    if report.cost_usd is not None:
        cost = dollars(report.cost_usd)
    elif report.known_cost_usd:
        cost = f"at least {dollars(report.known_cost_usd)}, the rest is unknown"
    else:
        cost = "unknown"
    p95 = "–" if report.p95_latency_ms is None else f"{report.p95_latency_ms:,} ms"
    return f"cost {cost}, p95 latency {p95}"


def _unfinished(card: EvalDetail) -> str:
    report = card.report
    if report.unmeasured:
        return f"not measured: {_many(len(report.unmeasured), 'task')} of {report.total:,}, so there is no verdict"
    left = sum(task.score is None for task in report.tasks)
    why = f"it {card.status}" if card.status == "failed" else f"it was {card.status}"
    told = "" if card.error is UNSET else f": {card.error}"
    return f"{why}{told}; {_many(left, 'task')} left undone"


def _failing(console: Page, report: EvalReport, reasons: dict[str, Reason], more: int) -> None:
    if not reasons:
        return
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column("mark")
    table.add_column("task", overflow="fold")
    table.add_column("score", justify="right")
    table.add_column("why", overflow="fold", ratio=1)
    for task in report.tasks:
        reason = reasons.get(task.task_id)
        if reason is None:
            continue
        mark = cell("✗", "red") if task.score is not None else cell("?", "yellow")
        score = "–" if task.score is None else f"{task.score:.2f}"
        if task.trials > 1:
            score += f" {task.trials_passed}/{task.trials}"
        table.add_row(mark, task.task_id, score, _one_line(reason.why))
    console.print(table)
    if more:
        console.put(f"  … and {more:,} more")


def _further(console: Page, card: EvalDetail) -> None:
    run = card.run_id
    if card.status in ("failed", "cancelled"):
        console.put(f"complete it: assay run --resume {run}")
    console.put(f"look further: assay show {run}   assay export {run} -o results.jsonl")


async def as_json(store: Store, run: Run) -> None:
    """The same for a machine."""
    print_json(await _detail(store, run, 0), await recorded_summary(store, run))


def print_json(card: EvalDetail, summary: EvalSummary | None) -> None:
    told: dict[str, object] = {
        "runId": card.run_id,
        "status": card.status,
        "summary": summary,
        "report": card.report,
    }
    told |= {} if card.effective is UNSET else {"effective": card.effective}
    give(msgspec.json.encode(told))


async def export(store: Store, run: Run, to: list[str]) -> int:
    """The evidence as FEP results."""
    files = Export(to)
    async for line in recorded_results(store, run):
        files.add(line)
    return files.close(run.id, run.status, run.started or run.created, run.ended)


def write(name: str, summary: EvalSummary) -> None:
    """The scorecard as a file."""
    Path(name).write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
