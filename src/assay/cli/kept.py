"""What the verbs for kept runs do: they read the store itself, and hold no run whole."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from assay import app, settings
from assay.agenteval.run_header import KIND as EVAL
from assay.auth.audit import audit_read
from assay.checks import STANDARD
from assay.cli import page, report, verdicts
from assay.cli.finding import NONE, THERE, find_run
from assay.cli.say import give, tell
from assay.errors import Conflict, UsageError
from assay.fep.run_header import KIND, read_request
from assay.fep.service import EvaluationService, summary_of, terminal
from assay.fep.sinks import RunFooter, sink_for
from assay.fep.tally import Tally
from assay.ports import CLOSED, Run, RunQuery, RunStatus, Services
from assay.ports.kinds import EXTERNALLY_DRIVEN
from assay.protocol.json_types import is_object
from assay.workflow.library import KIND as WORKFLOW
from assay.workflow.report import came_to

T = TypeVar("T")
STATUSES: tuple[RunStatus, ...] = (
    "pending", "running", "waiting-approval", "waiting-input", "completed", "failed", "cancelled",
)  # fmt: skip
SHOWN = 5  # cases that did not pass


@asynccontextmanager
async def _office() -> AsyncGenerator[EvaluationService]:
    chosen = settings.load()
    async with app.store(chosen) as store:
        yield EvaluationService(store, STANDARD, Services(limits=chosen.limits))


def _with_office(work: Callable[[EvaluationService], Awaitable[T]]) -> T:
    async def main() -> T:
        async with _office() as office:
            return await work(office)

    return asyncio.run(main())


def list_runs(
    status: str | None, experiment: str | None, tenant: str | None, limit: int, *, json: bool
) -> None:
    chosen = _status(status)
    query = RunQuery(
        tenant=tenant,
        name=experiment,
        statuses=frozenset({chosen}) if chosen else None,
        limit=limit,
    )
    runs, told = _with_office(lambda office: _listed(office, query))
    if json:
        give(msgspec.json.encode(told))
        return
    if not runs:
        asked = {"--status": status, "--experiment": experiment, "--tenant": tenant}
        given = " ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
        tell(f"no run that is kept here fits {given}; {THERE}" if given else NONE)
        return
    _shown(runs)
    for run in runs:
        if run.kind == WORKFLOW and (waits := verdicts.waits(run)) is not None:
            tell(waits)


def _shown(runs: list[Run]) -> None:
    """A line a run; on a terminal that is too narrow for it, two."""
    console = page.Page()
    table = page.Table(box=None, pad_edge=False, header_style="bold")
    several = len({run.tenant for run in runs}) > 1
    for name in ("run", *(("tenant",) if several else ()), "status", "experiment"):
        table.add_column(name, no_wrap=True)
    for name in ("cases", "not measured", "score", "created"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        cases, missing, score = _counts(run)
        whose = (run.tenant,) if several else ()
        created = f"{run.created:%Y-%m-%d %H:%M:%S}"
        table.add_row(run.id, *whose, run.status, run.name or "–", cases, missing, score, created)
    if page.needed(console, table) <= console.width or not sys.stdout.isatty():
        page.put(console, table)
        return
    for run in runs:
        cases, missing, score = _counts(run)
        told = [run.name or "", run.tenant if several else "", "" if score == "–" else score]
        told += [] if cases == "–" else [f"{cases} cases", f"{missing} not measured"]
        console.put(f"{run.id}  {run.status}")
        console.put(f"  {run.created:%Y-%m-%d %H:%M:%S}  {', '.join(filter(None, told))}")


def _counts(run: Run) -> tuple[str, str, str]:
    """Cases or tasks, how many of them were not measured, and the score of an eval; of a workflow, whether its goal was reached."""
    if run.kind == WORKFLOW:
        return "–", "–", verdicts.in_a_list(run)
    if run.kind != KIND:
        score = run.head.get("aggregateScore")
        verdict = "passed" if run.head.get("passed") else "not passed"
        total: int = run.head.get("total", 0)
        missing: int = (
            total - run.head.get("done", 0) if run.status in CLOSED else run.head.get("unmeasured", 0)
        )
        told = "–" if score is None else f"{score:.3f} {verdict}"
        return f"{total:,}", f"{missing:,}", told
    summary = summary_of(run)
    missed = summary.error_test_cases + summary.skipped_test_cases
    done, total = summary.total_test_cases, run.head.get("total", 0)
    return f"{done:,} of {total:,}" if done < total else f"{done:,}", f"{missed:,}", "–"


async def _listed(office: EvaluationService, query: RunQuery) -> tuple[list[Run], list[Any]]:
    runs = await office.store.runs(query)
    return runs, [office.operation(run) if run.kind == KIND else _eval(run) for run in runs]


def _eval(run: Run) -> dict[str, Any]:
    """An eval run in a list, without content."""
    return {"runId": run.id, "kind": run.kind, "status": run.status, "created": run.created, **run.head}


def show_run(which: str, tenant: str | None, *, json: bool) -> None:
    async def work(office: EvaluationService) -> None:
        run = await find_run(office.store, which, tenant=tenant)
        await audit_read(office.store, run)
        if run.kind == EVAL:
            from assay.cli import scorecard  # a lazy door

            await (scorecard.as_json(office.store, run) if json else scorecard.show(office.store, run))
            return
        if run.kind != KIND:
            await _show_flow(office, run, json=json)
            return
        tally = await _tally(office, run)
        if json:
            told = msgspec.to_builtins(office.operation(run)) | report.summary_of(tally)
            give(msgspec.json.encode(told))
            return
        tell(f"{run.id}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}")
        ended, started = run.ended or run.created, run.started or run.created
        report.show(tally, bar=None, seconds=(ended - started).total_seconds(), experiment=run.name or None)
        if "error" in run.head:
            tell(f"it failed: {run.head['error']}")
        for line in [line async for line in _failing(office, run)]:
            tell(line)

    _with_office(work)


async def _show_flow(office: EvaluationService, run: Run, *, json: bool) -> None:
    came = await came_to(office.store, run, app.execution_environment(settings.load()))
    if json:
        verdicts.print_json(came)
        return
    tell(f"{run.id}  {run.name}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}")
    verdicts.display(came, verdicts.waits(run))


async def _tally(office: EvaluationService, run: Run) -> Tally:
    """The table, with what nobody has counted: cases that were never begun, and what a command had kept when it was cut off."""
    tally = await office.tally(run)
    if run.status not in CLOSED or tally.cases >= run.head.get("total", 0):
        return tally
    async for line in office.results(run, tally=tally):
        if run.head.get(EXTERNALLY_DRIVEN):
            case = msgspec.json.decode(line)
            tally.case(case["status"])
            id, code = case["execution_context"]["test_case"]["id"], 0
            answers = tally.answers(tuple(check["check_type"] for check in case["check_results"]))
            for at, check in enumerate(case["check_results"]):
                why = check["error"]["message"] if "error" in check else ""
                code |= answers.note(at, check["status"], check["results"], id, why)
            answers.close(id, code)
    return tally


async def _failing(office: EvaluationService, run: Run) -> AsyncGenerator[str]:
    """The first cases that did not pass, each with the checks that say so."""
    found = 0
    async for line in office.results(run):
        case = msgspec.json.decode(line)
        wrong = [
            check["check_type"] + (f" ({check['error']['message']})" if check["status"] == "error" else "")
            for check in case["check_results"]
            if check["status"] != "completed" or not _passed(check["results"])
        ]
        if wrong:
            found += 1
            yield f"  {case['execution_context']['test_case']['id']}: {', '.join(wrong)}"
        if found == SHOWN:
            yield f"  …  all of them: assay export {run.id} -o results.jsonl"
            return


def _passed(results: dict[str, Any]) -> bool:
    response = results.get("response")
    inner = response.get("passed") if is_object(response) else None
    return results.get("passed", inner) is not False


def export_run(which: str, to: list[str], tenant: str | None) -> None:
    async def work(office: EvaluationService) -> str:
        run = await find_run(office.store, which, tenant=tenant)
        if run.kind == EVAL:
            from assay.cli import scorecard  # a lazy door

            await audit_read(office.store, run)
            return f"{await scorecard.export(office.store, run, to):,} results"
        if run.kind != KIND:
            await audit_read(office.store, run)
            came = await came_to(office.store, run, app.execution_environment(settings.load()))
            many = verdicts.export(came, to)
            return f"{many:,} verdict{'' if many == 1 else 's'}"
        try:
            terminal(run)
        except Conflict:
            raise UsageError(f"{run.id} is {run.status}: it has no results to export yet") from None
        await audit_read(office.store, run)
        sinks = [sink_for(name) for name in to]
        many = 0
        async for line in office.results(run):
            many += 1
            for sink in sinks:
                sink.write(line)
        request = await read_request(office.store, run.id)
        closing = RunFooter(
            evaluation_id=run.id,
            started_at=run.started or run.created,
            completed_at=run.ended,
            status=run.head.get("status", "error"),
            summary=summary_of(run),
            experiment=request.experiment,
            metadata=await office.metadata(run, request) or None,
        )
        for sink in sinks:
            sink.close(closing)
        return f"{many:,} results"

    many = _with_office(work)
    if "-" not in to:
        tell(f"{many} in {', '.join(to)}")


def _status(status: str | None) -> RunStatus | None:
    for known in STATUSES:
        if status == known:
            return known
    if status is None:
        return None
    raise UsageError(f"--status {status!r}: expected one of {', '.join(STATUSES)}")
