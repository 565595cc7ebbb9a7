"""A case, or one trial of a task, with all that a run has about it."""

from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import RESULTS, TASKS, EvalHeader
from assay.agenteval.results.detail import EvalDetail
from assay.agenteval.results.report import failure_reason
from assay.agenteval.scoring.task_checks import CHECKS
from assay.agenteval.task_content import read_task, seeds_of
from assay.agenteval.trial_events import judge_node, task_node
from assay.agents.trajectory import Invocations, node_events, steps_of_events, trajectory_in, usage_of
from assay.ports import Run, Store
from assay.protocol.json_types import JSON, is_object
from assay.results.check_names import result_label
from assay.results.reasons import is_failing, passed_of, reason_of
from assay.runs.log_reader import read_chunks


class ShownCase(Struct, kw_only=True):
    """A case, or one trial of a task, with all that a run has about it."""

    id: str
    failing: bool
    result: JSON | None  # a TestCaseResult; None if its content is not stored
    trial: int | None = None
    score: float | None = None
    trajectory: list[JSON] = []
    judge: list[JSON] = []  # usages
    beside: list[JSON] = []  # results of checks beside the score (`assay run --checks`)
    memory: list[JSON] = []  # what the task put into the memory of the agent
    live: bool = True
    reason: str = ""  # why there is no result

    @property
    def measured(self) -> bool:
        return self.result is not None and self.result["status"] == "completed"

    @property
    def document(self) -> JSON:
        """For `--json`. What the tested system said stands under `data`."""
        about: JSON = {"id": self.id, "failing": self.failing}
        about |= {} if self.trial is None else {"trial": self.trial}
        about |= {} if self.score is None else {"score": self.score}
        if self.result is None:
            return about | {"data": {"reason": self.reason}}
        checks = self.result["check_results"]
        case: JSON = self.result["execution_context"]["test_case"]
        reasons = [
            {"check": result_label(check), "passed": passed_of(check), "reason": reason_of(check, case)}
            for check in checks
        ]
        data: JSON = {"reasons": reasons, "result": self.result}
        data |= {"checks": self.beside} if self.beside else {}
        data |= {"memory": self.memory} if self.memory else {}
        data |= {"trajectory": self.trajectory} if self.trajectory else {}
        return about | {"data": data | ({"judge": self.judge} if self.judge else {})}


def case_of(result: JSON) -> ShownCase:
    output: JSON = result["execution_context"]["output"]
    metadata = output.get("metadata")
    about: JSON = metadata if is_object(metadata) else {}
    trial = about.get("trial")
    return ShownCase(
        id=str(result["execution_context"]["test_case"].get("id", "")),
        failing=any(map(is_failing, result["check_results"])),
        result=result,
        trial=trial if isinstance(trial, int) else None,
        trajectory=trajectory_in(output),
    )


async def trials_of(
    store: Store, run: Run, request: EvalHeader, card: EvalDetail
) -> AsyncIterator[ShownCase]:
    """Every trial that has evidence, in the order of the suite, then the tasks that have none."""
    left = {task.task_id: task for task in card.report.tasks}
    scores = {task.task_id: task.score for task in card.report.tasks}
    beside = read_chunks(store, run.id, CHECKS)
    other = await anext(beside, None)
    async for chunk in read_chunks(store, run.id, RESULTS):
        while other is not None and other.first < chunk.first:
            other = await anext(beside, None)
        side: list[JSON] = []
        if other is not None and other.first == chunk.first:
            side = msgspec.json.decode(other.data)["check_results"]
        result = msgspec.json.decode(chunk.data)
        context = result["execution_context"]
        id, about = context["test_case"]["id"], context["output"].get("metadata", {})
        left.pop(id, None)
        yield ShownCase(
            id=id,
            failing=failure_reason(result, request.pass_score) is not None or scores.get(id) == 0,
            result=result,
            trial=about.get("trial", 0) if request.trials > 1 else None,
            score=scores.get(id) if request.trials == 1 else None,
            live=request.has_live_tools,
            beside=side,
        )
    for id in left:
        yield ShownCase(
            id=id, failing=True, result=None, reason="this task was not run, or its evidence was not stored"
        )


async def add_trajectories(store: Store, run: Run, request: EvalHeader, cases: list[ShownCase]) -> None:
    """Read the steps of the selected trials from the log, and what their tasks put into the memory of the agent."""
    tasks = {case.id for case in cases}
    seeds: dict[str, list[JSON]] = {}
    async for chunk in read_chunks(store, run.id, TASKS):
        for line in chunk.lines():
            task = read_task(line)
            if task.task_id in tasks:
                seeds[task.task_id] = list(seeds_of(task))
    nodes = {task_node(id): id for id in tasks} | {judge_node(id): id for id in tasks}
    invocations = {id: Invocations() for id in tasks}
    async for event in node_events(store, run.id, set(nodes)):
        invocations[nodes[event["nodeId"]]].add(event)
    for case in cases:
        if case.result is None:
            continue
        events = invocations[case.id].trial(case.trial or 0)
        about = case.result["execution_context"]["output"].get("metadata", {})
        case.trajectory = steps_of_events(events, about.get("step_ms", []))
        case.memory = seeds.get(case.id, [])
        case.judge = [
            usage_of(event["payload"])
            for event in events
            if event["type"] == "provider.usage" and event["nodeId"] == judge_node(case.id)
        ]
