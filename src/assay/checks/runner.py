"""
Runs one check on one case, interpreted (FEP 2.3.4).

Faults stop here and become data; so does any exception of a foreign check (FEP-26, FEP-35).
"""

import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import UNSET

from assay.checks.arguments import BoundCheck, build, resolve
from assay.checks.checker import FAILED, FALLBACK, PASSED, Answer, AnswerWithMetadata, Checker
from assay.checks.worker_tasks import WorkerTask, run_tasks
from assay.errors import ErrorType, Fault, ForeignFault, TimeFault, ValueFault
from assay.ports import Services
from assay.protocol.json_types import (
    BEYOND_DOUBLES,
    LARGEST_DIGITS,
    base_of,
    beyond_doubles,
    is_deeper,
    is_finite,
    is_mapping,
)
from assay.protocol.redaction import redact_text
from assay.protocol.results import CheckError, CheckResult, ResolvedArgument

MAX_MESSAGE = 2_000
MAX_ANSWER_DEPTH = 500  # objects and lists inside one another, in an answer
decode = msgspec.json.Decoder().decode
ERROR_TYPES = get_args(ErrorType)


class ResultOptions(NamedTuple):
    """What a result contains besides the answer."""

    resolved_arguments: bool = True
    timings: bool = False


class PreparedCheck(NamedTuple):
    """A check that is ready to run on one case, or the fault that keeps it from running."""

    bound: BoundCheck
    values: dict[str, Any]
    ready: Checker | Fault
    start: float


def prepare(bound: BoundCheck, document: Any, services: Services) -> PreparedCheck:
    began = time.perf_counter()
    values, fault = resolve(bound, document, services.limits)
    if fault is not None:
        return PreparedCheck(bound, values, fault, began)
    try:
        return PreparedCheck(bound, values, build(bound, values), began)
    except Fault as build_fault:
        return PreparedCheck(bound, values, build_fault, began)


def call(check: PreparedCheck, services: Services) -> Answer | Awaitable[Answer] | WorkerTask | Fault:
    """
    Call a check. Returns its answer, an awaitable, a WorkerTask or a fault; never raises an exception of the check.
    """
    if isinstance(check.ready, Fault):
        return check.ready
    try:
        return check.ready.run(services)
    except BaseException as surprise:
        if isinstance(surprise, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # Ctrl-C by the user; in other threads the check itself raised it
        return fault_of(surprise, check.bound.checker)


def compiled_form(bound: BoundCheck) -> Callable[..., Any] | None:
    """The compiled form of a check, if it has one. If it fails, the interpreted form answers."""
    try:
        quick = bound.checker.compile(bound.literals)
    except Exception:  # noqa: BLE001  # a check is foreign code
        return None
    if quick is None or bound.checker.__module__.startswith("assay.checks."):
        return quick

    def answer(*values: Any) -> Any:
        try:
            return quick(*values)
        except Exception:  # noqa: BLE001  # a check is foreign code
            return FALLBACK

    return answer


def fault_of(error: BaseException, checker: type[Checker]) -> Fault:
    """The fault for an exception of a check. A check is foreign code: every exception becomes data, even SystemExit."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, TimeoutError):
        return TimeFault(_message(error) or "the check ran out of time")
    if isinstance(error, RecursionError) and not checker.waits:
        return ValueFault("the values are nested too deeply to be compared")
    if checker.__module__.startswith("assay."):
        from assay.ports.bugs import log_bug  # deferred import: `logging` is slow to load

        log_bug("assay.checks", f"the check {checker.type}", error)
    return ForeignFault(f"{checker.type} failed with {type(error).__name__}: {_message(error)}")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as another:  # noqa: BLE001  # its message is foreign code too
        return f"(no message: {type(another).__name__} while it was made)"


def validate_answer(answer: Any, checker: type[Checker]) -> Answer | Fault:
    """
    The answer, or a fault: it is no JSON object, its `passed` is not true or false, or a number is too large to be
    counted.
    """
    if answer is PASSED or answer is FAILED or isinstance(answer, Fault):
        return answer
    if not is_mapping(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # it is not awaited here
        kind = "nothing" if answer is None else type(answer).__name__
        return ForeignFault(f"{checker.type} answered {kind}; expected an object, such as {{'passed': true}}")
    try:
        encoded, converted = _encode_answer(answer)
        # NaN would be written as null: find it where a null was written
        decoded = converted or b"null" in encoded
        plain: dict[str, Any] = decode(encoded) if decoded else dict(answer)
        suspect = decoded and plain != answer
        if encoded.count(b"[") + encoded.count(b"{") > MAX_ANSWER_DEPTH and is_deeper(
            decode(encoded), MAX_ANSWER_DEPTH
        ):
            return ForeignFault(f"{checker.type} answered something nested more than {MAX_ANSWER_DEPTH} deep")
    except (TypeError, ValueError, RecursionError, OverflowError) as wrong:
        return ForeignFault(f"{checker.type} answered something that is not JSON: {wrong}")
    if suspect and not is_finite(answer):
        return ForeignFault(f"{checker.type} answered NaN or infinity, which is not a JSON number")
    for part in (answer, answer.get("response")):
        if is_mapping(part) and (problem := _member_problem(part, len(encoded))) is not None:
            return ForeignFault(f"{checker.type} answered {problem}")
    return plain


def _member_problem(members: Mapping[str, Any], size: int) -> str | None:
    """What is wrong with the verdict or a number of an answer of this many bytes."""
    passed = members.get("passed", True)
    if not isinstance(passed, bool):
        return f"passed: {passed!r}; expected true or false"
    if size > LARGEST_DIGITS and (name := beyond_doubles(members)) is not None:
        return f"{name}: {BEYOND_DOUBLES}"
    return None


def _encode_answer(answer: Answer) -> tuple[bytes, bool]:
    """
    The encoded answer, and whether it has values of other types than JSON's, such as subclasses of `str` (`Text`).
    """
    try:
        return msgspec.json.encode(answer), False
    except TypeError:
        return msgspec.json.encode(answer, enc_hook=base_of), True


def to_result(
    check: PreparedCheck,
    answer: Any,
    services: Services,
    options: ResultOptions,
    *,
    seconds: float | None = None,
) -> CheckResult:
    """The result of a check from its answer or fault."""
    bound = check.bound
    metadata = bound.metadata
    if isinstance(answer, AnswerWithMetadata):
        metadata |= answer.metadata
        answer = dict(answer)
    outcome = validate_answer(answer, bound.checker)
    if bound.checker.waits or options.timings:
        spent = time.perf_counter() - check.start if seconds is None else seconds
        metadata["execution_time_ms"] = round(spent * 1000, 3)
    failed = isinstance(outcome, Fault)
    if failed:
        metadata |= outcome.metadata
    return CheckResult(
        check_type=bound.checker.type,
        status="error" if failed else "completed",
        results={} if failed else dict(outcome),
        resolved_arguments=_resolved_arguments(bound, check.values) if options.resolved_arguments else UNSET,
        evaluated_at=services.clock.now(),
        metadata=metadata,
        error=_error(outcome) if failed else UNSET,
    )


def skip_result(bound: BoundCheck, services: Services) -> CheckResult:
    """The result of a check that did not run: the run was cancelled, or stopped after another error (FEP-28)."""
    return CheckResult(
        check_type=bound.checker.type,
        status="skip",
        results={},
        evaluated_at=services.clock.now(),
        metadata=bound.metadata,
    )


def run_check(bound: BoundCheck, document: Any, services: Services, options: ResultOptions) -> CheckResult:
    """Run one check that does not wait. The thread blocks for tasks of worker processes."""
    prepared = prepare(bound, document, services)
    answer = call(prepared, services)
    if isinstance(answer, WorkerTask):
        (answer,) = run_tasks([answer])
    return to_result(prepared, answer, services, options)


def _error(fault: Fault) -> CheckError:
    message = redact_text(_message(fault).encode("utf-8", "replace").decode())
    if len(message) > MAX_MESSAGE:
        message = message[:MAX_MESSAGE] + "…"
    # a check may bring a Fault of its own
    kind = fault.type if fault.type in ERROR_TYPES else "unknown_error"
    return CheckError(type=kind, message=message, recoverable=bool(fault.recoverable))


def _resolved_arguments(bound: BoundCheck, values: dict[str, Any]) -> dict[str, ResolvedArgument]:
    texts = {path.field.name: path.display_path for path in bound.paths}
    resolved: dict[str, ResolvedArgument] = {}
    for name in bound.order:
        if name in values:
            resolved[name] = ResolvedArgument(jsonpath=texts[name], value=values[name])
        elif name in bound.displayed_literals:
            resolved[name] = ResolvedArgument(value=bound.displayed_literals[name])
    return resolved
