"""
A suite from recorded traces: the input of a trace, the answers of its tools as fixtures, and the recorded answer.

The recorded answer is a draft of the expected one, until a person says that it is right.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, field

from assay.protocol.agent_evals import EvalTask, Expected, Match
from assay.protocol.evaluation import CallMatch
from assay.protocol.json_types import JSON, is_object
from assay.protocol.suite_extension import (
    ExtendedSuite,
    FixtureError,
    FixtureRule,
    SuiteExtension,
    TaskExtension,
    Turns,
)
from assay.traces.redaction import Redactor

LONGEST = 60  # characters of a task id
MAX_TURNS = 100  # of a task
_OTHER = re.compile(r"[^a-z0-9]+")


class SuiteFromTraces(Struct, kw_only=True):
    """The tasks, and what a person must know about them."""

    tasks: list[EvalTask] = field(default_factory=list[EvalTask])
    extensions: dict[str, TaskExtension] = field(default_factory=dict[str, TaskExtension])
    cases: dict[str, str] = field(default_factory=dict[str, str])  # the id of the case of each task
    drafts: list[str] = field(default_factory=list[str])  # tasks whose expected answer is the recorded one
    left_out: list[tuple[str, str]] = field(
        default_factory=list[tuple[str, str]]
    )  # cases, each with the reason
    redacted: Counter[str] = field(default_factory=Counter[str])

    def suite(self, suite_id: str) -> ExtendedSuite:
        return ExtendedSuite(
            suite_id=suite_id,
            version="1.0.0",
            modes=("golden",),
            tasks=tuple(self.tasks),
            extension=SuiteExtension(tasks=self.extensions),
        )


class _NotATask(Exception):
    """A trace does not hold what a task needs."""


def suite_of_traces(
    contexts: Iterable[JSON], verdicts: Mapping[str, bool], limit: int | None = None
) -> SuiteFromTraces:
    """Tasks from the contexts of traces. `verdicts`: by case, whether its answer is right, as a person says."""
    made = SuiteFromTraces()
    for context in contexts:
        if limit is not None and len(made.tasks) == limit:
            break
        case = context["test_case"]["id"]
        redactor = Redactor()
        try:
            task_id = _task_id(redactor.text(case), made.cases)
            task, extension = _task(context, task_id, redactor)
        except _NotATask as reason:
            made.left_out.append((redactor.text(case), str(reason)))
            continue
        made.tasks.append(task)
        made.cases[task_id] = case
        made.redacted += redactor.counts
        if extension != TaskExtension():
            made.extensions[task_id] = extension
        if verdicts.get(case) is not True:
            made.drafts.append(task_id)
    return made


def _task(context: JSON, task_id: str, redactor: Redactor) -> tuple[EvalTask, TaskExtension]:
    """
    The task of a trace. Of a conversation of several traces, the input is what the user said first, and what the user
    said later are its turns; the expected answer is the last one.
    """
    metadata = context["output"]["metadata"]
    missing = metadata.get("missing", {})
    for part in ("test_case.input", "output.value", "output.metadata.trajectory"):
        if part in missing:
            raise _NotATask(missing[part])
    messages = [turn["content"] for turn in metadata.get("turns", ()) if turn["role"] == "user"]
    if len(messages) > MAX_TURNS:
        raise _NotATask(f"it has {len(messages):,} turns, and a task at most {MAX_TURNS}")
    messages = messages or [context["test_case"]["input"]]
    question, *later = (redactor.value(one) for one in messages)
    answer = redactor.value(context["output"]["value"])
    match = Match(strategy="contains" if isinstance(answer, str) else "json-match", value=answer)
    extension = TaskExtension(
        fixtures=tuple(_fixtures(redactor.value(metadata["trajectory"]))),
        turns=Turns(messages=tuple(later)) if later else UNSET,
    )
    return EvalTask(task_id=task_id, input=question, expected=Expected(kind="golden", match=match)), extension


class _Answer(NamedTuple):
    response: Any
    error: FixtureError | None


def _fixtures(steps: list[JSON]) -> list[FixtureRule]:
    """A rule for each call with its arguments. Calls with equal arguments and other answers are told apart by count."""
    returned: dict[
        str, list[_Answer | None]
    ] = {}  # by call id, which each turn of a conversation may begin anew
    for step in steps:
        if step["type"] == "tool-returned":
            returned.setdefault(step["call_id"], []).append(_answer(step))
    answers = {call_id: iter(given) for call_id, given in returned.items()}
    calls: list[tuple[str, JSON, list[_Answer]]] = []
    for step in steps:
        if step["type"] != "tool-called":
            continue
        tool, answer = step["tool"], next(answers.get(step["call_id"], iter(())), None)
        if answer is None:
            raise _NotATask(f"the result of {tool} is not recorded")
        if "inputs" not in step:
            raise _NotATask(f"the arguments of {tool} are not recorded")
        same = next(
            (given for name, inputs, given in calls if (name, inputs) == (tool, step["inputs"])), None
        )
        if same is None:
            calls.append((tool, step["inputs"], [answer]))
        else:
            same.append(answer)
    return [
        _rule(tool, inputs, answer, at if len(set(map(repr, given))) > 1 else None)
        for tool, inputs, given in calls
        for at, answer in enumerate(given if len(set(map(repr, given))) > 1 else given[:1], 1)
    ]


def _answer(step: JSON) -> _Answer | None:
    if step["status"] != "ok":
        error = step.get("error")
        message = error.get("message", "") if is_object(error) else ""
        return _Answer(UNSET, FixtureError(message=str(message)))
    return _Answer(step["outcome"], None) if "outcome" in step else None


def _rule(tool: str, inputs: JSON, answer: _Answer, call: int | None) -> FixtureRule:
    return FixtureRule(
        tool=tool,
        match=CallMatch(arguments=inputs, argument_match="equal"),
        call=UNSET if call is None else call,
        response=answer.response,
        error=UNSET if answer.error is None else answer.error,
    )


def _task_id(case: str, taken: Mapping[str, str]) -> str:
    """The id of the case as the id of a task: small letters, digits and hyphens."""
    base = _OTHER.sub("-", case.lower()).strip("-")[:LONGEST].strip("-") or "trace"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name
