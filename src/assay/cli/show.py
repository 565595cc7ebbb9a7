"""`assay show`: one stored run with its cases, tasks or verdicts, read from the store without a server."""

import msgspec

from assay import settings
from assay.agenteval.planning.run_header import KIND as EVAL
from assay.auth.audit import audit_read
from assay.cli.console import echo, echo_json
from assay.cli.find_run import find_run
from assay.cli.run_list import row_of, show_rows
from assay.cli.runs import run_document, with_evaluations
from assay.cli.show_deployment import show_deployment
from assay.cli.show_run import show_eval, show_evaluation
from assay.cli.show_selection import ShowOptions
from assay.cli.show_workflow import show_workflow
from assay.errors import UsageError
from assay.fep.records.run_header import KIND
from assay.fep.records.service import EvaluationService
from assay.host import parts
from assay.ports import CLOSED, ERASED_BY, Run
from assay.promotion import KIND as DEPLOYMENT
from assay.results.tally import Tally
from assay.workflow.verification_report import verification_of


def show_run(
    *,
    run: str,
    failed: bool,
    case: str | None,
    task: str | None,
    check: str | None,
    limit: int | None,
    ks: tuple[int, ...],
    tenant: str | None,
    json: bool,
) -> None:
    """Print the cases, tasks or verdicts of one run, and their reasons."""
    if case is not None and task is not None:
        raise UsageError("--case and --task name the same thing: use one of them")
    options = ShowOptions(failed=failed, case=case or task, check=check, limit=limit, ks=ks, json=json)

    async def show_run(evaluations: EvaluationService) -> None:
        stored = await find_run(evaluations.store, run, tenant=tenant)
        await audit_read(evaluations.store, stored, content=not stored.erased)
        if stored.erased:
            await _show_erased(evaluations, stored, json=options.json)
        elif stored.kind == DEPLOYMENT:
            await _show_deployment(evaluations, stored, options)
        elif stored.kind == EVAL:
            await show_eval(evaluations.store, stored, options)
        elif stored.kind == KIND:
            await show_evaluation(evaluations, stored, await _tally(evaluations, stored), options)
        else:
            await _show_workflow(evaluations, stored, options)

    with_evaluations(show_run)


async def _show_erased(evaluations: EvaluationService, run: Run, *, json: bool) -> None:
    """What is left of a run: its counts and its score."""
    if json:
        echo_json(msgspec.json.encode(run_document(evaluations, run) | _erasure(run)))
        return
    show_rows([await row_of(evaluations, run)])
    echo(run.erasure)


def _erasure(run: Run) -> dict[str, str]:
    return {"erased": run.erased} | ({ERASED_BY: run.erased_by} if run.erased_by else {})


async def _show_deployment(evaluations: EvaluationService, run: Run, options: ShowOptions) -> None:
    if options.selects:
        raise UsageError(
            f"{run.id} is a transition: it has no cases, so --failed, --case, --task, --check and --k do not apply"
        )
    await show_deployment(evaluations.store, run, json=options.json)


async def _show_workflow(evaluations: EvaluationService, run: Run, options: ShowOptions) -> None:
    if options.selects:
        raise UsageError(
            f"{run.id} is a workflow run: it has no cases, so --failed, --case, --task, --check and --k do not apply"
        )
    verification = await verification_of(evaluations.store, run, parts.execution_environment(settings.load()))
    await show_workflow(evaluations.store, run, verification, limit=options.limit, json=options.json)


async def _tally(evaluations: EvaluationService, run: Run) -> Tally:
    """The stored tally, and the cases it lacks: those that never started."""
    tally = await evaluations.tally(run)
    if run.status not in CLOSED or tally.cases >= run.metadata.get("total", 0):
        return tally
    async for _ in evaluations.results(run, tally=tally):
        pass
    return tally
