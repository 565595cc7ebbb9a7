"""Forks a run (openwop-contract §3.7, §13.9): a replay repeats its whole record, a branch starts with a part of it."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from assay.errors import Conflict, ForkRejected, InvalidRequest, Problem
from assay.ports import CLOSED, Principal, Run
from assay.ports.telemetry import tracing
from assay.protocol.json_types import is_object
from assay.protocol.redaction import redact
from assay.runs.intake import new_id
from assay.runs.run_options import configurable_problems
from assay.workflow.service import WorkflowService
from assay.workflow.state.execution_state import WorkflowRequest, read_request, read_steps

Mode = Literal["replay", "branch"]


async def fork(
    workflows: WorkflowService,
    principal: Principal,
    run: str,
    mode: Mode,
    from_seq: int | None = None,
    overlay: Mapping[str, Any] | None = None,
) -> Run:
    """
    Start the fork.

    A replay takes the results from the record of its source; it calls a model only if that answer is not stored.

    A branch takes the steps that end before `from_seq`, then goes on with the options of the overlay.
    """
    source = await workflows.get(run, principal.tenant)
    request = await fork_request(workflows, source, mode, from_seq, overlay)
    return await workflows.submit(request, principal.tenant, new_id("run-"))


async def fork_request(
    workflows: WorkflowService,
    source: Run,
    mode: Mode,
    from_seq: int | None,
    overlay: Mapping[str, Any] | None,
) -> WorkflowRequest:
    """The request of the fork. It refuses, in this order: invalid options, a wrong `fromSeq`, an erased source."""
    run = source.id
    options: Any = (overlay or {}).get("configurable", overlay or {})
    start = _validate(source, mode, from_seq, options)
    steps = await read_steps(workflows.store, source.id)
    if source.events > 1 and len(steps) == 0:
        raise ForkRejected(
            "replay_memory_snapshot_unavailable",
            f"the recorded steps of run {run} are erased",
            fromSeq=start,
            sourceRunId=run,
            reason="retention_expired",
        )
    if mode == "replay" and source.status not in CLOSED:
        raise Conflict(
            "status", f"run {run}", f"it is {source.status}; only a run that has ended can be replayed"
        )
    taken = len(steps) if mode == "replay" else sum(kept.events <= start for kept in steps)
    known = await read_request(workflows.store, source.id)
    return msgspec.structs.replace(
        known,
        source=source.id,
        source_steps=taken,
        replay=mode == "replay",
        overlay=redact(options),
        earlier_overlays=tuple(one for one in known.overlays if one[0] <= taken),
        parent=None,
        traceparent=tracing.get(),
    )


def _validate(source: Run, mode: Mode, from_seq: int | None, options: Any) -> int:
    problems: list[Problem] = []
    if mode == "branch" and from_seq is None:
        problems.append(Problem("fromSeq", "a branch requires this member"))
    if from_seq is not None and from_seq < 0:
        problems.append(Problem("fromSeq", "expected a number from 0"))
    if not is_object(options):
        problems.append(Problem("runOptionsOverlay.configurable", "expected an object"))
    elif mode == "replay" and options:
        problems.append(
            Problem(
                "runOptionsOverlay", "expected mode branch with it; a replay has the options of its source"
            )
        )
    else:
        problems += configurable_problems(options)
    if problems:
        raise InvalidRequest(problems)
    start = from_seq or 0
    if start > source.events:
        raise ForkRejected(
            "invalid_from_seq",
            f"run {source.id} has {source.events} events; a fork cannot start at {start}",
            fromSeq=start,
            sourceRunId=source.id,
        )
    return start
