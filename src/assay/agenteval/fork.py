"""What a fork of an eval run takes along (contract §3.7): tasks that have a score, or everything."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.run_header import REQUEST, RESULTS, TASKS, EvalHeader, read_request, read_tasks
from assay.agenteval.scorecard import Scorecard
from assay.errors import EvalRefused, Problem
from assay.ports import Event, Run, Store
from assay.ports.agents import Agents
from assay.protocol.event_record import decode_event
from assay.runs.paging import read_events

EVIDENCE = (REQUEST, TASKS, RESULTS)
ALWAYS = frozenset({"run.started", "eval.started"})


class ScoredUnits(msgspec.Struct, frozen=True):
    """Which tasks of a run have a score, and which of its events and results are theirs."""

    request: EvalHeader
    tasks: frozenset[str]
    numbers: frozenset[int]

    @property
    def evidence(self) -> dict[str, Callable[[int], bool]]:
        trials = self.request.trials
        return {REQUEST: _all, TASKS: _all, RESULTS: lambda first: first // trials in self.numbers}

    def keep(self, event: Event) -> bool:
        """Of the task it belongs to, as its node says; nothing of the run's end."""
        if event.type in ALWAYS:
            return True
        node = decode_event(event.data).nodeId
        return node is not UNSET and node.partition(":")[2] in self.tasks

    @property
    def head(self) -> dict[str, Any]:
        return self.request.head


async def scored_of(store: Store, source: Run) -> ScoredUnits:
    request = await read_request(store, source.id)
    scorecard = Scorecard(request)
    async for event in read_events(store, source.id):
        scorecard.add(event)
    ids = msgspec.json.Decoder(_Id).decode
    numbers = {at async for at, line in read_tasks(store, source.id) if ids(line).taskId in scorecard.tasks}
    return ScoredUnits(request, frozenset(scorecard.tasks), frozenset(numbers))


def branch_point(source: Run, from_seq: int) -> None:
    """An eval is branched where it ended, and nowhere else: its tasks have no order."""
    if from_seq != source.events - 1:
        told = f"an eval run is branched from its last event, {source.events - 1}; got {from_seq}"
        raise EvalRefused(Problem("fromSeq", told), field="fromSeq")


def same_agent(request: EvalHeader, agents: Agents) -> None:
    """What is copied was measured of one version of an agent: another's scores do not belong beside them."""
    agent = agents.get(request.agent_id)
    if agent is None:
        raise EvalRefused(Problem("agentId", f"there is no agent {request.agent_id!r} here"), field="agentId")
    if agent.card.version != request.agent_version:
        told = f"{request.agent_id} is at version {agent.card.version}, and that run measured {request.agent_version}"
        raise EvalRefused(Problem("agentId", told), field="agentId")


class _Id(msgspec.Struct):
    taskId: str  # noqa: N815  # the wire's name


def _all(_: int) -> bool:
    return True
