"""
The worker processes of this host: `submit(Batch(…))` from any thread or event loop.

Owners (usually tenants) take turns, one slice of a batch at a time. One owner can hold all workers but one, so its
queue delays another owner by at most the time limit of one item. A process starts when a batch finds no free worker. It
ends after a minute without work, after ten seconds while another one is free too, or when the pool is closed.
"""

import atexit
import os
import threading
from typing import TYPE_CHECKING

from assay.concurrency.workers.batch import Batch, Outcome

if TYPE_CHECKING:
    from concurrent.futures import Future

    from assay.concurrency.workers.process_pool import Pool


class _HostPool:
    """The pool of this host. It is made for the first batch, because most hosts never have one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limit = 0
        self.pool: Pool | None = None

    def get(self) -> "Pool":
        with self._lock:
            if self.pool is None:
                from assay.concurrency.workers.process_pool import Pool  # deferred import

                self.pool = Pool(self._limit)
            return self.pool

    def resize(self, limit: int) -> None:
        with self._lock:
            self._limit = limit
            pool = self.pool
        if pool is not None:
            pool.resize(limit)


_host = _HostPool()


def submit(batch: Batch) -> "Future[list[Outcome]]":
    return _host.get().submit(batch)


def resize(limit: int) -> None:
    """Change the limit of worker processes. 0 sets the default."""
    _host.resize(limit)


def processes() -> int:
    """The number of worker processes now."""
    return 0 if _host.pool is None else _host.pool.processes


def close() -> None:
    """Kill all worker processes; called when the host ends."""
    if _host.pool is not None:
        _host.pool.close()


def _renew() -> None:
    global _host  # a fork leaves the threads of the pool behind
    before, _host = _host, _HostPool()
    if before.pool is not None:
        before.pool.forget()


os.register_at_fork(after_in_child=_renew)
atexit.register(close)
