"""Tasks that a check gives to a worker process instead of answering in place."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec import Struct

from assay.concurrency.workers import pool
from assay.concurrency.workers.batch import Batch, Outcome
from assay.errors import Fault
from assay.ports import Services
from assay.protocol.json_types import base_of, is_list, is_object

BATCH_ITEMS = 256  # items of one batch: several batches run at once


class WorkerTask(Struct, frozen=True):
    """
    A task of a worker process (`assay.concurrency.workers`) and one item for it; `to_answer` converts the outcome to
    the check's answer.

    A check may return it instead of an answer. Tasks of many cases with the same function and `common` run in one
    batch; one with `wall_seconds` runs alone, so that none waits for another.
    """

    task: str
    common: bytes
    item: bytes
    seconds: float | None  # of processor time
    to_answer: Callable[[Outcome], Mapping[str, Any] | Fault]
    wall_seconds: float | None = None  # until its answer
    name: str = "the task"  # in messages


def batches(tasks: Sequence[WorkerTask]) -> Iterator[tuple[Batch, list[int]]]:
    """Batches of tasks with the same function and common argument, each with the indexes of its tasks."""
    groups: dict[tuple[str, bytes, float | None], list[int]] = {}
    for at, one in enumerate(tasks):
        if one.wall_seconds is None:
            groups.setdefault((one.task, one.common, one.seconds), []).append(at)
        else:
            alone = Batch(
                one.task,
                [one.item],
                one.seconds,
                common=one.common,
                wall_seconds=one.wall_seconds,
                name=one.name,
            )
            yield alone, [at]
    for (task, common, seconds), indexes in groups.items():
        for first in range(0, len(indexes), BATCH_ITEMS):
            part = indexes[first : first + BATCH_ITEMS]
            yield Batch(task, [tasks[at].item for at in part], seconds, common=common), part


def run_tasks(tasks: Iterable[WorkerTask]) -> list[Any]:
    """The answer or fault of each task; the thread blocks."""
    tasks = list(tasks)
    answers: list[Any] = [None] * len(tasks)
    futures = [(pool.submit(batch), places) for batch, places in batches(tasks)]
    for future, places in futures:
        for at, outcome in zip(places, future.result(), strict=True):
            answers[at] = tasks[at].to_answer(outcome)
    return answers


# Offloads checks with large arguments to a worker process, which has a time limit.

TASK = "assay.checks.worker_tasks:task"
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
