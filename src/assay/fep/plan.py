"""What a request comes to: a sheet of checks for every case (FEP 2.3.3, 3.1; decisions 11, 33)."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from assay.checks.arguments import BoundCheck, bind
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.errors import InvalidRequest, Problem
from assay.fep.context import Context, NotAContext
from assay.fep.problems import beyond, is_sequence, problems_of_checks
from assay.fep.scorer import Scorer
from assay.ports import Services
from assay.protocol.evaluation import Check

Checks = Sequence[Check] | Sequence[Sequence[Check]] | None
P = TypeVar("P")
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
PATIENCE = 16  # cases with the same checks of their own before those are compiled, which costs as much as 16
REMEMBERED = 4_096  # sheets of per-case checks kept, by their text


class Plan:
    """One sheet for all cases, one a case, or the cases' own. Making it may refuse; nothing has happened yet."""

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
        self._sheets: dict[bytes, Scorer] = {}
        self._bounds: dict[bytes, BoundCheck] = {}
        self.shared: Scorer | None = None
        self._each: list[Scorer] | None = None
        if checks is None:
            return
        flat = [one for one in checks if isinstance(one, Check)]
        if len(flat) == len(checks):
            self.shared = self._sheet(flat, "checks", shared=True)
        elif flat:
            raise InvalidRequest(
                Problem(
                    "checks", "expected one list of checks for all cases, or one list a case; got a mixture"
                )
            )
        else:
            lists = [list(one) for one in checks if not isinstance(one, Check)]
            self._each = collect_problems(
                [(f"checks[{at}]", one) for at, one in enumerate(lists)],
                lambda place, one: self._sheet(one, place),
            )

    @property
    def versions(self) -> list[str]:
        """The checks that are run, with their versions; where cases bring their own, all there are to choose from."""
        sheets = [self.shared] if self.shared else self._each
        if sheets is None:
            checkers = set(self._registry)
        else:
            checkers = {bound.checker for sheet in sheets for bound in sheet.bounds}
        return sorted(f"{checker.type}@{checker.version}" for checker in checkers)

    @property
    def each(self) -> int | None:
        """For how many cases there are checks, where every case has a list of its own."""
        return None if self._each is None else len(self._each)

    def sheet(self, at: int, context: Context, place: str = "test_case.checks") -> Scorer:
        """The checks for the case at this place; a case may bring its own where the request has none."""
        if context.checks is not None:
            if self.shared or self._each is not None:
                raise InvalidRequest(
                    Problem(
                        place,
                        "this case has checks of its own, and the request has checks too: give one of them",
                    )
                )
            return self._sheet(context.checks, place)
        if self.shared is not None:
            return self.shared
        if self._each is not None:
            if at < len(self._each):
                return self._each[at]
            raise InvalidRequest(
                Problem(
                    f"checks[{at}]",
                    f"there are checks for {len(self._each)} cases, and this is case {at + 1}",
                )
            )
        raise InvalidRequest(Problem(place, "there are no checks: give some for all cases, or in this case"))

    def problems_of(self, checks: Any, path: str, known: Sequence[Problem]) -> list[Problem]:
        """What is wrong with the own checks of a case that was refused, beyond the problems known already."""
        if not is_sequence(checks):
            return []
        return beyond(problems_of_checks(checks, path, self._registry, self.services), known)

    def _sheet(self, checks: Sequence[Check], place: str, *, shared: bool = False) -> Scorer:
        most = self.services.limits.max_checks
        if len(checks) > most:
            raise InvalidRequest(
                Problem(
                    place,
                    f"{len(checks)} checks, and at most {most} are taken (raise it with ASSAY_MAX_CHECKS)",
                )
            )
        key = place.encode() if shared else _encode(checks)
        found = self._sheets.get(key)
        if found is None:
            bounds = collect_problems(
                [(f"{place}[{at}]", check) for at, check in enumerate(checks)],
                self._bind,
            )
            found = Scorer(
                bounds,
                labels(bounds) if shared else types(bounds),
                self.services,
                self.options,
                patience=0 if shared else PATIENCE,
            )
            if b"null" in key:
                return found
            if len(self._sheets) >= REMEMBERED:
                self._sheets.clear()
            self._sheets[key] = found
        return found

    def _bind(self, place: str, check: Check) -> BoundCheck:
        """Cases differ in some of their checks, and have the others in common."""
        key = _encode(check)
        found = self._bounds.get(key)
        if found is None:
            found = bind(check, self._registry, place, self.services)
            if b"null" in key:
                return found  # NaN is written as null, and must not be taken for one
            if len(self._bounds) >= REMEMBERED:
                self._bounds.clear()
            self._bounds[key] = found
        return found


def collect_problems(parts: Iterable[tuple[str, P]], make: Callable[[str, P], T]) -> list[T]:
    """Make all of them, each with its place, or refuse with all that is wrong in any."""
    made: list[T] = []
    problems: list[Problem] = []
    for place, part in parts:
        try:
            made.append(make(place, part))
        except InvalidRequest as refusal:
            problems.extend(refusal.problems)
    if problems:
        raise InvalidRequest(problems)
    return made


def unread_problems(refused: NotAContext, plan: Plan | None) -> list[Problem]:
    """What else is wrong with the own checks of a case that was refused."""
    return [] if plan is None else plan.problems_of(refused.checks, "test_case.checks", refused.problems)


def types(bounds: Sequence[BoundCheck]) -> list[str]:
    return [bound.checker.type for bound in bounds]


def labels(bounds: Sequence[BoundCheck]) -> list[str]:
    """A name for every check in the table: its type, numbered where there are several of it."""
    names = types(bounds)
    total, counts = Counter(names), Counter[str]()
    labelled: list[str] = []
    for name in names:
        counts[name] += 1
        labelled.append(f"{name} #{counts[name]}" if total[name] > 1 else name)
    return labelled
