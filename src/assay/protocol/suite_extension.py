"""
What a suite has beside OpenWOP: the member `x-assay`, by task.

The schema of AgentEvalSuite is closed at every level, so the member is taken out before the schema is applied. A suite
with it stays on this machine: no other host knows what it means.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from assay.protocol.agent_evals import AgentEvalSuite, EvalTask
from assay.protocol.evaluation import CallMatch, CallPattern, Check

MEMBER = "x-assay"


class _Closed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class FixtureError(_Closed, frozen=True, kw_only=True):
    """The failure of a tool, with a code of docs/agent-protocol.md."""

    code: Literal["tool_error", "invalid_arguments", "forbidden", "rate_limited", "timeout"] = "tool_error"
    message: str = ""


class FixtureRule(_Closed, frozen=True, kw_only=True):
    """
    The answer of a tool to the calls that fit. Without `match`, all of them fit.

    With `call`, only one of those that fit: 1 is the first.
    """

    tool: Annotated[str, msgspec.Meta(min_length=1)]
    match: CallMatch | UnsetType = UNSET
    call: Annotated[int, msgspec.Meta(ge=1)] | UnsetType = UNSET
    response: Any = UNSET
    error: FixtureError | UnsetType = UNSET

    @property
    def pattern(self) -> CallPattern:
        if self.match is UNSET:
            return CallPattern(tool=self.tool)
        return CallPattern(tool=self.tool, **msgspec.structs.asdict(self.match))


MAX_TURNS = 10  # of a conversation that says no other number


class SimulatedUser(_Closed, frozen=True, kw_only=True):
    """A user that a model plays."""

    persona: Annotated[str, msgspec.Meta(min_length=1)]
    goal: Annotated[str, msgspec.Meta(min_length=1)]
    stop: str = ""  # when the conversation is over
    model: str = ""  # PROVIDER:MODEL; that of the judge without it


class Turns(_Closed, frozen=True, kw_only=True):
    """What the user says after the input of a task: fixed messages, or what a simulated user answers."""

    messages: tuple[Any, ...] = ()
    user: SimulatedUser | UnsetType = UNSET
    max: Annotated[int, msgspec.Meta(ge=1, le=100)] | UnsetType = UNSET  # turns of a simulated user


class TaskExtension(_Closed, frozen=True, kw_only=True):
    """
    What assay has of a task beside OpenWOP: expectations on its calls, checks of its trial, answers of tools by their
    arguments, and turns of a conversation.
    """

    must_call: tuple[CallPattern, ...] = ()
    must_not_call: tuple[CallPattern, ...] = ()
    checks: tuple[Check, ...] = ()
    fixtures: tuple[FixtureRule, ...] = ()
    turns: Turns | UnsetType = UNSET

    @property
    def expects_calls(self) -> bool:
        return bool(self.must_call or self.must_not_call)


class SuiteExtension(_Closed, frozen=True, kw_only=True):
    """`x-assay` of a suite. `tasks` are by their ids."""

    tasks: dict[str, TaskExtension] = {}


class ExtendedTask(EvalTask, frozen=True, kw_only=True):
    """A task of a run with what its suite has beside OpenWOP."""

    extension: TaskExtension | UnsetType = field(default=UNSET, name=MEMBER)


# The forms of a file, for its schema. A call of `must_call` may be the name of a tool alone.

ToolName = Annotated[str, msgspec.Meta(min_length=1)]


class TaskOfFile(_Closed, frozen=True, kw_only=True):
    """What a file has of a task beside OpenWOP: a TaskExtension."""

    must_call: tuple[CallPattern | ToolName, ...] = ()
    must_not_call: tuple[CallPattern | ToolName, ...] = ()
    checks: tuple[Check, ...] = ()
    fixtures: tuple[FixtureRule, ...] = ()
    turns: Turns | UnsetType = UNSET


class ExtensionOfFile(_Closed, frozen=True, kw_only=True):
    """`x-assay` of a file. `tasks` are by their ids."""

    tasks: dict[str, TaskOfFile] = {}


class SuiteOfFile(AgentEvalSuite, frozen=True, kw_only=True):
    """A suite as assay reads it from a file: an AgentEvalSuite of OpenWOP, which may have `x-assay`."""

    extension: ExtensionOfFile | UnsetType = field(default=UNSET, name=MEMBER)


class ExtendedSuite(AgentEvalSuite, frozen=True, kw_only=True):
    """A suite with the member `x-assay`."""

    extension: SuiteExtension = field(name=MEMBER)


def extended_tasks(suite: AgentEvalSuite, tasks: Iterable[EvalTask]) -> tuple[EvalTask, ...]:
    """The tasks, each with its part of `x-assay`."""
    if not isinstance(suite, ExtendedSuite):
        return tuple(tasks)
    parts = suite.extension.tasks
    return tuple(
        ExtendedTask(**msgspec.structs.asdict(task), extension=parts[task.task_id])
        if task.task_id in parts
        else task
        for task in tasks
    )


def extension_of(task: EvalTask) -> TaskExtension | None:
    """What its suite has for the task beside OpenWOP."""
    return task.extension or None if isinstance(task, ExtendedTask) else None
