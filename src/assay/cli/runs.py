"""`assay list`: the stored runs, read from the store without a server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from assay import settings
from assay.checks import STANDARD
from assay.cli import render_verdicts
from assay.cli.console import echo, echo_json
from assay.cli.find_run import LIST_HINT, NO_RUNS
from assay.cli.run_list import RunRow, row_of, show_rows
from assay.errors import UsageError
from assay.fep.records.run_header import KIND
from assay.fep.records.service import EvaluationService
from assay.host import parts
from assay.ports import Run, RunQuery, RunStatus, Services
from assay.promotion import KIND as DEPLOYMENT
from assay.workflow import KIND as WORKFLOW

T = TypeVar("T")
STATUSES: tuple[RunStatus, ...] = (
    "pending", "running", "waiting-approval", "waiting-input", "completed", "failed", "cancelled",
)  # fmt: skip


def list_runs(
    *, status: str | None, experiment: str | None, tenant: str | None, limit: int, json: bool
) -> None:
    """Print the stored runs, newest first."""
    query = RunQuery(tenant=tenant, name=experiment, statuses=_statuses(status), limit=limit)
    rows, documents = with_evaluations(lambda evaluations: _list(evaluations, query))
    if json:
        echo_json(msgspec.json.encode(documents))
        return
    if not rows:
        options = {"--status": status, "--experiment": experiment, "--tenant": tenant}
        filters = " ".join(f"{name} {value}" for name, value in options.items() if value is not None)
        echo(f"no stored run matches {filters}; {LIST_HINT}" if filters else NO_RUNS)
        return
    show_rows(rows)
    for run in (row.run for row in rows):
        if run.kind in (WORKFLOW, DEPLOYMENT) and (hint := render_verdicts.respond_hint(run)) is not None:
            echo(hint)


def with_evaluations(action: Callable[[EvaluationService], Awaitable[T]]) -> T:
    """Do something with the evaluations of the store that the settings name."""

    async def main() -> T:
        chosen = settings.load()
        async with parts.store(chosen, light=True) as store:
            return await action(EvaluationService(store, STANDARD, Services(limits=chosen.limits)))

    return asyncio.run(main())


def _statuses(status: str | None) -> frozenset[RunStatus] | None:
    if status is None:
        return None
    for name in STATUSES:
        if status == name:
            return frozenset({name})
    raise UsageError(f"--status {status!r}: expected one of {', '.join(STATUSES)}")


async def _list(evaluations: EvaluationService, query: RunQuery) -> tuple[list[RunRow], list[Any]]:
    rows = [await row_of(evaluations, run) for run in await evaluations.store.runs(query)]
    return rows, [run_document(evaluations, row.run) | row.document for row in rows]


def run_document(evaluations: EvaluationService, run: Run) -> dict[str, Any]:
    """A run in a list, without content."""
    return msgspec.to_builtins(evaluations.operation(run)) if run.kind == KIND else _document(run)


def _document(run: Run) -> dict[str, Any]:
    """A run of another kind in a list, without content."""
    return {"runId": run.id, "kind": run.kind, "status": run.status, "created": run.created, **run.metadata}
