"""
The loop inside a worker process: it reads an order and writes one reply per item.

The kernel enforces the limits, so they hold even if the task never returns to Python or the parent has died: `seconds`
of processor time per item, and the memory of the whole process.
"""

import importlib
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

import msgspec

from assay.concurrency.memory import GROWTH, release_memory, resident_bytes
from assay.errors import Fault

READY, DONE, FAULT, LATE, PAUSE = b"R", b"D", b"F", b"L", b"P"
SLICE = 0.05  # seconds after which the rest of an order goes back to the queue
GRACE = 0.5  # seconds of processor time between the signal that raises in the task and the one that kills the process
PRIORITY = 10  # nice: where cores are few, the event loop of the server goes first
HEAD = struct.Struct(">cI")
SIZE = struct.Struct(">I")

Task = Callable[[bytes], bytes]


class Order(msgspec.Struct, array_like=True):
    """
    `task` is "module:function". The function is called with `common`; it returns a function that is called with each
    item.
    """

    task: str
    common: bytes
    items: list[bytes]
    seconds: float | None = None  # of processor time per item; None: only the parent limits the time


class TaskFailure(msgspec.Struct, array_like=True):
    """A Fault as it is sent to the parent."""

    kind: str
    message: str
    recoverable: bool = False
    bug: str = ""  # the places in the code, if it is none of the faults that a task may have


class Expired(BaseException):
    """The processor time of an item is used up. Not an Exception, so that a task does not catch it by accident."""


def serve(memory: int, module: str) -> None:
    """
    Import a module, then serve orders until the parent closes the pipe or dies. The output of tasks is discarded.
    """
    orders, replies = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.nice(PRIORITY)
    if memory:
        _limit(memory)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and a supervisor's SIGTERM
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process
    signal.signal(signal.SIGVTALRM, _expire)
    if module:
        with suppress(Exception):  # an order for it says what is wrong
            importlib.import_module(module)
    os.write(replies, HEAD.pack(READY, 0))
    level = resident_bytes()
    while order := _order(orders):
        _perform(order, replies)
        del order
        if resident_bytes() > level + GROWTH:
            release_memory()
            level = resident_bytes()


def _perform(order: Order, replies: int) -> None:
    began = time.monotonic()
    task: Task | TaskFailure | None = None
    for at, item in enumerate(order.items):
        if at and time.monotonic() - began > SLICE:
            _write(replies, PAUSE, b"")
            return
        try:
            if order.seconds is not None:
                signal.setitimer(signal.ITIMER_PROF, order.seconds + GRACE)
                signal.setitimer(signal.ITIMER_VIRTUAL, order.seconds)
            if task is None:
                task = _import_task(order)
            kind, reply = (FAULT, task) if isinstance(task, TaskFailure) else _outcome(task, item)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except Expired:
            kind, reply = LATE, b""
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(replies, kind, reply if isinstance(reply, bytes) else msgspec.msgpack.encode(reply))


def _import_task(order: Order) -> Task | TaskFailure:
    module, _, path = order.task.partition(":")
    try:
        made: Any = importlib.import_module(module)
        for part in path.split("."):
            made = getattr(made, part)
        return made(order.common)
    except Exception as surprise:  # noqa: BLE001  # whatever ends a task is the answer to its items
        return _task_failure(surprise)


def _outcome(task: Task, item: bytes) -> tuple[bytes, bytes | TaskFailure]:
    try:
        return DONE, task(item)
    except Exception as surprise:  # noqa: BLE001  # whatever ends a task is the answer to its item
        return FAULT, _task_failure(surprise)


def _task_failure(error: Exception) -> TaskFailure:
    if isinstance(error, Fault):
        return TaskFailure(type(error).__name__, str(error), error.recoverable)
    if isinstance(error, MemoryError):
        return TaskFailure("ForeignFault", "it needs more memory than a worker process may use")
    from assay.ports.bugs import traceback_of  # deferred import: a process has few modules

    return TaskFailure("ForeignFault", f"{type(error).__name__}: {error}", bug=traceback_of(error))


def _expire(*_: Any) -> None:
    raise Expired


def _limit(memory: int) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (OSError, ValueError):
        return  # the system does not have such a limit, or has a lower one


def _order(source: BinaryIO) -> Order | None:
    head = source.read(SIZE.size)
    if len(head) < SIZE.size:
        return None
    return msgspec.msgpack.decode(source.read(SIZE.unpack(head)[0]), type=Order)


def _write(target: int, kind: bytes, reply: bytes) -> None:
    try:
        rest = memoryview(HEAD.pack(kind, len(reply)) + reply)
        while rest:
            rest = rest[os.write(target, rest) :]
    except BrokenPipeError:
        sys.exit(0)  # the parent is gone
