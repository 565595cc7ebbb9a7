"""
All errors.

    Exception
    ├── Refusal                  refuses a request; a transport maps it to a status
    │   ├── InvalidRequest       the request is invalid: all problems at once, each with its place
    │   │   ├── UnknownCheck
    │   │   ├── BadLine          a line of a stream that is not a valid context
    │   │   └── EvalRefused      an agent eval that is not possible as requested
    │   ├── MalformedPath        a text that is not an RFC 9535 query
    │   ├── UsageError           an invalid command line or setting
    │   │   └── MissingExtra     an optional dependency that is not installed
    │   ├── EnvironmentFailure   a file, disk, pipe or database failed
    │   │   ├── StoreLocked      another process holds the lock for too long
    │   │   ├── BudgetExceeded   the run reached its cost limit
    │   │   └── RunTimeout       the run reached its time limit
    │   ├── Conflict             the stored state has changed meanwhile
    │   ├── Unauthenticated      no key, or an invalid one
    │   ├── Forbidden            a valid key without the scope
    │   ├── NotFound             it does not exist, or it is another tenant's
    │   │   └── Erased           the run exists, but its content was erased
    │   ├── MethodNotAllowed     the resource does not support this method
    │   ├── NotRepresentable     this transport cannot represent the result
    │   ├── RunNotFinished       the run has not ended yet
    │   ├── RunAlreadyEnded      the run has already ended
    │   ├── ForkRejected         a run cannot be forked from there
    │   ├── IdempotencyKeyReused the Idempotency-Key was used for another request
    │   ├── IdempotencyInFlight  the request of this Idempotency-Key is in progress
    │   ├── TooLarge             more bytes than allowed
    │   ├── UnsupportedMediaType a content type or encoding that is not supported
    │   ├── RateLimited          too many requests, or too many at once
    │   └── Unavailable          temporarily not available
    └── Fault                    ends one check and becomes a CheckError in its result (FEP 2.3.4)
        ├── PathFault            jsonpath_error
        ├── ValueFault           validation_error
        ├── TimeFault            timeout_error, recoverable
        ├── CostReached          unknown_error; the cost limit leaves nothing for the call
        └── ForeignFault         unknown_error
            └── NotMeasured      raised by an agent that could not do its task

`Exception` is caught only at a foreign boundary, where code of others may raise anything:

    checks/arguments.py, checks/runner.py     a check: its fields, its construction, its result
    fep/execution/*, checks/programs/*        the same, for checks that wait, and the code that a check brings
    concurrency/workers/worker_loop.py        a task in a worker process: its exception is its answer
    agents/invocation.py, pytest_plugin/samples.py    an agent and the tools it calls
    checks/registry.py, import_code.py        a module of --check-module, an entry point
    concurrency/foreign_code.py, concurrency/threads.py
                                              code in a thread: its exception goes to the caller
    backends/models/*, backends/embedders/*, batch/dataset_parts.py    a provider, a cache on disk, a file system
    backends/agents/*, backends/agents/*/*, backends/tools/*    an agent, a framework, a tool, an MCP server
    backends/stores/*, backends/stores/*/*, backends/engines/dbos/*    a database and its driver; a unit of work
    backends/otel.py                          a traced block: recorded and raised again
    concurrency/event_loop.py                 a background task: its crash is logged and counted
    runs/conductor.py                         a kind of run: its bug ends only its own run
    cli/evaluate/inputs_outputs.py            anything: results are written first, then it is raised again
    cli/main.py                               a bug in assay: reported in one line, without a traceback
    serve/web/handler.py, serve/grpc/handler.py    a bug in assay: answered with the request id, without a traceback
    checks/describe.py                        the fields of a check that have no schema
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple

from assay.errors.faults import CostReached as CostReached
from assay.errors.faults import ErrorType as ErrorType
from assay.errors.faults import Fault as Fault
from assay.errors.faults import ForeignFault as ForeignFault
from assay.errors.faults import NotMeasured as NotMeasured
from assay.errors.faults import PathFault as PathFault
from assay.errors.faults import TimeFault as TimeFault
from assay.errors.faults import ValueFault as ValueFault

SHOWN = 100  # problems in one message
MOST_PROBLEMS = 1_000  # of one request: what is behind them is not read


class Problem(NamedTuple):
    """One problem of a request and its place, such as `checks[2].arguments.pattern`."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class Refusal(Exception):
    """Refuses a request before anything ran, or stops a run."""

    code: str = "validation_error"  # a code of openwop-contract §2.3
    _details: Mapping[str, object] = MappingProxyType({})

    @property
    def details(self) -> dict[str, object]:
        """The members of `details` in the error body."""
        return dict(self._details)

    @property
    def lines(self) -> tuple[str, ...]:
        """One line per problem, for a terminal. A newline inside a line comes from the input."""
        return (str(self),)


class InvalidRequest(Refusal):
    """All problems of a request. Of many problems, only the first `MOST_PROBLEMS` are made and kept."""

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str | Problem):
            problems = [problems if isinstance(problems, Problem) else Problem("", problems)]
        self.problems: tuple[Problem, ...] = tuple(islice(problems, MOST_PROBLEMS))
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """One line per problem for the first hundred, and the number of the others."""
        more = len(self.problems) - SHOWN
        lines = tuple(map(str, self.problems[:SHOWN]))
        least = "at least " * (len(self.problems) == MOST_PROBLEMS)
        return (*lines, f"and {least}{more:,} more problems") if more > 0 else lines

    @property
    def details(self) -> dict[str, object]:
        """The first hundred problems."""
        details: dict[str, object] = {"problems": [problem._asdict() for problem in self.problems[:SHOWN]]}
        more = len(self.problems) - SHOWN
        return details | ({"more": more} if more > 0 else {})


class UnknownCheck(InvalidRequest):
    """No check is registered under this type and version."""

    def __init__(self, path: str, type: str, version: str | None, others: str) -> None:
        self.type, self.version = type, version
        name = f"{type}@{version}" if version else type
        super().__init__(Problem(path, f"there is no check {name[:200]!r}{others}"))


class BadLine(InvalidRequest):
    """A line of a stream that is not a context (FEP-34), at a place such as `cases.jsonl:7`. Earlier lines count."""

    def __init__(self, location: str, problems: Sequence[Problem], line: int | None = None) -> None:
        self.location, self.line_problems, self.line = location, tuple(problems), line
        super().__init__([Problem(location, str(problem)) for problem in problems])

    @property
    def details(self) -> dict[str, object]:
        return super().details | ({} if self.line is None else {"line": self.line})


class EvalRefused(InvalidRequest):
    """An agent eval that is not possible (openwop-contract §3.2); it names the member of the request and the tasks."""

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
        """Places and ids only: a suite is content."""
        members = {"field": self.field, "taskIds": list(self.tasks), "errors": list(self.errors[:100])}
        return {name: value for name, value in (members | self.more).items() if value}


class MalformedPath(Refusal):
    """A text that is not an RFC 9535 query, with the position of the error."""

    def __init__(self, path: str, position: int | None, message: str) -> None:
        self.path, self.position, self.message = path, position, message
        at = "" if position is None else f" at position {position}"
        super().__init__(f"malformed path {path!r}{at}: {message}")


class UsageError(Refusal):
    """An invalid command line or setting; one line per problem."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines
        super().__init__("\n".join(lines))

    @property
    def lines(self) -> tuple[str, ...]:
        return self._lines


class MissingExtra(UsageError):
    """A feature that needs an extra. The message has the command that installs it."""


class EnvironmentFailure(Refusal):
    """The environment failed: a missing file, a full disk, a closed pipe, an unreachable database."""

    code = "internal_error"


class StoreLocked(EnvironmentFailure):
    """Another process holds the lock; nothing was written."""

    code = "unavailable"

    def __init__(self, store: str) -> None:
        super().__init__(f"{store}: another process is writing it and does not finish; try again")


class BudgetExceeded(EnvironmentFailure):
    """A run has reached its cost limit. Finished results stay; the rest was not started."""

    code = "budget_exhausted"

    def __init__(self, spent: float, ceiling: float) -> None:
        self.spent, self.ceiling = spent, ceiling
        super().__init__(
            f"the cost limit of ${ceiling:.6f} is reached: ${spent:.6f} is spent, and the rest was not measured"
        )


class RunTimeout(EnvironmentFailure):
    """A run has reached its time limit. Finished results stay; the rest is skipped."""

    code = "run_timeout"

    def __init__(self, seconds: float) -> None:
        limit = f"the limit of {seconds:g} s (ASSAY_RUN_SECONDS)"
        super().__init__(f"the run took longer than {limit}; finished results are stored")


class Conflict(Refusal):
    """A precondition of a transaction failed; nothing of it was written."""

    code = "conflict"

    def __init__(
        self,
        reason: Literal["missing", "exists", "closed", "status", "sequence", "version", "lease", "required"],
        place: str,
        message: str,
    ) -> None:
        self.reason, self.place = reason, place
        super().__init__(f"{place}: {message}")


KeyTrouble = Literal["unauthenticated", "key_expired", "key_revoked", "code_refused", "session_expired"]


class Unauthenticated(Refusal):
    """No key, or an invalid one. The message does not repeat it: it may be a secret."""

    _MESSAGES: ClassVar[dict[KeyTrouble, str]] = {
        "unauthenticated": "expected a valid key or token; `assay admin key create` creates a key",
        "key_expired": "this key or token has expired; `assay admin key create` creates a key",
        "key_revoked": "this key was revoked; `assay admin key create` creates another",
        "code_refused": "this one-time code was used, has expired or does not exist; `assay view` creates a new one",
        "session_expired": "this session has ended; sign in again",
    }

    def __init__(self, code: KeyTrouble = "unauthenticated") -> None:
        self.code = code
        super().__init__(self._MESSAGES[code])


class Forbidden(Refusal):
    """A valid key without the required scope."""

    code = "forbidden"

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self._details = {"scopeRequired": scope}
        super().__init__(f"this key lacks the scope {scope!r}")


class NotFound(Refusal):
    """It does not exist. The message is the same if it belongs to another tenant."""

    code = "not_found"


class MethodNotAllowed(Refusal):
    """The resource does not support this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        self.allowed = tuple(allowed)
        self._details = {"allowed": list(self.allowed)}
        super().__init__(f"{method} is not supported here; expected {', '.join(self.allowed)}")


class NotRepresentable(Refusal):
    """The result exists, but this transport cannot represent it without changing it (FEP-2)."""


class _AboutARun(Refusal):
    def __init__(self, message: str, status: str) -> None:
        self.status, self._details = status, {"status": status}
        super().__init__(message)


class RunNotFinished(_AboutARun):
    """The result of a run that has not ended (FEP-41)."""

    code = "conflict"


class RunAlreadyEnded(_AboutARun):
    """A run that has ended cannot be cancelled."""

    code = "run_terminal"


class ForkRejected(Refusal):
    """A run cannot be forked from there: it is shorter, or data it needs was deleted (openwop-contract §3.7, §13.7)."""

    def __init__(
        self,
        code: Literal["invalid_from_seq", "replay_memory_snapshot_unavailable"],
        message: str,
        **details: object,
    ) -> None:
        self.code, self._details = code, details
        super().__init__(message)


class IdempotencyKeyReused(Refusal):
    """The Idempotency-Key was used for another request before."""

    code = "idempotency_key_mismatch"


class IdempotencyInFlight(Refusal):
    """The request of this Idempotency-Key is in progress elsewhere."""

    code = "idempotency_in_flight"

    def __init__(self, message: str, *, retry_after: float = 1) -> None:
        self.retry_after, self._details = retry_after, {"retryAfter": retry_after}
        super().__init__(message)


class TooLarge(Refusal):
    """More bytes than the setting allows."""

    code = "payload_too_large"

    def __init__(self, item: str, limit: int, setting: str) -> None:
        self.limit, self.setting = limit, setting
        self._details = {"limit": limit, "setting": setting}
        super().__init__(f"{item} has more than {limit} bytes, which is the limit (ASSAY_{setting.upper()})")


class UnsupportedMediaType(Refusal):
    """A content type or encoding that is not supported."""

    code = "unsupported_media_type"

    def __init__(self, message: str, supported: Sequence[str]) -> None:
        self.supported = tuple(supported)
        self._details = {"supported": list(self.supported)}
        super().__init__(message)


class RateLimited(Refusal):
    """Too many requests, or too many at once. Retry after `retry_after` seconds."""

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
    """The host is stopping, or a service it needs is unreachable. Retry after `retry_after` seconds."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after: float, reason: str = "") -> None:
        self.retry_after = retry_after
        self._details = {"reason": reason} if reason else {}
        super().__init__(message)
