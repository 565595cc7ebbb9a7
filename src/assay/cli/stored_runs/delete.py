"""`assay admin delete`: erase the content of stored runs."""

import asyncio
import shutil
import sys
from pathlib import Path

import msgspec
import typer

from assay import settings
from assay.checks import STANDARD
from assay.cli.console.console import count_of, echo, echo_json
from assay.cli.stored_runs.run_list import with_evaluations
from assay.errors import EnvironmentFailure, UsageError
from assay.errors.storage import open_runs_refusal
from assay.fep.records.erase import DeletionReport, TenantDeletion, survey_tenant
from assay.fep.records.erase import erase as erase_content
from assay.fep.records.service import EvaluationService
from assay.host import parts as host_parts
from assay.ports import CLOSED, LOCAL_TENANT, Run, Services, Store
from assay.protocol.runs import EraseResponse
from assay.runs.find_run import find_run
from assay.settings import Settings


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
                    f"expected runs that have ended, but {'; '.join(open_runs)}; nothing was erased"
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


# `assay admin delete --all --tenant NAME`: delete all content of a tenant.

STAYS = "its runs with their scores, their logs, its API keys and the audit log stay"
NOUNS = {  # by kind of document
    "annotation": "annotation",
    "idempotency": "stored response",
    "llm-answer": "cached answer",
    "memory": "memory entry",
    "pack": "pack",
    "suite": "suite",
}


def delete_tenant(runs: list[str], *, tenant: str | None, dry_run: bool, yes: bool, json: bool) -> None:
    if runs:
        raise UsageError(f"expected RUN... or --all, got both: {', '.join(runs)}; nothing was deleted")
    if not tenant:
        raise UsageError("--all: expected --tenant NAME with it; nothing was deleted")
    if not (dry_run or yes or sys.stdin.isatty()):
        raise UsageError("expected --yes, because there is no terminal to ask; nothing was deleted")
    chosen = settings.load()
    found = asyncio.run(_survey(chosen, tenant))
    if dry_run:
        _show(found, json=json)
        return
    if not yes:
        _show(found, json=False)
        if not typer.confirm(f"Delete all content of tenant {tenant!r}? This cannot be undone."):
            raise typer.Abort
    report = asyncio.run(_delete(chosen, tenant))
    _show(report, json=json)
    if False in (report.log_emptied, report.compacted):
        raise EnvironmentFailure(
            "the content was deleted, but other processes were reading the file, so its write-ahead log "
            "still has old bytes; "
            "repeat the command when they have ended"
        )


async def _survey(chosen: Settings, tenant: str) -> DeletionReport:
    async with host_parts.store(chosen) as store:
        content = await store.survey(tenant)
        if not (content.runs or content.documents or content.keys):
            raise UsageError(
                f"--tenant {tenant!r}: the store has no run, document or data key of this tenant"
            )
        if content.open_count:
            raise open_runs_refusal(tenant, content.open_runs, content.open_count)
        return await survey_tenant(store, tenant)


async def _delete(chosen: Settings, tenant: str) -> DeletionReport:
    async with host_parts.store(chosen) as store:
        evaluations = EvaluationService(store, STANDARD, Services(limits=chosen.limits))
        report = await TenantDeletion(evaluations, tenant).delete()
        if chosen.evidence_key is None:
            await _compact(store, report)
    if tenant == LOCAL_TENANT:
        shutil.rmtree(Path(chosen.home) / "cache", ignore_errors=True)
    return report


async def _compact(store: Store, report: DeletionReport) -> None:
    """Without encryption, deleted rows may have left bytes in unused parts of SQLite's file."""
    if report.log_emptied is not msgspec.UNSET:
        report.compacted = await store.compact()


def _show(report: DeletionReport, *, json: bool) -> None:
    if json:
        echo_json(msgspec.json.encode(report))
        return
    parts = [f"the content of {count_of(report.runs, 'run')}"]
    for kind, many in report.documents.items():
        noun = NOUNS.get(kind, f"{kind} document")
        parts.append(f"{many:,} memory entries" if kind == "memory" and many != 1 else count_of(many, noun))
    if report.data_keys:
        parts.append(count_of(report.data_keys, "data key"))
    verb = "would delete" if report.dry_run else "deleted"
    echo(f"{report.tenant}: {verb} {', '.join(parts)}")
    deployments = f"{count_of(report.deployments, 'deployment')}, " if report.deployments else ""
    echo(f"{report.tenant}: {deployments}{STAYS}")
