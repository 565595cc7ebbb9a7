"""What a fork of an eval run copies (openwop-contract §3.7): the tasks that have a score, or everything."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.run_header import REQUEST, RESULTS, TASKS, EvalHeader, read_request, read_tasks
from assay.agenteval.safety_records import SAFETY
from assay.agenteval.scorecard import Scorecard
from assay.agenteval.task_checks import CHECK_TALLY, CHECKS
from assay.cases.fold import CHECKS as LABELS
from assay.errors import EvalRefused, Problem
from assay.ports import Event, Run, Store
from assay.ports.agents import Agents
from assay.protocol.event_record import decode_event
from assay.runs.log_reader import read_events

EVIDENCE = (REQUEST, TASKS, RESULTS, CHECKS, CHECK_TALLY, SAFETY)
ALWAYS = frozenset({"run.started", "eval.started"})


class ScoredUnits(msgspec.Struct, frozen=True):
    """The tasks of a run that have a score, with their events and results."""

    request: EvalHeader
    tasks: frozenset[str]
    numbers: frozenset[int]
    labels: tuple[str, ...] = ()  # of the columns of the table of cases

    @property
    def evidence(self) -> dict[str, Callable[[int], bool]]:
        trials = self.request.trials

        def is_scored(first: int) -> bool:
            return first // trials in self.numbers

        of_trials = dict.fromkeys((RESULTS, CHECKS, CHECK_TALLY, SAFETY), is_scored)
        return {REQUEST: _all, TASKS: _all, **of_trials}

    def keep(self, event: Event) -> bool:
        """Whether to copy an event: those of scored tasks, by node, and not the end of the run."""
        if event.type in ALWAYS:
            return True
        node = decode_event(event.data).nodeId
        return node is not UNSET and node.partition(":")[2] in self.tasks

    @property
    def metadata(self) -> dict[str, Any]:
        return self.request.run_metadata | ({LABELS: list(self.labels)} if self.labels else {})


async def read_scored_units(store: Store, source: Run) -> ScoredUnits:
    request = await read_request(store, source.id)
    scorecard = Scorecard(request)
    async for event in read_events(store, source.id):
        scorecard.add(event)
    ids = msgspec.json.Decoder(_Id).decode
    numbers = {at async for at, line in read_tasks(store, source.id) if ids(line).taskId in scorecard.tasks}
    labels = tuple(source.metadata.get(LABELS, ()))
    return ScoredUnits(request, frozenset(scorecard.tasks), frozenset(numbers), labels)


def branch_point(source: Run, from_seq: int) -> None:
    """An eval can only be branched from its last event, because its tasks have no order."""
    if from_seq != source.events - 1:
        message = f"expected the last event of the run, {source.events - 1}, got {from_seq}"
        raise EvalRefused(Problem("fromSeq", message), field="fromSeq")


def same_agent(request: EvalHeader, agents: Agents) -> None:
    """
    Refuse another version of the agent: the copied scores belong to one version. An agent of a pack is stored with its
    run.
    """
    if request.definition is not None:
        return
    agent = agents.get(request.agent_id)
    if agent is None:
        raise EvalRefused(Problem("agentId", f"this host has no agent {request.agent_id!r}"), field="agentId")
    if agent.card.version != request.agent_version:
        message = (
            f"expected {request.agent_id} at version {request.agent_version}, as in the source run, "
            f"got {agent.card.version}"
        )
        raise EvalRefused(Problem("agentId", message), field="agentId")


class _Id(msgspec.Struct):
    taskId: str  # noqa: N815  # the wire's name


def _all(_: int) -> bool:
    return True
