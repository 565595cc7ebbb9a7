"""What the verbs for kept runs do: they read the store itself, and hold no run whole."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from assay import app, settings
from assay.checks import STANDARD
from assay.cli import report
from assay.errors import Conflict, WrongUsage
from assay.fep.evaluation import KIND
from assay.fep.office import Office, experiment_of, summary_of, terminal
from assay.fep.project import metadata_of
from assay.fep.sinks import Closing, sink_for
from assay.ports import Run, RunQuery, RunStatus, Services
from assay.protocol.values import is_object

T = TypeVar("T")
STATUSES: tuple[RunStatus, ...] = ("pending", "running", "completed", "failed", "cancelled")
SHOWN = 5  # cases that did not pass
MANY = 1000


@asynccontextmanager
async def _office() -> AsyncGenerator[Office]:
    chosen = settings.load()
    async with app.store(chosen) as store:
        yield Office(store, STANDARD, Services(limits=chosen.limits))


def _with_office(work: Callable[[Office], Awaitable[T]]) -> T:
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
        kind=KIND,
        name=experiment,
        statuses=frozenset({chosen}) if chosen else None,
        limit=limit,
    )
    runs, told = _with_office(lambda office: _listed(office, query))
    if json:
        print(msgspec.json.encode(told).decode())  # noqa: T201
        return
    if not runs:
        print("no runs are kept here; `assay evaluate --save` keeps one")  # noqa: T201
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    several = len({run.tenant for run in runs}) > 1
    for name in ("run", *(("tenant",) if several else ()), "status", "experiment"):
        table.add_column(name, overflow="fold")
    for name in ("cases", "not measured", "created"):
        table.add_column(name, justify="right")
    for run in runs:
        summary = summary_of(run)
        missing = summary.error_test_cases + summary.skipped_test_cases
        table.add_row(
            run.id,
            *((run.tenant,) if several else ()),
            run.status,
            run.name or "–",
            f"{summary.total_test_cases:,}",
            f"{missing:,}",
            f"{run.created:%Y-%m-%d %H:%M:%S}",
        )
    _console().print(table)


async def _listed(office: Office, query: RunQuery) -> tuple[list[Run], list[Any]]:
    runs = await office.store.runs(query)
    return runs, [office.operation(run) for run in runs]


def show_run(which: str, tenant: str | None, *, json: bool) -> None:
    async def work(office: Office) -> None:
        run = await _found(office, which, tenant)
        await office.reading(run)
        tally = await office.tally(run)
        if json:
            told = msgspec.to_builtins(office.operation(run)) | report.summary_of(tally)
            print(msgspec.json.encode(told).decode())  # noqa: T201
            return
        print(f"{run.id}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}")  # noqa: T201
        ended, started = run.ended or run.created, run.started or run.created
        report.show(tally, bar=None, seconds=(ended - started).total_seconds(), experiment=run.name or None)
        if "error" in run.head:
            print(f"it failed: {run.head['error']}")  # noqa: T201
        for line in [line async for line in _failing(office, run)]:
            print(line)  # noqa: T201

    _with_office(work)


async def _failing(office: Office, run: Run) -> AsyncGenerator[str]:
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
    async def work(office: Office) -> int:
        run = await _found(office, which, tenant)
        try:
            terminal(run)
        except Conflict:
            raise WrongUsage(f"{run.id} is {run.status}: it has no results to export yet") from None
        await office.reading(run)
        sinks = [sink_for(name) for name in to]
        many = 0
        async for line in office.results(run):
            many += 1
            for sink in sinks:
                sink.write(line)
        closing = Closing(
            evaluation_id=run.id,
            started_at=run.started or run.created,
            completed_at=run.ended,
            status=run.head.get("status", "error"),
            summary=summary_of(run),
            experiment=await experiment_of(office.store, run),
            metadata=metadata_of(await office.tally(run)) or None,
        )
        for sink in sinks:
            sink.close(closing)
        return many

    many = _with_office(work)
    if "-" not in to:
        print(f"{many:,} results in {', '.join(to)}")  # noqa: T201


async def _found(office: Office, which: str, tenant: str | None) -> Run:
    """By its id, by the beginning of one that no other has, or the latest."""
    if which == "latest":
        runs = await office.store.runs(RunQuery(tenant=tenant, kind=KIND, limit=1))
        if not runs:
            raise WrongUsage("no runs are kept here; `assay evaluate --save` keeps one")
        return runs[0]
    run = await office.store.run(which, tenant=tenant)
    if run is not None and run.kind == KIND:
        return run
    recent = await office.store.runs(RunQuery(tenant=tenant, kind=KIND, limit=MANY))
    fitting = [run for run in recent if run.id.startswith(which)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise WrongUsage(f"{which!r} is the beginning of {len(fitting)} runs: give more of it")
    raise WrongUsage(f"there is no run {which!r}; `assay list` shows those there are")


def _status(status: str | None) -> RunStatus | None:
    for known in STATUSES:
        if status == known:
            return known
    if status is None:
        return None
    raise WrongUsage(f"--status {status!r}: wanted one of {', '.join(STATUSES)}")


def _console() -> Console:
    wide = None if sys.stdout.isatty() else 200
    return Console(highlight=False, width=wide, color_system="auto" if wide is None else None)
