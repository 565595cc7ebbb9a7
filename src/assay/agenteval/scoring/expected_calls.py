"""The expectations on the tool calls of a task, as a check of its trial (ADR-0156)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from assay.checks.checker import Answer, Checker, closed_object
from assay.checks.trajectory.match_calls import CallMatcher, is_long_work, matchers_of
from assay.checks.trajectory.read_calls import Call, read_trajectory
from assay.checks.trajectory.wording import calls_text, pattern_document
from assay.checks.worker_tasks import WorkerTask, offload
from assay.ports import Services
from assay.protocol.agent_evals import EvalTask
from assay.protocol.agents import Step, ToolAttempt, ToolCalled, ToolReturned
from assay.protocol.evaluation import Check
from assay.protocol.json_types import JSON
from assay.protocol.suite_extension import TaskExtension, extension_of

MEMBER = "tool_calls"  # of `output.metadata` of a trial whose task has expectations


class ExpectedToolCalls(Checker):
    """Passes if each of `must_call` was called, and none of `must_not_call` was."""

    type = "expected_tool_calls"
    waits = False
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "reason": {"type": "string"},
            "missing": {"type": "array", "description": "calls of must_call that were not made"},
            "forbidden": {"type": "array", "description": "calls of must_not_call that were made"},
        },
        optional=("missing", "forbidden"),
    )

    calls: list[dict[str, Any]]
    must_call: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])
    must_not_call: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])

    def run(self, services: Services) -> Answer | WorkerTask:
        patterns = [*self.must_call, *self.must_not_call]
        return offload(self) if is_long_work(patterns, self.calls) else self.answer(services)

    def answer(self, services: Services) -> Answer:
        tried = read_trajectory(self.calls, "calls").calls
        made = [one for one in tried if not one.refused]

        def is_among(matcher: CallMatcher, calls: list[Call]) -> bool:
            return any(matcher.fits(call, services) for call in calls)

        missing = [one for one in matchers_of(self.must_call, "must_call") if not is_among(one, made)]
        forbidden = [one for one in matchers_of(self.must_not_call, "must_not_call") if is_among(one, tried)]
        lacking, broken = ([pattern_document(one.pattern) for one in part] for part in (missing, forbidden))
        answer: JSON = {"passed": not lacking and not broken, "reason": _reason(lacking, broken, tried)}
        answer |= {"missing": lacking} if lacking else {}
        return answer | ({"forbidden": broken} if broken else {})


def calls_check(expected: TaskExtension) -> Check:
    """The check of a task with these expectations."""
    lists = {
        name: [pattern_document(one) for one in patterns]
        for name, patterns in (("must_call", expected.must_call), ("must_not_call", expected.must_not_call))
    }
    return Check(type=ExpectedToolCalls.type, arguments={"calls": f"$.output.metadata.{MEMBER}", **lists})


def judges_arguments(task: EvalTask) -> bool:
    """Whether an expectation on the calls of a task reads their arguments."""
    extension = extension_of(task)
    patterns = () if extension is None else (*extension.must_call, *extension.must_not_call)
    return any(len(pattern_document(one)) > 1 for one in patterns)


def calls_of(attempts: Sequence[ToolAttempt], steps: Sequence[Step], *, cut: bool) -> list[JSON]:
    """
    The calls of a trial: those that were answered or refused, and those that the end of the trial cut off.

    `cut`: there are more attempts than were kept, so the steps, which have all calls without secrets, count too.
    """
    calls: list[JSON] = [
        {"tool": one.tool, "arguments": one.arguments}
        | ({"refused": True} if one.outcome == "refused" else {})
        for one in attempts
    ]
    returned = frozenset[str]() if cut else {one.call_id for one in steps if isinstance(one, ToolReturned)}
    return calls + [
        {"tool": one.tool, "arguments": one.inputs}
        for one in steps
        if isinstance(one, ToolCalled) and one.call_id not in returned
    ]


def _reason(missing: list[JSON], forbidden: list[JSON], called: Sequence[Call]) -> str:
    if not missing and not forbidden:
        return "made every expected call and no forbidden one"
    parts = [f"expected a call of {calls_text(missing)}"] if missing else []
    parts += [f"must not make a call of {calls_text(forbidden)}"] if forbidden else []
    by_arguments = {one["tool"] for one in (*missing, *forbidden) if len(one) > 1}
    names = calls_text(
        [one.document if one.tool in by_arguments else {"tool": one.tool} for one in called], join=", "
    )
    return f"{'; '.join(parts)}; it called {names or 'no tool'}"
