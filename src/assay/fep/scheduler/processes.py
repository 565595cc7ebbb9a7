"""
A check in a process of its own, which a deadline can kill (decision 32).

What crosses is a name and bytes: the class as `module:Class`, its arguments and its answer as JSON.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from assay.checks.checker import Checker
from assay.errors import Fault, ForeignFault
from assay.protocol.json_types import base_of
from assay.workers.process import Process
from assay.workers.worker import Order

TASK = "assay.fep.scheduler.process_worker:isolated"


class CheckProcess:
    """One process, started when first needed and again after it was killed."""

    def __init__(self) -> None:
        self._process = Process()
        self.close = self._process.close

    def run(self, checker: Checker, seconds: float) -> Any:
        """The answer or the fault. A deadline kills the process; so does its own death end in a fault."""
        kind = type(checker)
        name = f"{kind.__module__}:{kind.__qualname__}"
        try:
            arguments = msgspec.json.encode(msgspec.to_builtins(checker, enc_hook=base_of))
        except (TypeError, ValueError, RecursionError) as wrong:
            return ForeignFault(f"{kind.type} cannot be isolated: {wrong}")
        (outcome,) = self._process.run(Order(TASK, name.encode(), [arguments]), seconds, kind.type)
        return outcome if isinstance(outcome, Fault) else msgspec.json.decode(outcome)


class CheckProcessPool:
    """As many processes as run at once, each used again."""

    def __init__(self) -> None:
        self._free: list[CheckProcess] = []
        self._all: list[CheckProcess] = []
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Generator[CheckProcess]:
        with self._lock:
            cell = self._free.pop() if self._free else CheckProcess()
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
