"""
Isolated checks: each runs in a process of its own, which a deadline can kill (FEP-32).

The process receives a name and bytes: the class as `module:Class`, its arguments and its answer as JSON.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from assay.checks.checker import Checker
from assay.concurrency.workers.process import Process
from assay.concurrency.workers.worker_loop import Order
from assay.errors import Fault, ForeignFault
from assay.protocol.json_types import base_of

TASK = "assay.fep.execution.isolated_check:isolated_check"


class CheckProcess:
    """One process. It starts with its first check, and again after it was killed."""

    def __init__(self) -> None:
        self._process = Process()
        self.close = self._process.close

    def run(self, checker: Checker, seconds: float) -> Any:
        """The answer or a fault. After `seconds` the process is killed; its death is a fault too."""
        kind = type(checker)
        name = f"{kind.__module__}:{kind.__qualname__}"
        try:
            arguments = msgspec.json.encode(msgspec.to_builtins(checker, enc_hook=base_of))
        except (TypeError, ValueError, RecursionError) as wrong:
            return ForeignFault(f"{kind.type} cannot be isolated: {wrong}")
        (outcome,) = self._process.run(Order(TASK, name.encode(), [arguments]), seconds, kind.type)
        return outcome if isinstance(outcome, Fault) else msgspec.json.decode(outcome)


class CheckProcessPool:
    """The processes for isolated checks; an idle one is used again."""

    def __init__(self) -> None:
        self._free: list[CheckProcess] = []
        self._all: list[CheckProcess] = []
        self._lock = threading.Lock()

    @contextmanager
    def acquire(self) -> Generator[CheckProcess]:
        with self._lock:
            process = self._free.pop() if self._free else CheckProcess()
            if process not in self._all:
                self._all.append(process)
        try:
            yield process
        finally:
            with self._lock:
                self._free.append(process)

    def close(self) -> None:
        with self._lock:
            for process in self._all:
                process.close()
