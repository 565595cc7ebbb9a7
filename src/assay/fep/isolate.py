"""
A check in a process of its own, which a deadline can kill (decision 32).

What crosses is a name and bytes: the class as `module:Class`, its arguments and its answer as JSON.
"""

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from assay.checks.checker import Checker
from assay.errors import Fault, ForeignFault, PathFault, TimeFault, ValueFault
from assay.protocol.values import base_of

STARTED = b"ready\n"
TO_START = 60.0  # seconds, which are not the check's
_MAIN = "from assay.fep.isolate import serve; serve()"


class Order(msgspec.Struct):
    check: str
    arguments: dict[str, Any]


class Reply(msgspec.Struct, omit_defaults=True):
    answer: Any = None
    fault: str | None = None
    message: str = ""
    recoverable: bool = False


class Cell:
    """One process, started when first needed and again after it was killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, checker: Checker, seconds: float) -> Any:
        """The answer or the fault. A deadline kills the process; so does its own death end in a fault."""
        kind = type(checker)
        try:
            arguments = msgspec.to_builtins(checker, enc_hook=base_of)
            order = Order(f"{kind.__module__}:{kind.__qualname__}", arguments)
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            process.stdin.flush()
            line = _line(process.stdout.fileno(), time.monotonic() + seconds)
            reply = msgspec.json.decode(line, type=Reply)
        except (BrokenPipeError, EOFError):
            code = self.close()
            return ForeignFault(f"{kind.type} ended its process ({_ending(code)})")
        except TimeoutError:
            self.close()
            return TimeFault(f"no answer within {seconds:g} s; its process was killed")
        except (TypeError, ValueError, RecursionError, OSError) as wrong:
            return ForeignFault(f"{kind.type} cannot be isolated: {wrong}")
        return reply.answer if reply.fault is None else _fault(reply)

    def close(self) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        return code

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter, our own module
                [sys.executable, "-c", _MAIN],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            assert self._process.stdout is not None
            _line(self._process.stdout.fileno(), time.monotonic() + TO_START)
        return self._process


class Cells:
    """As many processes as run at once, each used again."""

    def __init__(self) -> None:
        self._free: list[Cell] = []
        self._all: list[Cell] = []
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Generator[Cell]:
        with self._lock:
            cell = self._free.pop() if self._free else Cell()
            if cell not in self._all:
                self._all.append(cell)
        try:
            yield cell
        finally:
            with self._lock:
                self._free.append(cell)

    def close(self) -> None:
        with self._lock:
            for cell in self._all:
                cell.close()


def serve() -> None:
    """The process: one order a line in, one reply a line out. What a check prints goes nowhere."""
    from assay.fep.perform import perform  # a lazy door: the parent does not need it

    orders, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    replies.write(STARTED)
    replies.flush()
    for line in orders:
        order = msgspec.json.decode(line, type=Order)
        outcome = perform(order.check, order.arguments)
        reply = (
            Reply(fault=type(outcome).__name__, message=str(outcome), recoverable=outcome.recoverable)
            if isinstance(outcome, Fault)
            else Reply(answer=outcome)
        )
        replies.write(msgspec.json.encode(reply) + b"\n")
        replies.flush()


def _line(source: int, until: float) -> bytes:
    parts: list[bytes] = []
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            raise TimeoutError
        part = os.read(source, 1 << 16)
        if not part:
            raise EOFError
        parts.append(part)
        if part.endswith(b"\n"):
            return b"".join(parts)


def _ending(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _fault(reply: Reply) -> Fault:
    for kind in (PathFault, ValueFault, TimeFault):
        if kind.__name__ == reply.fault:
            return kind(reply.message)
    return ForeignFault(reply.message, recoverable=reply.recoverable)
