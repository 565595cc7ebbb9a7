"""`assay show` of a workflow run: turn by turn, what each agent did, what it answered, and the verdicts on it."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from assay.agents.trajectory import STEP_TYPES, step_of
from assay.cli import render_verdicts
from assay.cli.console import count_of, echo_json
from assay.cli.console_table import Page
from assay.cli.show_case import cut, text_of
from assay.cli.show_trajectory import NOT_STORED, step_text
from assay.ports import Run, Store
from assay.protocol.json_types import JSON, is_object
from assay.protocol.verification import Verification
from assay.runs.log_reader import all_events

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
            yield time, f"verdict: {render_verdicts.verdict_text(next(self._verdicts))}"
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
    return f", confidence {payload['confidence']:.0%}" if "confidence" in payload else ""


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
    page.put(f"{run.id}  {run.name}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}")
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
    render_verdicts.display_end(verification, render_verdicts.respond_hint(run))
