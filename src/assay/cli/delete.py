"""`assay delete`: erase the content of stored runs."""

import sys

import msgspec
import typer

from assay.cli.console import count_of, echo, echo_json
from assay.cli.find_run import find_run
from assay.cli.runs import with_evaluations
from assay.errors import UsageError
from assay.fep.records.erase import erase as erase_content
from assay.fep.records.service import EvaluationService
from assay.ports import CLOSED, Run
from assay.protocol.runs import EraseResponse


def main(runs: list[str], *, tenant: str | None, dry_run: bool, yes: bool, json: bool) -> None:
    if not runs:
        raise UsageError("expected RUN..., or --all with --tenant; nothing was erased")
    if dry_run:
        raise UsageError("--dry-run: expected --all with it; nothing was erased")

    def work(erase: bool) -> list[Run]:
        async def with_store(evaluations: EvaluationService) -> list[Run]:
            store = evaluations.store
            found = {run.id: run for run in [await find_run(store, one, tenant=tenant) for one in runs]}
            open_runs = [f"{run.id} is {run.status}" for run in found.values() if run.status not in CLOSED]
            if open_runs:
                raise UsageError(
                    f"{'; '.join(open_runs)}: only a run that has ended can be erased; nothing was erased"
                )
            return (
                [await erase_content(evaluations, run) for run in found.values()]
                if erase
                else list(found.values())
            )

        return with_evaluations(with_store)

    if not yes:
        _confirm(work(erase=False))
    erased = work(erase=True)
    if json:
        rows = [EraseResponse(run_id=run.id, status=run.status, erased_at=run.erased) for run in erased]
        echo_json(msgspec.json.encode(rows))
        return
    for run in erased:
        echo(f"erased the content of {run.id}; its log and its scorecard stay")


def _confirm(runs: list[Run]) -> None:
    """Ask before anything is erased. Without a terminal there is no answer, so --yes is necessary."""
    if not sys.stdin.isatty():
        raise UsageError("expected --yes, because there is no terminal to ask; nothing was erased")
    for run in runs:
        echo(f"{run.id}  {run.status}  {run.name or '–'}  {run.created:%Y-%m-%d %H:%M:%S}")
    question = f"Erase inputs, outputs and results of {count_of(len(runs), 'run')}? This cannot be undone."
    if not typer.confirm(question):
        raise typer.Abort
