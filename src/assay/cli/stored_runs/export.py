"""`assay export`: write the results or the verdicts of a stored run to files, or send them to where its traces are."""

from assay import settings
from assay.agenteval.planning.run_header import KIND as EVAL
from assay.auth.audit import audit_read
from assay.cli.console.console import count_of, echo, echo_err
from assay.cli.render import verdicts
from assay.cli.stored_runs.run_list import with_evaluations
from assay.cli.stored_runs.send import Delivery, read_targets, report_problems, send_run
from assay.errors import Conflict, UsageError
from assay.errors.exit_codes import ERROR, PASSED
from assay.fep.outputs.sinks import sink_for
from assay.fep.records.run_header import KIND, case_count, read_request
from assay.fep.records.service import EvaluationService, require_ended, summary_of
from assay.host import parts
from assay.ports import Run
from assay.promotion import KIND as DEPLOYMENT
from assay.results.run_end import RunEnd, RunFooter
from assay.runs.find_run import find_run
from assay.workflow.verification_report import verification_of


def main(*, run: str, output: list[str], to: list[str], tenant: str | None) -> int:
    """Write the files and print their names, then send. The result is the exit code."""
    if not output and not to:
        raise UsageError("expected -o FILE or --to WHERE, got none")
    targets, explanations = read_targets(to), settings.load().send_explanations

    async def work(evaluations: EvaluationService) -> tuple[str, str, list[Delivery]]:
        stored = await find_run(evaluations.store, run, tenant=tenant)
        written = await _write(evaluations, stored, output) if output else ""
        if not targets:
            return stored.id, written, []
        await audit_read(evaluations.store, stored)
        return stored.id, written, await send_run(evaluations, stored, targets, explanations=explanations)

    id, written, deliveries = with_evaluations(work)
    say = echo_err if "-" in output else echo
    if output and "-" not in output:
        say(f"{written} in {', '.join(output)}")
    for one in deliveries:
        if not one.error:
            say(one.line)
    return PASSED if report_problems(id, deliveries) else ERROR


async def _write(evaluations: EvaluationService, stored: Run, output: list[str]) -> str:
    """Write the files. Says what is in them."""
    if stored.kind == DEPLOYMENT:
        raise UsageError(
            f"{stored.id}: expected a run with results, got a transition; `assay show {stored.id} --json` prints it"
        )
    if stored.kind == EVAL:
        from assay.cli.render import scorecard  # deferred import: only for eval runs

        await audit_read(evaluations.store, stored)
        count = count_of(await scorecard.export(evaluations.store, stored, output), "result")
        return "the scorecard" if all(name.endswith(".json") for name in output) else count
    if stored.kind != KIND:
        await audit_read(evaluations.store, stored)
        environment = parts.execution_environment(settings.load())
        verification = await verification_of(evaluations.store, stored, environment)
        return count_of(verdicts.export(verification, output), "verdict")
    return count_of(await _export_evaluation(evaluations, stored, output), "result")


async def _export_evaluation(evaluations: EvaluationService, run: Run, to: list[str]) -> int:
    """Write the results, and return their number."""
    try:
        require_ended(run)
    except Conflict:
        raise UsageError(f"{run.id}: expected a run that has ended, got one that is {run.status}") from None
    await audit_read(evaluations.store, run)
    request, is_complete = await read_request(evaluations.store, run.id), run.status == "completed"
    sinks = [sink_for(name, request.columns) for name in to]
    count = 0
    async for line in evaluations.results(run):
        count += 1
        for sink in sinks:
            sink.write(line)
    footer = RunFooter(
        evaluation_id=run.id,
        started_at=run.started or run.created,
        completed_at=run.ended,
        status=run.metadata.get("status", "error"),
        summary=summary_of(run),
        experiment=request.experiment,
        metadata=await evaluations.metadata(run, request) or None,
        end=RunEnd(
            planned=count if is_complete else run.metadata.get("planned", case_count(run) or None),
            results=count,
            complete=is_complete,
        ),
    )
    for sink in sinks:
        sink.close(footer)
    return count
