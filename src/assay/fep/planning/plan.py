"""The plan of a request: a scorer for every case (FEP 2.3.3, 3.1; FEP-11, FEP-33)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeGuard, TypeVar

import msgspec
from msgspec import UNSET

from assay.checks.arguments import BoundCheck, bind
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.concurrency.loop_budget import spend
from assay.errors import MOST_PROBLEMS, InvalidRequest, Problem
from assay.fep.planning.scorer import Scorer
from assay.inputs.context import Context, NotAContext, read_checks
from assay.ports import Services
from assay.protocol.evaluation import Check
from assay.protocol.json_types import is_object
from assay.results.check_names import name_problems, numbered_labels

Checks = Sequence[Check] | Sequence[Sequence[Check]] | None
P = TypeVar("P")
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
COMPILE_AFTER = (
    16  # cases with equal own checks before those are compiled: compiling costs as much as scoring 16 cases
)
MAX_HELD = 128 << 20  # bytes of the compiled checks of one plan: 320,000 characters of patterns
BYTES_PER_BYTE = 40  # of memory of a plan, for each byte of its text; patterns are counted besides
CACHE_SIZE = 4_096  # scorers of per-case checks in the cache, by their JSON text


class Plan:
    """
    One scorer for all cases, one per case, or one for the own checks of each case. The constructor may raise
    InvalidRequest.
    """

    def __init__(
        self,
        checks: Checks,
        registry: Registry,
        services: Services | None = None,
        options: ResultOptions | None = None,
    ) -> None:
        self.services = services or Services()
        self.options = options or ResultOptions()
        self.checks = checks
        self._registry = registry
        self._scorers: dict[bytes, Scorer] = {}
        self._bound_checks: dict[bytes, BoundCheck] = {}
        self._held_bytes = 0  # an estimate of what its compiled checks hold
        self._last: tuple[Sequence[Check], Scorer] | None = None  # most callers ask twice for a case
        self.shared: Scorer | None = None
        self._case_scorers: list[Scorer] | None = None
        if checks is None:
            return
        flat = [one for one in checks if isinstance(one, Check)]
        if len(flat) == len(checks):
            self.shared = self._scorer(flat, "checks", is_shared=True)
        elif flat:
            raise InvalidRequest(
                Problem(
                    "checks", "expected one list of checks for all cases, or one list a case; got a mixture"
                )
            )
        else:
            lists = [list(one) for one in checks if not isinstance(one, Check)]
            self._case_scorers = collect_problems(
                [(f"checks[{at}]", one) for at, one in enumerate(lists)],
                lambda path, one: self._scorer(one, path),
            )

    def size(self, text: int) -> int:
        """An estimate of the memory of this plan, whose checks have `text` bytes as JSON."""
        return BYTES_PER_BYTE * text + self._held_bytes

    @property
    def versions(self) -> list[str]:
        """The checks of the plan with their versions. If cases have their own checks: all checks of the registry."""
        scorers = [self.shared] if self.shared else self._case_scorers
        if scorers is None:
            checkers = set(self._registry)
        else:
            checkers = {bound.checker for scorer in scorers for bound in scorer.checks}
        return sorted(f"{checker.type}@{checker.version}" for checker in checkers)

    @property
    def label_types(self) -> dict[str, str] | None:
        """The label of every check with its type; None if cases have their own checks."""
        scorers = [self.shared] if self.shared else self._case_scorers
        if scorers is None:
            return None
        pairs = ((scorer.labels, scorer.checks) for scorer in scorers)
        return {
            label: bound.checker.type
            for labels, checks in pairs
            for label, bound in zip(labels, checks, strict=True)
        }

    @property
    def list_count(self) -> int | None:
        """The number of lists of checks; None if there is one list for all cases or none."""
        return None if self._case_scorers is None else len(self._case_scorers)

    def scorer_for(self, index: int, context: Context, path: str = "test_case.checks") -> Scorer:
        """The scorer of the case with this number. A case may have own checks only if the request has none."""
        if context.checks is not None:
            if self.shared or self._case_scorers is not None:
                raise InvalidRequest(
                    Problem(
                        path,
                        "expected checks in this case or in the request, got both",
                    )
                )
            return self._scorer(context.checks, path)
        if self.shared is not None:
            return self.shared
        if self._case_scorers is not None:
            if index < len(self._case_scorers):
                return self._case_scorers[index]
            raise InvalidRequest(
                Problem(
                    f"checks[{index}]",
                    f"expected {len(self._case_scorers)} cases, as many as lists of checks, got case {index + 1}",
                )
            )
        raise InvalidRequest(Problem(path, "there are no checks: give checks for all cases, or in this case"))

    def problems_of(self, checks: Any, path: str, reported_problems: Sequence[Problem]) -> list[Problem]:
        """The problems of the own checks of a refused case, without those at places that are already reported."""
        if not is_sequence(checks):
            return []
        if len(checks) > self.services.limits.max_checks:
            return [self._too_many(checks, path)]
        return new_problems(
            problems_of_checks(checks, path, self._registry, self.services), reported_problems
        )

    def _too_many(self, checks: Sequence[Any], path: str) -> Problem:
        limit = self.services.limits.max_checks
        return Problem(path, f"{len(checks)} checks; the limit is {limit} (raise it with ASSAY_MAX_CHECKS)")

    def _scorer(self, checks: Sequence[Check], path: str, *, is_shared: bool = False) -> Scorer:
        if len(checks) > self.services.limits.max_checks:
            raise InvalidRequest(self._too_many(checks, path))
        last = self._last  # read once: several threads may use a plan
        if last is not None and last[0] is checks:
            return last[1]
        key = path.encode() if is_shared else _encode(checks)
        cached = self._scorers.get(key)
        if cached is None:
            bound_checks = self._bind_all(checks, path)
            cached = Scorer(
                bound_checks,
                numbered_labels(bound_checks) if is_shared else [bound.label for bound in bound_checks],
                self.services,
                self.options,
                compile_after=0 if is_shared else COMPILE_AFTER,
            )
            if b"null" in key:
                return cached
            if len(self._scorers) >= CACHE_SIZE:
                self._scorers.clear()
            self._scorers[key] = cached
        self._last = checks, cached
        return cached

    def _bind_all(self, checks: Sequence[Check], path: str) -> list[BoundCheck]:
        names = name_problems(checks, path)
        parts = [(f"{path}[{at}]", check) for at, check in enumerate(checks)]
        try:
            bound_checks = collect_problems(parts, self._bind)
        except InvalidRequest as refusal:
            raise InvalidRequest([*names, *refusal.problems]) from None
        if names:
            raise InvalidRequest(names)
        return bound_checks

    def _bind(self, path: str, check: Check) -> BoundCheck:
        """Bind a check; equal checks of different cases are bound once."""
        key = _encode(check)
        cached = self._bound_checks.get(key)
        if cached is None:
            cached = bind(check, self._registry, path, self.services)
            self._count_bytes(cached, path)
            if b"null" in key:
                return cached  # JSON writes NaN as null: the text is not a safe cache key
            if len(self._bound_checks) >= CACHE_SIZE:
                self._bound_checks.clear()
            self._bound_checks[key] = cached
        return cached

    def _count_bytes(self, bound: BoundCheck, path: str) -> None:
        """
        Own checks of cases that take much memory are forgotten. Checks of the request are held, so they are refused.
        """
        self._held_bytes += bound.checker.held_bytes(bound.literals)
        if self._held_bytes <= MAX_HELD:
            return
        if self.checks is not None:
            message = (
                "the patterns of all checks are too long together: they take more than "
                f"{MAX_HELD >> 20} MB of memory"
            )
            raise InvalidRequest(Problem(path, message))
        self._bound_checks.clear()
        self._scorers.clear()
        self._held_bytes = 0


def collect_problems(parts: Iterable[tuple[str, P]], make: Callable[[str, P], T]) -> list[T]:
    """Call `make` for every part and its path. Raises one InvalidRequest with the problems of all parts."""
    made: list[T] = []
    problems: list[Problem] = []
    for path, part in parts:
        try:
            made.append(make(path, part))
        except InvalidRequest as refusal:
            problems.extend(refusal.problems)
            spend()
            if len(problems) >= MOST_PROBLEMS:
                break
    if problems:
        raise InvalidRequest(problems)
    return made


def other_problems(refusal: NotAContext, plan: Plan | None) -> list[Problem]:
    """The other problems of the own checks of a refused case."""
    return [] if plan is None else plan.problems_of(refusal.checks, "test_case.checks", refusal.problems)


# Find every problem of a request, not only the first (FEP-33).


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
