"""
Offloads checks with large arguments to a worker process, which has a time limit.

A check that does not wait runs in place, on an event loop or in a thread, and holds the GIL meanwhile. That is right
for what takes a millisecond. A check with more work offloads it: `return offload(self)`.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, Protocol

import msgspec

from assay.checks.worker_tasks import WorkerTask
from assay.errors import Fault
from assay.ports import Services
from assay.protocol.json_types import base_of, is_list, is_object

TASK = "assay.checks.offload:task"
SECONDS = 10.0  # of processor time, for one check of one case
INLINE_VALUES = 20_000  # values that are compared in place: about a millisecond
CHARACTERS_PER_VALUE = 4_096  # characters that take as long as one value
_services = Services()


class OffloadableChecker(Protocol):
    """A check whose `answer` may take long. Its `run` offloads large arguments."""

    __struct_fields__: ClassVar[tuple[str, ...]]

    def answer(self, services: Services, /) -> Mapping[str, Any]:
        """Answer in place, whatever the size of the arguments."""
        ...


def is_large(*values: Any) -> bool:
    """
    Whether the values have more than INLINE_VALUES parts. A long text counts as several; counting stops at the limit.
    """
    left, stack = INLINE_VALUES, list(values)
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            left -= len(part) // CHARACTERS_PER_VALUE
        elif is_list(part):
            left -= len(part)
            stack.extend(part if left >= 0 else ())
        elif is_object(part):
            left -= 2 * len(part)
            stack.extend(part.values() if left >= 0 else ())
        if left < 0:
            return True
    return False


def offload(checker: OffloadableChecker, *common: str) -> WorkerTask:
    """
    A task that runs this check in a worker process. `common`: arguments that are equal in all cases; they are sent once
    per batch.
    """
    kind = type(checker)
    every = {name: getattr(checker, name) for name in kind.__struct_fields__}
    arguments = {name: value for name, value in every.items() if value is not msgspec.UNSET}
    shared = {name: arguments.pop(name) for name in common}
    class_name = f"{kind.__module__}:{kind.__qualname__}", shared
    return WorkerTask(TASK, _encode(class_name), _encode(arguments), SECONDS, _answer)


def task(common: bytes) -> Callable[[bytes], bytes]:
    """Runs in a worker process: a function from the arguments of a check to its answer."""
    class_name, shared = _decode(common)
    kind = _import_class(class_name)

    def run(item: bytes) -> bytes:
        checker = kind(**shared, **_decode(item))
        return _encode(dict(checker.answer(_services)))

    return run


@lru_cache(maxsize=16)
def _import_class(class_name: str) -> Callable[..., OffloadableChecker]:
    module, _, name = class_name.partition(":")
    return getattr(import_module(module), name)


def _answer(outcome: bytes | Fault) -> Mapping[str, Any] | Fault:
    return outcome if isinstance(outcome, Fault) else _decode(outcome)


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=base_of)


_decode = msgspec.json.Decoder().decode
