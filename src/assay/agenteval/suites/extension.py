"""Reads `x-assay` of a suite: expectations and fixtures of tasks. Every problem has its place."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from assay.checks.standard.has_items import item_key
from assay.checks.trajectory.match_calls import matcher_of, matchers_of
from assay.errors import InvalidRequest, Problem
from assay.protocol.agent_evals import AgentEvalSuite, EvalTask
from assay.protocol.evaluation import CallMatch, CallPattern
from assay.protocol.json_types import JSON, is_list, is_object
from assay.protocol.suite_extension import (
    MEMBER,
    ExtendedSuite,
    FixtureRule,
    SuiteExtension,
    TaskExtension,
    extension_of,
)
from assay.protocol.validation_messages import problems_in

LISTS = ("must_call", "must_not_call")
MEMBERS = (*LISTS, "checks", "fixtures", "turns")
LIVE = "live-shadow"  # the one mode without fixtures
NAMED = 10  # tasks that a refusal names
SHOWN = 500  # problems


def without_extension(document: Any) -> tuple[Any, Any]:
    """The document without `x-assay`, and `x-assay`; UNSET if it has none."""
    if not is_object(document) or MEMBER not in document:
        return document, UNSET
    return {name: value for name, value in document.items() if name != MEMBER}, document[MEMBER]


def not_here(extension: Any) -> list[Problem]:
    """The refusal of `x-assay` by packs, REST and other hosts. It names the tasks."""
    tasks: Any = extension.get("tasks") if is_object(extension) else None
    ids = list(tasks) if is_object(tasks) else []
    more = f" and {len(ids) - NAMED:,} more" if len(ids) > NAMED else ""
    named = f" of {', '.join(str(id)[:100] for id in ids[:NAMED])}{more}" if ids else ""
    message = (
        f"expectations, fixtures or turns{named} that only assay on this machine knows: `assay run`,"
        " assay.run_suite and pytest take them, packs and servers do not; remove the member"
    )
    return [Problem(MEMBER, message)]


def form_problems(extension: Any) -> list[Problem]:
    """What is wrong with `x-assay` whatever the tasks of the suite are."""
    found = _with_objects(extension)
    tasks: Any = found.get("tasks") if is_object(found) else None
    if not is_object(tasks):
        return problems_in(found, SuiteExtension, MEMBER)
    problems = problems_in({**found, "tasks": {}}, SuiteExtension, MEMBER)
    for id, task in tasks.items():
        place = f"{MEMBER}.tasks.{id[:100]}"
        found = problems_in(task, TaskExtension, place)
        problems += found or _pattern_problems(task, place)
    return problems[:SHOWN]


def _pattern_problems(task: JSON, place: str) -> Iterator[Problem]:
    """What is wrong with the schemas and checks of patterns."""
    for name in LISTS:
        try:
            matchers_of(task.get(name, ()), f"{place}.{name}")
        except InvalidRequest as refused:
            yield from refused.problems
    for at, rule in enumerate(task.get("fixtures", ())):
        here = f"{place}.fixtures[{at}]"
        try:
            matcher_of(msgspec.convert(rule, FixtureRule).pattern, f"{here}.match")
        except InvalidRequest as refused:
            yield from refused.problems


def extend(suite: AgentEvalSuite, extension: Any) -> ExtendedSuite:
    """The suite with `x-assay`, which has a valid form. An InvalidRequest lists what does not fit the tasks."""
    found = msgspec.convert(_with_objects(extension), SuiteExtension)
    tasks = {task.task_id: task for task in suite.tasks}
    problems: list[Problem] = []
    for id, expected in found.tasks.items():
        place = f"{MEMBER}.tasks.{id[:100]}"
        if id not in tasks:
            problems.append(Problem(place, "the suite has no task with this id"))
        elif expected == TaskExtension():
            problems.append(Problem(place, f"expected {', '.join(MEMBERS[:-1])} or {MEMBERS[-1]}, got none"))
        else:
            problems += _problems(expected, tasks[id], place, live=set(suite.modes) == {LIVE})
            problems += _turn_problems(expected, f"{place}.turns")
            problems += _fixture_problems(expected.fixtures, f"{place}.fixtures")
    if problems:
        raise InvalidRequest(problems)
    return ExtendedSuite(**msgspec.structs.asdict(suite), extension=found)


def _with_objects(extension: Any) -> Any:
    """With `{tool: NAME}` in place of each NAME."""
    tasks: Any = extension.get("tasks") if is_object(extension) else None
    if not is_object(tasks):
        return extension
    return {**extension, "tasks": {id: _task(task) for id, task in tasks.items()}}


def _task(task: Any) -> Any:
    if not is_object(task):
        return task
    return {
        name: [{"tool": one} if isinstance(one, str) else one for one in value]
        if name in LISTS and is_list(value)
        else value
        for name, value in task.items()
    }


def _problems(expected: TaskExtension, task: EvalTask, place: str, *, live: bool) -> Iterator[Problem]:
    tools = sorted({*tools_of(task), *(one.tool for one in expected.fixtures)})
    for name in LISTS:
        for at, pattern in enumerate(getattr(expected, name)):
            if not live and pattern.tool not in tools:
                there = ", ".join(tools[:NAMED]) or "none"
                message = (
                    f"no fixture of the task answers {pattern.tool[:100]!r}, so the agent does not have this tool;"
                    f" there are fixtures for {there}"
                )
                yield Problem(f"{place}.{name}[{at}].tool", message)
    for at, needed in enumerate(expected.must_call):
        if any(_covers(forbidden, needed) for forbidden in expected.must_not_call):
            message = "a call that must be made and must not be made: every such call is one of must_not_call"
            yield Problem(f"{place}.must_call[{at}]", message)


def tools_of(task: EvalTask) -> set[str]:
    """The tools that a task has answers of."""
    found = set[str]() if task.fixtures is UNSET else {one.tool for one in task.fixtures.tool_responses}
    extension = extension_of(task)
    return found | ({one.tool for one in extension.fixtures} if extension else set())


def _fixture_problems(rules: Sequence[FixtureRule], place: str) -> Iterator[Problem]:
    complete: dict[str, int] = {}  # the first rule of a tool that answers every call
    for at, rule in enumerate(rules):
        if rule.match == CallMatch():
            yield Problem(f"{place}[{at}].match", "expected arguments, schema or check, got none")
        if rule.response is not UNSET and rule.error is not UNSET:
            yield Problem(f"{place}[{at}]", "expected a response or an error, got both")
        if rule.tool in complete:
            message = f"it answers no call: {place}[{complete[rule.tool]}] answers every call of {rule.tool}"
            yield Problem(f"{place}[{at}]", message)
        elif rule.match is UNSET and rule.call is UNSET:
            complete[rule.tool] = at


def _turn_problems(extension: TaskExtension, place: str) -> Iterator[Problem]:
    turns = extension.turns
    if turns is UNSET:
        return
    if bool(turns.messages) == (turns.user is not UNSET):
        got = "both" if turns.messages else "neither"
        yield Problem(place, f"expected messages or a user, got {got}")
    elif turns.messages and turns.max is not UNSET:
        yield Problem(f"{place}.max", "expected a user with it: fixed messages have their own number")


def _covers(forbidden: CallPattern, needed: CallPattern) -> bool:
    """Whether every call that fits `needed` fits `forbidden`, as far as their arguments say."""
    if forbidden.tool != needed.tool or forbidden.schema is not UNSET or forbidden.check is not UNSET:
        return False
    members = {name: item_key(value) for name, value in (needed.arguments or {}).items()}
    return all(members.get(name) == item_key(value) for name, value in (forbidden.arguments or {}).items())
