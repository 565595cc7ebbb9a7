"""`assay export`: write the results or the verdicts of a stored run to files, or send them to where its traces are."""

from msgspec import UNSET

from assay import settings
from assay.agenteval.planning.run_header import KIND as EVAL
from assay.auth.audit import audit_read
from assay.cli.console.console import count_of, echo, echo_err
from assay.cli.render import verdicts
from assay.cli.stored_runs.run_list import with_evaluations
from assay.cli.stored_runs.send import Delivery, read_targets, report_problems, send_run
from assay.errors import Conflict, UsageError
from assay.errors.exit_codes import ERROR, PASSED
from assay.fep.outputs.output_file import OutputFile
from assay.fep.outputs.sinks import sink_for
from assay.fep.records.run_header import KIND, case_count, read_request
from assay.fep.records.service import EvaluationService, require_ended, summary_of
from assay.host import parts
from assay.ports import Run
from assay.promotion import KIND as DEPLOYMENT
from assay.results.run_end import RunEnd, RunFooter
from assay.results.run_part import part_in
from assay.runs.find_run import find_run
from assay.runs.run_names import name_of
from assay.version import __version__
from assay.workflow.verification_report import verification_of

DESTINATIONS = ("otlp", "phoenix")  # of `--to`, each also with =URL; every other name is a format


def main(*, run: str, output: list[str], to: list[str], tenant: str | None) -> int:
    """Write the files and print their names, then send. The result is the exit code."""
    if not output and not to:
        raise UsageError("expected -o FILE or --to WHERE, got none")
    format, destinations = _read_to(to, output)
    targets, explanations = read_targets(destinations), settings.load().send_explanations

    async def work(evaluations: EvaluationService) -> tuple[str, str, list[Delivery]]:
        stored = await find_run(evaluations.store, run, tenant=tenant)
        written = await _write(evaluations, stored, output, format) if output else ""
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


def _read_to(to: list[str], output: list[str]) -> tuple[str | None, list[str]]:
    """The format of the files, if `--to` names one, and where else the verdicts go. Nothing is written yet."""
    formats = [one for one in to if "=" not in one and one not in DESTINATIONS]
    if not formats:
        return None, to
    from assay.interchange.exports import NAMES, writer_of  # deferred import: only for other formats

    for one in formats:
        if one not in NAMES:
            possible = f"{', '.join(NAMES)}, otlp, otlp=URL, phoenix or phoenix=URL"
            raise UsageError(f"--to: expected {possible}, got {one!r}")
    if len(formats) > 1:
        raise UsageError(f"--to: expected one format, got {' and '.join(formats)}")
    if not output:
        raise UsageError(f"--to {formats[0]}: expected -o FILE, got none")
    for name in output:
        writer_of(formats[0], name)
    return formats[0], [one for one in to if one not in formats]


async def _write(evaluations: EvaluationService, stored: Run, output: list[str], format: str | None) -> str:
    """Write the files. Says what is in them."""
    if stored.kind == DEPLOYMENT:
        raise UsageError(
            f"{stored.id}: expected a run with results, got a transition; `assay show {stored.id} --json` prints it"
        )
    if format is not None:
        return count_of(await _export_as(evaluations, stored, format, output), "result")
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


async def _export_as(evaluations: EvaluationService, run: Run, format: str, output: list[str]) -> int:
    """Write the results in the format of another tool, and return their number."""
    from assay.agenteval.results_with_steps import (
        results_with_steps,
    )  # deferred import: for eval runs
    from assay.interchange.exports import ExportSink  # deferred import
    from assay.interchange.exports.exported import ExportedRun  # deferred import

    if run.kind not in (KIND, EVAL):
        raise UsageError(f"{run.id}: expected a run with results of cases, got one of the kind {run.kind}")
    _require_ended(run)
    await audit_read(evaluations.store, run)
    started = run.started or run.created
    name = name_of(run.metadata) or run.name
    about = ExportedRun(run.id, name, started, run.ended or started, run.status, __version__)
    files = [OutputFile(name) for name in output]
    sinks = [ExportSink(about, format, file.name, file.write) for file in files]
    count = 0
    lines = evaluations.results(run) if run.kind == KIND else results_with_steps(evaluations.store, run)
    async for line in lines:
        count += 1
        for sink in sinks:
            sink.add(line)
    for sink, file in zip(sinks, files, strict=True):
        sink.close()
        file.close()
    return count


def _require_ended(run: Run) -> None:
    try:
        require_ended(run)
    except Conflict:
        raise UsageError(f"{run.id}: expected a run that has ended, got one that is {run.status}") from None


async def _export_evaluation(evaluations: EvaluationService, run: Run, to: list[str]) -> int:
    """Write the results, and return their number."""
    _require_ended(run)
    await audit_read(evaluations.store, run)
    request, is_complete = await read_request(evaluations.store, run.id), run.status == "completed"
    sinks = [sink_for(name, request.columns) for name in to]
    part = part_in(run.metadata)
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
            complete=is_complete and part is None,
            part=part or UNSET,
        ),
    )
    for sink in sinks:
        sink.close(footer)
    return count
