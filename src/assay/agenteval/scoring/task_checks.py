"""
FEP checks beside the scorecard (`assay run --checks`): each trial's output and trajectory is put to them, and its score
is not.

Their results are evidence of the run. No event and no scorecard holds them.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from assay.checks.registry import Registry
from assay.errors import Fault, InvalidRequest, Problem
from assay.fep.agent_runs.agent_output import UNMEASURED, AgentOutput, has_answer, metadata_of, score_output
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import plan_of
from assay.inputs.context import Context
from assay.ports import EvidenceChunk, Services, Store
from assay.protocol.agent_evals import EvalTask
from assay.protocol.agents import AgentCard, InvocationResult, Step
from assay.protocol.json_types import JSON
from assay.protocol.redaction import redact_json
from assay.results.tally import Tally, TallyRecord
from assay.runs.log_reader import read_chunks

CHECKS, CHECK_TALLY = "checks", "checks-tally"  # kinds of evidence, one chunk a trial
_encode = msgspec.json.Encoder().encode
_record = msgspec.json.Decoder(TallyRecord).decode


class CheckedTrial(Struct, frozen=True):
    """The results of the checks of one trial: a TestCaseResult, and its tally."""

    line: bytes
    tally: TallyRecord


def plan_checks(checks: Any, registry: Registry, services: Services) -> Plan:
    """The plan of one list of checks for all tasks, or an InvalidRequest with everything that is wrong with them."""
    plan = plan_of(checks, registry, services)
    if plan.shared is None:
        raise InvalidRequest(
            Problem("checks", "expected one list of checks for all tasks, got one list a case")
        )
    return plan


async def check_trial(
    plan: Plan,
    task: EvalTask,
    result: InvocationResult,
    steps: Sequence[Step],
    *,
    seconds: float,
    card: AgentCard,
    fault: Fault | None,
    trial: int,
    traced: JSON,
) -> CheckedTrial:
    """Put the output of a trial to the checks. `traced`: metadata of the agent's own spans."""
    about = metadata_of(result, steps, seconds, card) | {"trial": trial, **traced}
    about |= {"outcome": UNMEASURED} if fault else {}
    case: JSON = {"id": task.task_id, "input": task.input}
    case |= {} if task.expected.match is UNSET else {"expected": task.expected.match.value}
    answered = fault is None and has_answer(result)
    value = result.result if answered else None
    document: JSON = {"test_case": case, "output": {"value": value, "metadata": about}}
    output = AgentOutput(context=Context(_encode(document), document), answered=answered, fault=fault)
    tally = Tally(part=True)
    options = ExecutionOptions(seconds=plan.services.limits.check_seconds)
    line = await score_output(plan, 0, output, tally, options)
    return CheckedTrial(redact_json(line), tally.record())  # scored as it came, stored without secrets


def check_chunks(trial: CheckedTrial | None, number: int) -> list[EvidenceChunk]:
    if trial is None:
        return []
    data = {CHECKS: trial.line, CHECK_TALLY: _encode(trial.tally)}
    return [EvidenceChunk(kind=kind, first=number, last=number, data=one) for kind, one in data.items()]


async def recorded_checks(store: Store, run: str) -> AsyncIterator[bytes]:
    """A TestCaseResult for each trial, in the order of the suite; nothing if the run has no such checks."""
    async for chunk in read_chunks(store, run, CHECKS):
        yield chunk.data


async def check_tally(store: Store, run: str) -> Tally:
    tally = Tally()
    async for chunk in read_chunks(store, run, CHECK_TALLY):
        tally.add(_record(chunk.data))
    return tally
