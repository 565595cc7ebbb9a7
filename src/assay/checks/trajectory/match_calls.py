"""
Whether a call fits a pattern: the one rule of checks, of expectations of suites and of fixtures.

A call fits if it is a call of the tool and each other member of the pattern holds. A value that a check cannot take,
and a path that finds nothing, do not fit; a check that could not answer is a fault.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.checks import STANDARD
from assay.checks.arguments import BoundCheck, bind
from assay.checks.pairing import pair
from assay.checks.runner import call as run_prepared
from assay.checks.runner import prepare
from assay.checks.standard.has_items import item_key
from assay.checks.trajectory.read_calls import Call
from assay.checks.worker_tasks import WorkerTask, is_large
from assay.errors import Fault, InvalidRequest, MalformedPath, PathFault, Problem, ValueFault
from assay.ports import Services
from assay.protocol.evaluation import CallPattern, Check
from assay.protocol.json_types import is_object
from assay.protocol.validation_messages import problems_in

INLINE_PAIRS = 10_000  # patterns times calls that are compared in place: a few milliseconds
Answers = Mapping[str, Any] | Fault
RunTask = Callable[[WorkerTask], Awaitable[Any]]


class CallMatcher(NamedTuple):
    """A pattern that is ready to be compared with calls."""

    pattern: CallPattern
    members: Mapping[str, str] | None  # the arguments that a call has, each as a key for equality; None: any
    equal: bool  # it has no other arguments
    checks: tuple[BoundCheck, ...]

    def fits_members(self, call: Call) -> bool:
        """Whether it is a call of the tool with these arguments, whatever the checks say."""
        if call.tool != self.pattern.tool:
            return False
        if self.members is not None or self.checks:
            call.require_arguments()
        if self.members is None:
            return True
        given = call.arguments
        if not is_object(given) or (self.equal and len(given) != len(self.members)):
            return False
        return all(name in given and item_key(given[name]) == key for name, key in self.members.items())

    def fits(self, call: Call, services: Services) -> bool:
        """Whether the call fits. Long work of checks is done here: for a worker process, or without checks."""
        return self.fits_members(call) and all(
            _holds(_ask(bound, call, services, _run_here)) for bound in self.checks
        )

    async def fits_soon(self, call: Call, services: Services, run: RunTask) -> bool:
        """`fits` for an event loop. `run` does the long work of a check elsewhere."""
        if not self.fits_members(call):
            return False
        for bound in self.checks:
            answer = _ask(bound, call, services, lambda task: task)
            if not _holds(await run(answer) if isinstance(answer, WorkerTask) else answer):
                return False
        return True


def matcher_of(pattern: CallPattern | str, place: str, *, equal: bool = False) -> CallMatcher:
    """The matcher of a pattern, or of the name of a tool. An InvalidRequest has the problems of its checks."""
    if isinstance(pattern, str):
        pattern = CallPattern(tool=pattern)
    members = (
        None
        if pattern.arguments is UNSET
        else {name: item_key(value) for name, value in pattern.arguments.items()}
    )
    if pattern.argument_match is not UNSET:
        equal = pattern.argument_match == "equal"
    checks: list[BoundCheck] = []
    if pattern.schema is not UNSET:
        schema = Check(type="json_schema", arguments={"value": "$.arguments", "schema": pattern.schema})
        checks.append(_bind(schema, f"{place}.schema", inner=f"{place}.schema.arguments.schema"))
    if pattern.check is not UNSET:
        checks.append(_bind(pattern.check, f"{place}.check"))
    return CallMatcher(pattern, members, equal, tuple(checks))


def matchers_of(patterns: Iterable[Any], place: str, *, equal: bool = False) -> list[CallMatcher]:
    """The matchers of patterns as JSON: names, and objects. An InvalidRequest has every problem with its place."""
    matchers: list[CallMatcher] = []
    problems: list[Problem] = []
    for at, one in enumerate(patterns):
        here = f"{place}[{at}]"
        wrong = [] if isinstance(one, str | CallPattern) else problems_in(one, CallPattern, here)
        problems += wrong
        try:
            pattern = one if wrong or isinstance(one, str) else msgspec.convert(one, CallPattern)
            matchers += [] if wrong else [matcher_of(pattern, here, equal=equal)]
        except InvalidRequest as refused:
            problems += refused.problems
    if problems:
        raise InvalidRequest(problems)
    return matchers


def _bind(check: Check, place: str, inner: str = "") -> BoundCheck:
    if STANDARD.find(check.type, None, place).waits:
        message = f"expected a check that answers at once, and {check.type} waits for a model"
        raise InvalidRequest(Problem(f"{place}.type", message))
    try:
        bound = bind(check, STANDARD, place)
    except InvalidRequest as refused:
        raise InvalidRequest(
            [Problem(place if one.place == inner else one.place, one.message) for one in refused.problems]
        ) from None
    for path in bound.paths:
        if isinstance(path.query, MalformedPath):
            raise InvalidRequest(Problem(f"{place}.arguments.{path.field.name}", str(path.query)))
    return bound


def _ask(bound: BoundCheck, call: Call, services: Services, run: Callable[[WorkerTask], Any]) -> Any:
    answer: Any = run_prepared(prepare(bound, call.document, services), services)
    return run(answer) if isinstance(answer, WorkerTask) else answer


def _run_here(task: WorkerTask) -> Any:
    """Do the work of a worker process in this one."""
    module, _, name = task.task.partition(":")
    function = getattr(import_module(module), name)
    try:
        return task.to_answer(function(task.common)(task.item))
    except Fault as fault:
        return task.to_answer(fault)


def _holds(answer: Answers) -> bool:
    if isinstance(answer, PathFault | ValueFault):
        return False
    if isinstance(answer, Fault):
        raise answer
    return answer.get("passed") is True


def pairs(matchers: Sequence[CallMatcher], calls: Sequence[Call], services: Services) -> dict[int, int]:
    """
    A call for each pattern, no call for two, with as many patterns as possible: index of the pattern, index of the
    call.

    A pattern that fits many calls does not take the only call of another one.
    """
    fitting = [[at for at, call in enumerate(calls) if matcher.fits(call, services)] for matcher in matchers]
    return pair(fitting)


def is_long_work(patterns: Sequence[Any], calls: Sequence[Any]) -> bool:
    """Whether a worker process compares the calls: a pattern has a check, or there is much to compare."""
    checks = any(
        (is_object(one) and ("schema" in one or "check" in one))
        or (isinstance(one, CallPattern) and (one.schema is not UNSET or one.check is not UNSET))
        for one in patterns
    )
    return checks or len(patterns) * len(calls) > INLINE_PAIRS or is_large(patterns, calls)
