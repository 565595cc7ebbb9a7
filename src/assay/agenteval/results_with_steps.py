"""
The results of an eval run for other tools: each trial with its verdict, its steps and what detectors said.

The evidence has the answers of the judge. Whether a rubric passes follows from the score of the trial, which is in the
log, as the steps are.
"""

from collections.abc import AsyncIterator

import msgspec

from assay.agenteval.planning.run_header import read_request
from assay.agenteval.results.report import trial_evidence
from assay.agenteval.results.safety_results import detector_checks
from assay.agenteval.trial_events import task_node
from assay.agents.trajectory import STEP_TYPES, Invocations, chosen_events, steps_of_events
from assay.fep.records.case_content import about_output
from assay.ports import Run, Store
from assay.protocol.event_record import decode_event
from assay.protocol.json_types import JSON
from assay.results.reasons import passed_of

ENDS = ("assay.trial.ended", "eval.scored")  # of a trial, and of a task with one trial
WANTED = frozenset((*STEP_TYPES, "agent.invocation.started", *ENDS))


async def results_with_steps(store: Store, run: Run) -> AsyncIterator[bytes]:
    """
    One TestCaseResult per trial, in the order of the suite, with `trajectory` and the agent as `system` in the metadata
    of its output.

    The log is read once, as far as each trial needs. Trials end almost in order, so few are held at a time.
    """
    header = await read_request(store, run)
    reader = _LogReader(store, run, header.trials)
    async for chunk, record in trial_evidence(store, run):
        result: JSON = msgspec.json.decode(chunk.data)
        context: JSON = result["execution_context"]
        about = about_output(context["output"])
        events = await reader.trial(str(context["test_case"]["id"]), int(about.get("trial", 0)))
        steps = steps_of_events(events, about.get("step_ms", []))
        more: JSON = {"system": header.agent_id} | ({"trajectory": steps} if steps else {})
        context["output"]["metadata"] = more | about
        _add_verdict(result["check_results"], events, header.pass_score)
        if record is not None:
            made = detector_checks(record, result["check_results"][-1]["evaluated_at"])
            result["check_results"] += [
                one for one in made if one["status"] != "skip"
            ]  # the others do not apply
        yield msgspec.json.encode(result)


def _add_verdict(checks: list[JSON], events: list[JSON], bar: float) -> None:
    """Give a judge of a rubric the score of its trial, and whether that reaches the bar."""
    scores = [one["payload"].get("score") for one in events if one["type"] in ENDS]
    score = next((one for one in scores if isinstance(one, int | float)), None)
    for check in checks:
        if check["status"] == "completed" and passed_of(check) is None and score is not None:
            check["results"] |= {"score": score, "passed": score >= bar}


class _LogReader:
    """The events of trials, task by task. A task whose trials are all read is forgotten."""

    def __init__(self, store: Store, run: Run, trials: int) -> None:
        self._events = chosen_events(
            store,
            run.id,
            lambda event: event.type in WANTED and isinstance(decode_event(event.data).nodeId, str),
        )
        self._trials = trials
        self._tasks: dict[str, Invocations] = {}
        self._ended: dict[str, set[int]] = {}
        self._read: dict[str, int] = {}

    async def trial(self, task: str, number: int) -> list[JSON]:
        node = task_node(task)
        while number not in self._ended.get(node, ()):
            event = await anext(self._events, None)
            if event is None:
                break
            self._add(event)
        found = self._tasks[node].trial(number) if node in self._tasks else []
        self._read[node] = self._read.get(node, 0) + 1
        if self._read[node] == self._trials:
            for held in (self._tasks, self._ended, self._read):
                held.pop(node, None)
        return found

    def _add(self, event: JSON) -> None:
        node = str(event["nodeId"])
        self._tasks.setdefault(node, Invocations()).add(event)
        if event["type"] in ENDS and (event["type"] != "eval.scored" or self._trials == 1):
            self._ended.setdefault(node, set()).add(int(event["payload"].get("trial", 0)))
