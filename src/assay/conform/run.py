"""Runs checks against a host: a few at a time, politely, with an end, and cleans up."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock

from assay.conform.check import Check, Failed, Host, NotOffered, NotTried, Outcome, Spent, at_once
from assay.conform.http_client import Unanswered
from assay.errors import UsageError

PATIENCE = 3  # unanswered checks one after the other; then the host is asked once more, and given up
LONGEST = 300.0  # seconds of a whole run
LANES = 4  # checks at the same time
TOGETHER = {"openwop.replay": "openwop.fixtures"}  # families in one lane: both count the calls of one tool
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
    report: Callable[[Outcome], None] | None = None,
    *,
    longest: float = LONGEST,
) -> list[Outcome]:
    """
    The outcome of every check, in order. What could not be tried is among them. `report` gets each in this order too.

    Unreachable: the host does not answer.
    """
    host.limit(longest)
    try:
        host.reach()
    except Unanswered as wrong:
        raise Unreachable(str(wrong), [Outcome(one, "not_tried", str(wrong)) for one in checks]) from None
    except Spent as why:
        return [Outcome(one, "not_tried", str(why)) for one in checks]
    work = _Work(host, checks, report)
    for places in (
        [at for at, one in enumerate(checks) if not one.last],
        [at for at, one in enumerate(checks) if one.last],
    ):
        lanes = defaultdict[str, list[int]](list)
        for at in places:
            lanes[_lane(checks[at])].append(at)
        work.do(lanes.values())
    return work.end()


def _lane(check: Check) -> str:
    """The checks of one lane run one after the other, in order: they may use the same things at the host."""
    family = ".".join(check.name.split(".")[:2])
    return TOGETHER.get(family, family)


class _Work:
    """The outcomes of checks, of which several run at a time."""

    def __init__(self, host: Host, checks: list[Check], report: Callable[[Outcome], None] | None) -> None:
        self._host, self._checks, self._report = host, checks, report
        self._outcomes: list[Outcome | None] = [None] * len(checks)
        self._reported = self._silent = 0
        self._over = self._gave_up = ""  # why no check begins any more
        self._lock = Lock()

    def do(self, lanes: Iterable[list[int]]) -> None:
        """Run the checks at these places."""
        at_once(self._follow, lanes, LANES, self._stop)

    def _stop(self) -> None:
        """No request is sent any more, so the checks that run end soon."""
        self._over = "the run was stopped"
        self._host.limit(0)

    def end(self) -> list[Outcome]:
        """
        Every outcome.

        Unreachable: the host stopped to answer.
        """
        rest = self._gave_up or self._over
        outcomes = [
            one or Outcome(check, "not_tried", rest)
            for one, check in zip(self._outcomes, self._checks, strict=True)
        ]
        if self._gave_up:
            raise Unreachable(self._gave_up, outcomes)
        return outcomes

    def _follow(self, lane: list[int]) -> None:
        ended = False
        try:
            self._run_each(lane)
            ended = True
        finally:
            if not ended:  # a bug
                self._stop()

    def _run_each(self, lane: list[int]) -> None:
        for at in lane:
            if self._over or self._gave_up:
                return
            try:
                outcome, answered = _run(self._host, self._checks[at])
            except Spent as why:
                self._over = self._over or str(why)
                return
            with self._lock:
                self._add(at, outcome, answered=answered)

    def _add(self, at: int, outcome: Outcome, *, answered: bool) -> None:
        self._outcomes[at] = outcome
        self._silent = 0 if answered else self._silent + 1
        if self._silent >= PATIENCE and not self._gave_up and not self._is_there():
            self._gave_up = f"the host did not answer {PATIENCE} checks: {outcome.message}"
        while self._reported < len(self._outcomes) and (one := self._outcomes[self._reported]) is not None:
            self._reported += 1
            if self._report is not None:
                self._report(one)

    def _is_there(self) -> bool:
        """Whether the host answers what takes it no time. One route that never ends is no host that is away."""
        try:
            self._host.reach()
        except (Unanswered, Spent):
            return False
        self._silent = 0
        return True


def _run(host: Host, check: Check) -> tuple[Outcome, bool]:
    """
    The outcome of a check, and whether the host answered.

    Spent: the run is over.
    """
    began = time.monotonic()
    outcome, answered = _try(host, check)
    return outcome._replace(
        message=outcome.message[:MESSAGE], seconds=round(time.monotonic() - began, 3)
    ), answered


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
    made = [*dict.fromkeys(host.made)]
    return sum(at_once(partial(_stays, host), made, LANES)) if host.deletes else len(made)


def _stays(host: Host, path: str) -> bool:
    """Delete this. True: it is still there."""
    try:
        return host.send("DELETE", path).status not in (200, 202, 204, 404, 410)
    except NotTried:  # the time is over, or the host is busy
        return True
    except Unanswered:
        host.limit(0)
        return True
