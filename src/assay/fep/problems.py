"""Find every problem of a request, not only the first (FEP-33)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeGuard, TypeVar

import msgspec
from msgspec import UNSET

from assay.checks.arguments import bind
from assay.checks.registry import Registry
from assay.concurrency.loop_budget import spend
from assay.errors import MOST_PROBLEMS, InvalidRequest, Problem
from assay.inputs.context import read_checks
from assay.ports import Services
from assay.protocol.evaluation import Check
from assay.protocol.json_types import is_object
from assay.results.check_names import name_problems

T = TypeVar("T")


class ProblemCollector:
    """Collects the problems of the parts of a request: each part is read, whatever is wrong with the others."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, problems: Iterable[Problem]) -> None:
        """Add problems. Once there are too many, the request is refused, and the rest of it is not read."""
        spend()
        more = list(islice(problems, MOST_PROBLEMS))
        self.problems[MOST_PROBLEMS - len(more) :] = more  # too many of one part hide no problem of the next
        if len(self.problems) >= MOST_PROBLEMS:
            raise InvalidRequest(self.problems)

    def read(self, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except InvalidRequest as refusal:
            problems = refusal.problems
        self.add(problems)
        return None

    def refuse(self) -> None:
        if self.problems:
            raise InvalidRequest(self.problems)


def problems_of_checks(
    checks: Sequence[Any], path: str, registry: Registry, services: Services
) -> list[Problem]:
    """The problems of checks as the caller wrote them. All checks are read, also after one that cannot be read."""
    return list(islice(_problems_of_checks(checks, path, registry, services), MOST_PROBLEMS))


def _problems_of_checks(
    checks: Sequence[Any], path: str, registry: Registry, services: Services
) -> Iterator[Problem]:
    limits = services.limits
    yield from name_problems(islice(checks, limits.max_checks), path)
    for at, check in enumerate(islice(checks, max(limits.max_checks, limits.max_cases))):
        here = f"{path}[{at}]"
        if is_sequence(check):
            yield from _problems_of_checks(check, here, registry, services)
            continue
        spend()
        document = to_json(check) if isinstance(check, Check) else check
        readable, problems = read_checks([document], path)
        problems = [Problem(here + place.removeprefix(f"{path}[0]"), message) for place, message in problems]
        bound = ProblemCollector()
        for part in readable or _readable_part(document):
            bound.read(lambda part=part, here=here: bind(part, registry, here, services))
        yield from problems
        yield from new_problems(bound.problems, problems)


def new_problems(problems: Sequence[Problem], reported_problems: Sequence[Problem]) -> list[Problem]:
    """The problems at places without a reported problem."""
    places = tuple(problem.place for problem in reported_problems)
    return [problem for problem in problems if not problem.place.startswith(places)]


def _readable_part(document: Any) -> list[Check]:
    """As much of an invalid check as can be read, to find what else is wrong with it."""
    if not is_object(document) or not isinstance(document.get("type"), str):
        return []
    arguments, version = document.get("arguments"), document.get("version")
    return [
        Check(
            type=document["type"],
            arguments=arguments if is_object(arguments) else {},
            version=version if isinstance(version, str) else UNSET,
        )
    ]


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def to_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
