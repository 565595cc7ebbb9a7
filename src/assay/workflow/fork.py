"""A run again from another's record (contract §3.7, §13.9): all of it as a replay, or a part of it as the beginning of another course."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from assay.errors import Conflict, ForkRejected, InvalidRequest, Problem
from assay.ports import CLOSED, Principal, Run
from assay.ports.telemetry import tracing
from assay.protocol.json_types import is_object
from assay.protocol.redaction import redact
from assay.runs.ids import new_id
from assay.runs.options import configurable_problems
from assay.workflow.execution import WorkflowRequest
from assay.workflow.service import WorkflowService
from assay.workflow.steps import read_request, read_steps

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
    A new run, begun. A replay asks nobody that was asked before: its source's record answers, but for a model whose answer is not kept.

    A branch takes over the steps that lie wholly before `from_seq` and goes on by itself, with the options laid over.
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
    """What such a run is asked for; refused, in this order, where it makes no sense, reaches too far, or is no longer kept."""
    run = source.id
    options: Any = (overlay or {}).get("configurable", overlay or {})
    start = _checked(source, mode, from_seq, options)
    steps = await read_steps(workflows.store, source.id)
    if source.events > 1 and len(steps) == 0:
        raise ForkRejected(
            "replay_memory_snapshot_unavailable",
            f"what run {run} was told is no longer kept",
            fromSeq=start,
            sourceRunId=run,
            reason="retention_expired",
        )
    if mode == "replay" and source.status not in CLOSED:
        raise Conflict(
            "status", f"run {run}", f"it is {source.status}, and only what has ended can be replayed"
        )
    taken = len(steps) if mode == "replay" else sum(kept.events <= start for kept in steps)
    known = await read_request(workflows.store, source.id)
    return msgspec.structs.replace(
        known,
        source=source.id,
        source_steps=taken,
        replay=mode == "replay",
        overlay=redact(options),
        laid=tuple(one for one in known.overlays if one[0] <= taken),
        parent=None,
        traceparent=tracing.get(),
    )


def _checked(source: Run, mode: Mode, from_seq: int | None, options: Any) -> int:
    problems: list[Problem] = []
    if mode == "branch" and from_seq is None:
        problems.append(Problem("fromSeq", "a branch needs to know from where"))
    if from_seq is not None and from_seq < 0:
        problems.append(Problem("fromSeq", "expected a number from 0"))
    if not is_object(options):
        problems.append(Problem("runOptionsOverlay.configurable", "expected an object"))
    elif mode == "replay" and options:
        problems.append(Problem("runOptionsOverlay", "only a branch can go another way than its source"))
    else:
        problems += configurable_problems(options)
    if problems:
        raise InvalidRequest(problems)
    start = from_seq or 0
    if start > source.events:
        raise ForkRejected(
            "invalid_from_seq",
            f"run {source.id} has {source.events} events, so that nothing begins at {start}",
            fromSeq=start,
            sourceRunId=source.id,
        )
    return start
