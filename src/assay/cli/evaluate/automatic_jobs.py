"""
The processes of `assay evaluate` without --jobs.

This process begins the run itself. If what remains of the input takes long, workers evaluate it
(`cli/evaluate/jobs.py`). A short run never starts a process, whatever its checks cost.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from assay.checks import STANDARD
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.cli.evaluate.inputs_outputs import Inputs
from assay.concurrency.workers.machine import available_cores, available_memory
from assay.errors import InvalidRequest
from assay.fep.planning.plan import Plan
from assay.inputs.context import Context
from assay.settings import Settings

HEAD_SECONDS = 0.3  # of work in this process before it estimates the rest
WORTH_SECONDS = 2.0  # of remaining work: two workers need about 0.4 s to start, and then save half of it
MIN_BYTES = 1 << 20  # a smaller input is never divided: one range would take most of it
WORKER_MEMORY = 128 << 20  # bytes that a worker may need, with its share of the results
WORKER_DISK = 64 << 20  # bytes of its temporary files
EVERY = 64  # cases between two looks at the clock


def automatic_jobs(plan: Plan, options: EvaluateOptions, settings: Settings) -> int:
    """
    The processes that this run may use: the cores, less if memory or the temporary folder is short. 1: one process.
    """
    if settings.jobs == 1 or not _is_plain_file(options.contexts) or not _is_divisible(plan):
        return 1
    jobs = available_cores()
    if settings.jobs:
        jobs = min(jobs, settings.jobs)
    if jobs > 1 and (memory := available_memory()) is not None:
        jobs = min(jobs, memory // WORKER_MEMORY)
    if jobs > 1:
        jobs = min(jobs, _free_disk() // WORKER_DISK)
    return max(1, jobs)


def _is_plain_file(name: str | None) -> bool:
    """A worker opens the file by its name. A name such as /dev/stdin is another file there."""
    if name is None or name == "-" or str(Path(name).absolute()).startswith(("/dev/", "/proc/")):
        return False
    path = Path(name)
    return path.is_file() and path.stat().st_size >= MIN_BYTES


def _is_divisible(plan: Plan) -> bool:
    """
    Whether all checks are assay's own, and none waits for a judge, an embedder or a thread.

    A check in the user's Python may count, cache or write: it sees the cases in one process unless --jobs says
    otherwise. The own checks of a case are not known before the case is read.
    """
    if plan.shared is None or plan.shared.waits:
        return False
    for bound in plan.shared.checks:
        try:
            if STANDARD.find(bound.checker.type, bound.checker.version) is not bound.checker:
                return False
        except InvalidRequest:
            return False
    return True


def _free_disk() -> int:
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        return 0


class Head:
    """Iterates over the cases that this process evaluates: all, or those before the rest is worth several processes."""

    def __init__(self, name: str, inputs: Inputs) -> None:
        assert inputs.source is not None
        self._name, self._identity = name, _identity(name)
        self._contexts, self._source, self._size = inputs.contexts, inputs.source, inputs.size
        self._start = inputs.source.read
        self.remains = False  # the rest is worth several processes, and is not read

    @property
    def divisible(self) -> bool:
        """Whether the name still means the file that this process reads."""
        return _identity(self._name) == self._identity

    def __iter__(self) -> Iterator[Context]:
        began = time.monotonic()
        for at, context in enumerate(self._contexts, 1):
            yield context
            if at % EVERY == 0 and self._is_worth(time.monotonic() - began):
                self.remains = True
                return

    def _is_worth(self, seconds: float) -> bool:
        done, remaining = self._source.read - self._start, self._size - self._source.read
        if seconds < HEAD_SECONDS or remaining < MIN_BYTES:
            return False
        return seconds * remaining / max(done, 1) >= WORTH_SECONDS


def _identity(name: str) -> tuple[int, int] | None:
    try:
        file = Path(name).stat()
    except OSError:
        return None
    return file.st_dev, file.st_ino
