"""`assay show`: one stored run with its cases, tasks or verdicts, read from the store without a server."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from assay import settings
from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agents.trajectory import STEP_TYPES, step_of
from assay.auth.audit import audit_read
from assay.cli.console.console import count_of, echo, echo_json
from assay.cli.console.console_table import Page
from assay.cli.render import verdicts
from assay.cli.render.case import NOT_STORED, cut, step_text, text_of
from assay.cli.stored_runs.run_list import members_of, row_of, run_document, show_rows, with_evaluations
from assay.cli.stored_runs.show_run import ShowOptions, show_eval, show_evaluation
from assay.errors import UsageError
from assay.fep.records.run_header import KIND
from assay.fep.records.service import EvaluationService
from assay.host import parts
from assay.ports import CLOSED, ERASED_BY, Run, Store
from assay.promotion import KIND as DEPLOYMENT
from assay.protocol.json_types import JSON, is_object
from assay.protocol.verification import Verification
from assay.results.tally import Tally
from assay.runs.find_run import find_run
from assay.runs.log_reader import all_events
from assay.runs.run_names import title_of
from assay.stats.number_text import confidence_text
from assay.workflow.verification_report import verification_of


def show_run(
    *,
    run: str,
    failing: bool,
    case: str | None,
    task: str | None,
    check: str | None,
    limit: int | None,
    max_bytes: int | None,
    ks: tuple[int, ...],
    tenant: str | None,
    json: bool,
) -> None:
    """Print the cases, tasks or verdicts of one run, and their reasons."""
    if case is not None and task is not None:
        raise UsageError("--case and --task: expected one of them, got both; they name the same thing")
    if max_bytes is not None and not (failing and json):
        raise UsageError("--max-bytes: expected --failing and --json beside it")
    options = ShowOptions(
        failing=failing, case=case or task, check=check, limit=limit, max_bytes=max_bytes, ks=ks, json=json
    )

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
        from assay.cli.render.run_documents import ErasedRun  # deferred import: it loads much

        document = run_document(evaluations, run) | _erasure(run)
        echo_json(msgspec.json.encode(members_of(ErasedRun, document)))
        return
    show_rows([await row_of(evaluations, run)])
    echo(run.erasure)


def _erasure(run: Run) -> dict[str, str]:
    return {"erased": run.erased} | ({ERASED_BY: run.erased_by} if run.erased_by else {})


async def _show_deployment(evaluations: EvaluationService, run: Run, options: ShowOptions) -> None:
    if options.selects:
        raise UsageError(
            f"--failing, --case, --task, --check and --k: expected a run with cases, got {run.id}, a transition"
        )
    await show_deployment(evaluations.store, run, json=options.json)


async def _show_workflow(evaluations: EvaluationService, run: Run, options: ShowOptions) -> None:
    if options.selects:
        raise UsageError(
            f"--failing, --case, --task, --check and --k: expected a run with cases, got {run.id}, a workflow run"
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


# `assay show` of a management run: the transition of a deployment, and its log.

HIDDEN = ("agentId", "outputs", "data", "error", "owner")  # the headline, a record, or content for a client


async def show_deployment(store: Store, run: Run, *, json: bool) -> None:
    """Print the transition and its events."""
    events = [event async for event in all_events(store, run.id)]
    if json:
        document = {"runId": run.id, "kind": run.kind, "status": run.status, **run.metadata, "events": events}
        echo_json(msgspec.json.encode(document))
        return
    about, page = run.metadata, Page()
    page.put(f"{run.id}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}")
    to = f" to {about['toState']}" if "toState" in about else ""
    page.put(f"{about['transition']} {about['agentId']}@{about['agentVersion']}{to}, by {about['principal']}")
    for event in events:
        page.put(f"  {event['type']}{_members(event['payload'])}")
        error: JSON = event["payload"].get("error", {})
        for line in str(error.get("message", "")).splitlines():
            page.put(f"    {line}", "yellow")
    if "code" in about:
        page.put(f"nothing changed: {about['code']}")
    if run.status.startswith("waiting"):
        page.put(f"it waits for an approval: assay respond {run.id} --accept, or --reject")


def _members(payload: JSON) -> str:
    shown = (
        f"{name} {value}"
        for name, value in payload.items()
        if name not in HIDDEN and isinstance(value, str | int)
    )
    return "".join(f" · {member}" for member in shown)


# `assay show` of a workflow run: turn by turn, what each agent did, what it answered, and the verdicts on it.

TIME = 10  # columns of a time


class WorkflowLog:
    """The lines of a run's log. A line has the time since the event before it."""

    def __init__(self, verification: Verification) -> None:
        self._verification = verification
        self._verdicts = iter(verification.verdicts)  # in the order of their events
        self._before: datetime | None = None
        self.turns = 0

    def lines(self, event: JSON) -> Iterator[tuple[str, str]]:
        """The lines of one event: a time and a text. A line without a time is a heading."""
        payload, type = event["payload"], event["type"]
        if type == "agent.invocation.started":
            return  # it is recorded with its first step, which gets the time
        now = datetime.fromisoformat(event["timestamp"])
        spent = round((now - self._before).total_seconds() * 1000) if self._before else 0
        self._before = now
        time = f"{max(0, spent):,} ms"
        if type == "runOrchestrator.decided":
            yield from self._decision(payload)
        elif type in STEP_TYPES:
            text = step_text(step_of(event), live=True)
            duration = payload.get("durationMs")
            yield f"{duration:,} ms" if isinstance(duration, int) else time, text
        elif type == "agent.decided":
            yield time, f"{payload['agentId']} answers{_confidence(payload)}: {_content(payload, 'decision')}"
        elif type == "agent.verified":
            yield time, f"verdict: {verdicts.verdict_text(next(self._verdicts))}"
        elif type == "agent.invocation.completed" and payload["outcome"] != "completed":
            yield time, f"{payload['agentId']} ends: {payload['outcome']}"
        elif type == "variable.changed":
            yield time, f"{payload['name']} is set: {_content(payload, 'next')}"
        elif type in (
            "interrupt.requested",
            "interrupt.resolved",
            "node.failed",
            "run.failed",
            "cap.breached",
        ):
            error = payload.get("error")
            about = f": {error.get('message', '')}" if is_object(error) else ""
            yield time, f"{type.replace('.', ' ')}{about}"

    def _decision(self, payload: JSON) -> Iterator[tuple[str, str]]:
        decision = payload["decision"]
        if decision["kind"] == "terminate":
            yield "", f"the supervisor ends the run: {decision.get('reason', 'no reason is recorded')}"
            return
        self.turns += 1
        yield "", f"turn {payload['iteration']}"
        for failure in self._verification.failures:
            if failure.iteration == payload["iteration"]:
                yield "", f"  {failure.role} {failure.agent_id} failed: {cut(failure.reason)}"


def _confidence(payload: JSON) -> str:
    return f", confidence {confidence_text(payload['confidence'])}" if "confidence" in payload else ""


def _content(payload: JSON, name: str) -> str:
    return cut(text_of(payload[name])) if name in payload else NOT_STORED


async def show_workflow(
    store: Store, run: Run, verification: Verification, *, limit: int | None, json: bool
) -> None:
    """Print the log of the run, at most `limit` turns of it, then how it ended."""
    if json:
        events = [event async for event in all_events(store, run.id)]
        echo_json(msgspec.json.encode({**msgspec.to_builtins(verification), "events": events}))
        return
    page, log = Page(), WorkflowLog(verification)
    page.put(f"{title_of(run)}  {run.name}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}")
    async for event in all_events(store, run.id):
        if event["type"] == "run.started" and "inputs" in event["payload"]:
            page.put_indented("input ", cut(text_of(event["payload"]["inputs"])))
        if limit is not None and log.turns >= limit and event["type"] == "runOrchestrator.decided":
            left = verification.turns - limit
            page.put(f"… {count_of(left, 'more turn')}: --limit N shows more" if left > 0 else "…")
            break
        for time, text in log.lines(event):
            if time:
                page.put_indented(f"{time:>{TIME}}  ", " ".join(text.split()))
            else:
                page.put(text)
    verdicts.display_end(verification, verdicts.respond_hint(run))
