"""
Everything that can go wrong, on one page.

    Exception
    ├── Refusal                  nothing has happened; it travels up, and a transport gives it a status
    │   ├── InvalidRequest       the request does not fit the protocol: every problem at once, each with its place
    │   │   ├── UnknownCheck
    │   │   ├── BadLine          a part of a stream that is no context
    │   │   └── EvalRefused      an agent eval that cannot be had as it was asked for
    │   ├── MalformedPath        a text that is no RFC 9535 query
    │   ├── WrongUsage           the command or a setting was given something impossible
    │   │   └── Missing          an extra that is not installed
    │   ├── Broken               the world refused: a file, a disk, a pipe
    │   │   ├── Locked           another process is writing the same, and does not come to an end
    │   │   ├── Spent            the run cost what it may cost
    │   │   └── TooLate          the run took as long as it may take
    │   ├── Conflict             the record has moved on
    │   ├── Unauthenticated      no key, or none that is good
    │   ├── Forbidden            a good key without the scope
    │   ├── NotFound             there is none, or it is another tenant's
    │   ├── WrongMethod          there is one, and it is not for this
    │   ├── Unsayable            it is there, and this transport cannot say it
    │   ├── Unfinished           it has not ended yet
    │   ├── Ended                it has ended already
    │   ├── Unforkable           a run cannot be copied from there
    │   ├── KeyReused            an Idempotency-Key that came with another request before
    │   ├── InFlight             the same request is under way
    │   ├── TooLarge             more bytes than are taken
    │   ├── WrongMedia           a form of content that nobody reads here
    │   ├── TooMuch              not at this rate, or not so much at once
    │   └── Unavailable          not now
    └── Fault                    stops at `checks.run` and becomes a CheckError in the result (FEP 2.3.4)
        ├── PathFault            jsonpath_error
        ├── ValueFault           validation_error
        ├── TimeFault            timeout_error, recoverable
        └── ForeignFault         unknown_error

`Exception` is caught only at a foreign boundary, where somebody else's code may do anything:

    checks/arguments.py, checks/run.py            a check: its fields, its making, its answer
    fep/scheduler/scheduler.py, fep/scheduler/process_worker.py                  the same, where it waits
    workers/worker.py                             a task in a worker process: whatever ends it is the answer
    agents/invocation.py                          an agent: whatever it does is its own doing; a tool it called
    checks/registry.py                            a module given by --check-module, an entry point
    backends/models/*, backends/embedders/*       a provider, a cache on disk
    backends/agents/*, backends/tools/*           an agent, a tool, an MCP server
    backends/stores/*                             a database and its driver
    backends/telemetry/*                          what is traced: noted, and it goes on up
    ports/supervise.py                            a background task: its death is logged, counted and not the end
    runs/conductor.py                               a kind of run: its bug ends its run, and no other
    cli/evaluate_io.py                            anything: results are written first, then it is raised again
    cli/main.py                                   a bug of ours: said in one line, never a traceback
    serve/web/handler.py                           a bug of ours: answered with its number, never a traceback
    serve/grpc/handler.py                            the same
    serve/fep/catalogue.py                          the fields of a check that have no schema
    api/evaluate.py, fep/shares.py                a thread's outcome, carried over to the caller's
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple

from assay.errors.faults import ErrorType as ErrorType
from assay.errors.faults import Fault as Fault
from assay.errors.faults import ForeignFault as ForeignFault
from assay.errors.faults import PathFault as PathFault
from assay.errors.faults import TimeFault as TimeFault
from assay.errors.faults import ValueFault as ValueFault

SHOWN = 100  # problems of one refusal


class Problem(NamedTuple):
    """One thing wrong with a request, and where: `checks[2].arguments.pattern`."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class Refusal(Exception):
    """Said before anything ran, or instead of running on."""

    code: str = "validation_error"  # of openwop-contract §2.3
    _details: Mapping[str, object] = MappingProxyType({})

    @property
    def details(self) -> dict[str, object]:
        """The parts a program may want, as the error body names them."""
        return dict(self._details)

    @property
    def lines(self) -> tuple[str, ...]:
        """One for each thing that is wrong: what a terminal shows. A newline inside of one is part of what was given."""
        return (str(self),)


class InvalidRequest(Refusal):
    """Everything that is wrong with a request, at once."""

    def __init__(self, problems: str | Problem | Sequence[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem("", problems)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """One a problem, and how many more there are; a request may be wrong in more places than are worth showing."""
        more = len(self.problems) - SHOWN
        told = tuple(map(str, self.problems[:SHOWN]))
        return (*told, f"and {more:,} more problems") if more > 0 else told

    @property
    def details(self) -> dict[str, object]:
        """The first hundred."""
        details: dict[str, object] = {"problems": [problem._asdict() for problem in self.problems[:SHOWN]]}
        if len(self.problems) > SHOWN:
            details["more"] = len(self.problems) - SHOWN
        return details


class UnknownCheck(InvalidRequest):
    """No check is registered under this type and version."""

    def __init__(self, place: str, type: str, version: str | None, known: Iterable[str]) -> None:
        self.type, self.version = type, version
        wanted = f"{type}@{version}" if version else type
        super().__init__(
            Problem(place, f"no check {wanted[:200]!r}; this host knows {', '.join(sorted(known))}")
        )


class BadLine(InvalidRequest):
    """A part of a stream that is no context (decision 34), by its place: `cases.jsonl:7`. All before it is kept."""

    def __init__(self, place: str, problems: Sequence[Problem], line: int | None = None) -> None:
        self.place, self.found, self.line = place, tuple(problems), line
        super().__init__([Problem(place, str(problem)) for problem in problems])

    @property
    def details(self) -> dict[str, object]:
        return super().details | ({} if self.line is None else {"line": self.line})


class EvalRefused(InvalidRequest):
    """An agent eval that cannot be had as it was asked for: which member of the request, which tasks (contract §3.2)."""

    def __init__(
        self,
        problems: Problem | Sequence[Problem],
        *,
        field: str | None = None,
        tasks: Sequence[str] = (),
        errors: Sequence[str] = (),
        **more: Sequence[str],
    ) -> None:
        self.field, self.tasks, self.errors, self.more = field, tuple(tasks), tuple(errors), more
        super().__init__(problems)

    @property
    def details(self) -> dict[str, object]:
        """Places and ids, and no bodies: a suite is content."""
        told = {"field": self.field, "taskIds": list(self.tasks), "errors": list(self.errors[:100])}
        return {name: value for name, value in (told | self.more).items() if value}


class MalformedPath(Refusal):
    """A text that RFC 9535 refuses, with the position at which it does."""

    def __init__(self, path: str, position: int | None, why: str) -> None:
        self.path, self.position, self.why = path, position, why
        at = "" if position is None else f" at position {position}"
        super().__init__(f"malformed path {path!r}{at}: {why}")


class UsageError(Refusal):
    """The command line or the settings ask for something impossible, each thing on a line of its own."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines
        super().__init__("\n".join(lines))

    @property
    def lines(self) -> tuple[str, ...]:
        return self._lines


class MissingExtra(UsageError):
    """Something that is only there with an extra; it names the line that installs it."""


class EnvironmentFailure(Refusal):
    """The world refused: a file that is not there, a full disk, a closed pipe."""

    code = "internal_error"


class Locked(EnvironmentFailure):
    """Another process is in the middle of writing the same; nothing of this was written."""

    code = "unavailable"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: another process is writing it and does not come to an end; try again")


class BudgetExceeded(EnvironmentFailure):
    """A run has cost what it may cost. What is done is kept, and the rest was not begun."""

    code = "budget_exhausted"

    def __init__(self, spent: float, ceiling: float) -> None:
        self.spent, self.ceiling = spent, ceiling
        super().__init__(
            f"the ceiling of ${ceiling:.6f} is reached: ${spent:.6f} is spent, and the rest was not measured"
        )


class RunTimeout(EnvironmentFailure):
    """A run has taken as long as it may take. What is done is kept, and the rest is skipped."""

    code = "run_timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the run took longer than {seconds:g} s, which is the limit (raise it with ASSAY_RUN_SECONDS);"
            " what is done is kept"
        )


class Conflict(Refusal):
    """A batch met another state than it was made for; nothing of it was written."""

    code = "conflict"

    def __init__(
        self,
        what: Literal["missing", "exists", "closed", "status", "sequence", "version", "lease"],
        place: str,
        why: str,
    ) -> None:
        self.what, self.place = what, place
        super().__init__(f"{place}: {why}")


KeyTrouble = Literal["unauthenticated", "key_expired", "key_revoked"]


class Unauthenticated(Refusal):
    """No key, or none that is good. What was given is not repeated: it may be somebody's secret."""

    _SAID: ClassVar[dict[KeyTrouble, str]] = {
        "unauthenticated": "no key or token was given, or none that is good here; `assay key create` makes a key",
        "key_expired": "this key or token has expired; `assay key create` makes a key",
        "key_revoked": "this key was revoked; `assay key create` makes another",
    }

    def __init__(self, code: KeyTrouble = "unauthenticated") -> None:
        self.code = code
        super().__init__(self._SAID[code])


class Forbidden(Refusal):
    """A good key that does not open this door."""

    code = "forbidden"

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self._details = {"scopeRequired": scope}
        super().__init__(f"this key lacks the scope {scope!r}")


class NotFound(Refusal):
    """There is none. Another tenant's is said to be absent in the same words."""

    code = "not_found"


class MethodNotAllowed(Refusal):
    """A place that is there, asked for something it does not do."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        self.allowed = tuple(allowed)
        self._details = {"allowed": list(self.allowed)}
        super().__init__(f"{method} is not for this; it takes {', '.join(self.allowed)}")


class NotRepresentable(Refusal):
    """What was asked for is there, and cannot be said over this transport without changing it (decision 2)."""


class _AboutARun(Refusal):
    def __init__(self, message: str, status: str) -> None:
        self.status = status
        self._details = {"status": status}
        super().__init__(message)


class RunNotFinished(_AboutARun):
    """A result was asked of a run that has not ended (decision 41)."""

    code = "conflict"


class RunAlreadyEnded(_AboutARun):
    """A run that has ended cannot be cancelled."""

    code = "run_terminal"


class ForkRejected(Refusal):
    """A run cannot be copied from there: it does not reach so far, or what it stood on is no longer kept (contract §3.7, §13.7)."""

    def __init__(
        self,
        code: Literal["invalid_from_seq", "replay_memory_snapshot_unavailable"],
        message: str,
        **details: object,
    ) -> None:
        self.code, self._details = code, details
        super().__init__(message)


class IdempotencyKeyReused(Refusal):
    """The same Idempotency-Key came with another request before."""

    code = "idempotency_key_mismatch"


class IdempotencyInFlight(Refusal):
    """The request of this Idempotency-Key is under way elsewhere."""

    code = "idempotency_in_flight"

    def __init__(self, message: str, *, retry_after: float = 1) -> None:
        self.retry_after = retry_after
        self._details = {"retryAfter": retry_after}
        super().__init__(message)


class TooLarge(Refusal):
    """More bytes than are taken, by the setting that says how many."""

    code = "payload_too_large"

    def __init__(self, what: str, limit: int, setting: str) -> None:
        self.limit, self.setting = limit, setting
        self._details = {"limit": limit, "setting": setting}
        super().__init__(f"{what} has more than {limit} bytes, which is the limit (ASSAY_{setting.upper()})")


class UnsupportedMediaType(Refusal):
    """A content type or encoding that nobody reads here."""

    code = "unsupported_media_type"

    def __init__(self, message: str, supported: Sequence[str]) -> None:
        self.supported = tuple(supported)
        self._details = {"supported": list(self.supported)}
        super().__init__(message)


class RateLimited(Refusal):
    """Not at this rate, or not so much at once; in `retry_after` seconds perhaps."""

    code = "rate_limited"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float,
        scope: Literal["tenant", "route", "global", "key"] = "global",
    ) -> None:
        self.retry_after, self.scope = retry_after, scope
        super().__init__(message)

    @property
    def details(self) -> dict[str, object]:
        return {"retryAfterMs": round(self.retry_after * 1000), "scope": self.scope}


class Unavailable(Refusal):
    """Not now: the host stops, or what it stands on is away; in `retry_after` seconds perhaps."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(message)
