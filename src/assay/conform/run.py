"""Runs checks against a host: one after the other, politely, with an end, and cleans up."""

from collections.abc import Callable, Iterable

from assay.conform.check import Check, Failed, Host, NotOffered, NotTried, Outcome, Spent
from assay.conform.http_client import Unanswered
from assay.errors import UsageError

PATIENCE = 3  # unanswered checks one after the other; then the host is given up
LONGEST = 300.0  # seconds of a whole run
MESSAGE = 1000  # characters: a host may have written a part of it


class Unreachable(Exception):
    """The host does not answer at all, or stopped to. `outcomes` are those until then."""

    def __init__(self, message: str, outcomes: list[Outcome]) -> None:
        super().__init__(message)
        self.outcomes = outcomes


def chosen(checks: list[Check], only: Iterable[str]) -> list[Check]:
    """
    The checks with these names, or whose names begin with them and a dot.

    UsageError: no check has such a name.
    """
    wanted = list(only)
    for name in wanted:
        if not any(_matches(check, name) for check in checks):
            raise UsageError(f"--only {name}: there is no such check; `assay conform --list` lists them")
    return [check for check in checks if not wanted or any(_matches(check, name) for name in wanted)]


def _matches(check: Check, name: str) -> bool:
    return check.name == name or check.name.startswith(f"{name.rstrip('.')}.")


def run_checks(
    host: Host,
    checks: list[Check],
    tell: Callable[[Outcome], None] | None = None,
    *,
    longest: float = LONGEST,
) -> list[Outcome]:
    """
    The outcome of every check, in order. What could not be tried is among them.

    Unreachable: the host does not answer.
    """
    host.limit(longest)
    return _run_all(host, checks, tell)


def _run_all(host: Host, checks: list[Check], tell: Callable[[Outcome], None] | None) -> list[Outcome]:
    outcomes: list[Outcome] = []
    silent = 0
    try:
        host.reach()
    except Unanswered as wrong:
        raise Unreachable(str(wrong), [Outcome(one, "not_tried", str(wrong)) for one in checks]) from None
    for at, check in enumerate(checks):
        try:
            outcome, answered = _run(host, check)
        except Spent as why:
            outcomes += [Outcome(one, "not_tried", str(why)) for one in checks[at:]]
            break
        outcomes.append(outcome)
        if tell is not None:
            tell(outcome)
        silent = 0 if answered else silent + 1
        if silent == PATIENCE:
            why = f"the host did not answer {PATIENCE} checks: {outcome.message}"
            outcomes += [Outcome(one, "not_tried", why) for one in checks[at + 1 :]]
            raise Unreachable(why, outcomes)
    return outcomes


def _run(host: Host, check: Check) -> tuple[Outcome, bool]:
    """
    The outcome of a check, and whether the host answered.

    Spent: the run is over.
    """
    outcome, answered = _try(host, check)
    return outcome._replace(message=outcome.message[:MESSAGE]), answered


def _try(host: Host, check: Check) -> tuple[Outcome, bool]:
    try:
        check.run(host)
    except Failed as reason:
        return Outcome(check, "failed", str(reason)), True
    except NotOffered as reason:
        return Outcome(check, "not_offered", str(reason)), True
    except Spent:
        raise
    except NotTried as reason:
        return Outcome(check, "not_tried", str(reason)), True
    except Unanswered as reason:
        return Outcome(check, "failed" if reason.connected else "not_tried", str(reason)), False
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
    ) as wrong:  # it read what the host did not send
        return Outcome(check, "failed", f"the answer has another form than the text: {wrong!r}"), True
    return Outcome(check, "passed"), True


def clean_up(host: Host, *, seconds: float = 60.0) -> int:
    """Delete what the checks made. The number of those that are still there."""
    host.limit(seconds)
    left = 0
    if not host.deletes:
        return len({*host.made})
    for path in dict.fromkeys(host.made):
        try:
            gone = host.send("DELETE", path).status in (200, 202, 204, 404, 410)
        except Spent:
            gone = False
        except Unanswered:
            gone = False
            host.limit(0)
        left += not gone
    return left
