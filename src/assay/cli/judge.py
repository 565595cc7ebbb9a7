"""`assay judge`: draw judged tasks for people to label, and compare the labels with the judge."""

import asyncio
from datetime import UTC, datetime

import msgspec

from assay import settings
from assay.agenteval.planning.run_header import KIND
from assay.agenteval.results.judge_labels import (
    JudgeCheck,
    JudgedRun,
    check_judge,
    read_judged,
    read_panel,
    record_sample,
)
from assay.cli.console import count_of, echo_json
from assay.cli.console_table import Page
from assay.cli.find_run import find_run
from assay.host import parts
from assay.stats.judge_agreement import Agreement, CorrectedMean

MAX_TASKS = 10  # ids that are listed of tasks without a label


def sample(*, run: str, count: int, seed: int, tenant: str | None, json: bool) -> None:
    """Draw, record and print the tasks to label."""
    run_id, judged = asyncio.run(_sample(run, count, seed, tenant))
    drawn, record = judged.sample_tasks(), judged.sample
    assert record is not None
    if json:
        tasks = [{"taskId": task.id, "labelled": task.is_labelled} for task in drawn]
        echo_json(msgspec.json.encode({"run": run_id, **msgspec.to_builtins(record), "tasks": tasks}))
        return
    page = Page()
    page.put(
        f"{run_id}  {record.drawn} of {count_of(record.judged, 'judged task')} drawn with the seed {record.seed}, "
        f"each with probability {record.probability:.3g}"
    )
    for task in drawn:
        page.put(f"  {task.id}{'  labelled' if task.is_labelled else ''}")
    page.put(f"label each of them: assay annotate {run_id} --task ID --passed, --failed or --score X")
    page.put(f"then: assay judge check {run_id}")


def check(*, run: str, tenant: str | None, json: bool) -> None:
    """Print what the labels say about the judge."""
    run_id, check = asyncio.run(_check(run, tenant))
    if json:
        echo_json(msgspec.json.encode({"run": run_id, **msgspec.to_builtins(check)}))
        return
    page = Page()
    page.put(f"{run_id}  {check.labelled} of {count_of(check.judged, 'judged task')} labelled by people")
    for label, text in _rows(check, run_id):
        page.put_indented(f"{label:<11}", text)


def _rows(check: JudgeCheck, run_id: str) -> list[tuple[str, str]]:
    rows = [("agreement", _agreement(check.agreement, "Cohen's κ"))]
    if check.panel is not None:
        rows.append(("panel", _agreement(check.panel.agreement, "Krippendorff's α")))
        rows.append(("", _split(check.panel.split, check.judged)))
    if check.bias is not None:
        side = (
            "higher than people" if check.bias > 0 else "lower than people" if check.bias < 0 else "as high"
        )
        rows.append(("bias", f"{check.bias:+.3f}: over the labelled tasks, the judge's score is {side}"))
    if check.sample is not None:
        rows.append(("sample", f"{check.sample.drawn} tasks drawn with the seed {check.sample.seed}"))
    for name, mean in (("pass rate", check.pass_rate), ("score", check.score)):
        if mean is not None:
            rows.append((name, _corrected(mean)))
    if check.uncorrected:
        rows.append(("corrected", f"no corrected mean: {check.uncorrected}"))
    if check.unlabelled:
        rows.append(("", _listed(check.unlabelled)))
    if check.sample is None:
        rows.append(("", f"draw one: assay judge sample {run_id} -n {min(30, check.judged)}"))
    return rows


def _listed(tasks: list[str]) -> str:
    more = len(tasks) - MAX_TASKS
    return ", ".join(tasks[:MAX_TASKS]) + (f" and {more:,} more" if more > 0 else "")


def _split(tasks: list[str], judged: int) -> str:
    if not tasks:
        return "no task has answers on both sides of the bar"
    return f"{len(tasks):,} of {count_of(judged, 'task')} have answers on both sides of the bar: {_listed(tasks)}"


def _agreement(agreement: Agreement, name: str) -> str:
    if agreement.observed is None:
        return "no labels yet" if not agreement.cases else agreement.reason
    of = f"{agreement.observed:.1%} over {agreement.cases:,}"
    if agreement.value is None:
        return f"{of}; {name} is {agreement.reason}"
    limits = "" if agreement.low is None else f" (95% {agreement.low:.2f}…{agreement.high:.2f})"
    return f"{of}; {name} {round(agreement.value, 2) + 0.0:.2f}{limits}"


def _corrected(mean: CorrectedMean) -> str:
    limits = f"(95% PPI++ {mean.low:.3f}…{mean.high:.3f})"
    return (
        f"{mean.uncorrected:.3f} by the judge, {mean.mean:.3f} {limits} corrected by "
        f"{count_of(mean.labels, 'label')}"
    )


async def _sample(reference: str, count: int, seed: int, tenant: str | None) -> tuple[str, JudgedRun]:
    async with parts.store(settings.load(), light=True) as store:
        run = await find_run(store, reference, KIND, tenant=tenant)
        judged = await read_judged(store, run)
        return run.id, await record_sample(store, run, judged, count, seed, datetime.now(UTC))


async def _check(reference: str, tenant: str | None) -> tuple[str, JudgeCheck]:
    async with parts.store(settings.load(), light=True) as store:
        run = await find_run(store, reference, KIND, tenant=tenant)
        judged = await read_judged(store, run)
        return run.id, check_judge(judged, await read_panel(store, run, judged.pass_score))
