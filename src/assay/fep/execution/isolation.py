"""
Isolated checks: each runs in a process of its own, which a deadline can kill (FEP-32).

The process receives a name and bytes: the class as `module:Class`, its arguments and its answer as JSON.
"""

import asyncio
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from assay.checks.arguments import BoundCheck, convert, fields_of
from assay.checks.checker import Checker
from assay.checks.runner import PreparedCheck, call, fault_of, validate_answer
from assay.checks.worker_tasks import WorkerTask
from assay.concurrency.workers.batch import Outcome
from assay.errors import Fault, ForeignFault
from assay.ports import Services
from assay.protocol.json_types import base_of

TASK = "assay.fep.execution.isolation:isolated_check"


def isolated_task(checker: Checker, seconds: float) -> WorkerTask | ForeignFault:
    """The task that runs this check. After `seconds` its process is killed."""
    kind = type(checker)
    try:
        arguments = msgspec.json.encode(msgspec.to_builtins(checker, enc_hook=base_of))
    except (TypeError, ValueError, RecursionError) as wrong:
        return ForeignFault(f"{kind.type} cannot be isolated: {wrong}")
    name = f"{kind.__module__}:{kind.__qualname__}".encode()
    return WorkerTask(TASK, name, arguments, None, _answer, wall_seconds=seconds, name=kind.type)


def _answer(outcome: Outcome) -> Mapping[str, Any] | Fault:
    return outcome if isinstance(outcome, Fault) else msgspec.json.decode(outcome)


# Inside the process.


def isolated_check(name: bytes) -> Callable[[bytes], bytes]:
    """The task of the process: from the arguments of a check to its answer."""

    def run(arguments: bytes) -> bytes:
        outcome = _run_check(name.decode(), msgspec.json.decode(arguments))
        if isinstance(outcome, Fault):
            raise outcome
        return msgspec.json.encode(outcome)

    return run


def _run_check(name: str, arguments: dict[str, Any]) -> dict[str, Any] | Fault:
    module, _, path = name.partition(":")
    try:
        target: Any = importlib.import_module(module)
        for part in path.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as wrong:
        return ForeignFault(f"{name} cannot be isolated: a new process does not find it ({wrong})")
    checker: type[Checker] = target
    typed = {
        field.attribute: convert(field, arguments[field.name])
        for field in fields_of(checker)
        if field.name in arguments
    }
    bound = BoundCheck(checker, typed, {}, (), ())
    services = Services()
    answer = call(PreparedCheck(bound, {}, checker(**typed), 0.0), services)
    if inspect.isawaitable(answer):
        answer = asyncio.run(_wait(answer, checker))
    outcome = validate_answer(answer, checker)
    return outcome if isinstance(outcome, Fault) else dict(outcome)


async def _wait(answer: Any, checker: type[Checker]) -> Any:
    try:
        return await answer
    except BaseException as surprise:  # noqa: BLE001  # a check is foreign code: its bugs are data too
        return fault_of(surprise, checker)
