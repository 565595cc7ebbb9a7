"""Runs an isolated check, inside its process."""

import asyncio
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from assay.checks.arguments import BoundCheck, convert, fields_of
from assay.checks.checker import Checker
from assay.checks.runner import PreparedCheck, call, fault_of, validate_answer
from assay.errors import Fault, ForeignFault
from assay.ports import Services


def isolated_check(name: bytes) -> Callable[[bytes], bytes]:
    """The task of the process: from the arguments of a check to its answer."""

    def run(arguments: bytes) -> bytes:
        outcome = run_isolated(name.decode(), msgspec.json.decode(arguments))
        if isinstance(outcome, Fault):
            raise outcome
        return msgspec.json.encode(outcome)

    return run


def run_isolated(name: str, arguments: dict[str, Any]) -> Any:
    """Build and run the check. Returns its answer or a fault."""
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
