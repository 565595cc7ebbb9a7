"""
The worker processes of this host: `submit(Batch(…))` from any thread or event loop.

Owners (usually tenants) take turns, one slice of a batch at a time. One owner can hold all workers but one, so its
queue delays another owner by at most the time limit of one item. A process starts when a batch finds no free worker. It
ends after a minute without work, or when the pool is closed.
"""

import atexit
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from assay.errors import Fault
from assay.workers.machine import available_cores

if TYPE_CHECKING:
    from concurrent.futures import Future

    from assay.workers.process import Process
    from assay.workers.process_pool import Pool
    from assay.workers.worker import Order

MOST_ITEMS, MOST_BYTES = 4096, 4 << 20  # limits of one order

Outcome = bytes | Fault

owner: Final = ContextVar("owner", default="")  # the owner of new batches: the tenant, if there is one


@contextmanager
def owner_scope(by: str) -> Generator[None]:
    """Inside this context, new batches belong to this owner."""
    token = owner.set(by)
    try:
        yield
    finally:
        owner.reset(token)


class Batch:
    """
    Items for one task: "module:function".

    The function is called with `common` and returns a function from item to answer.

    `seconds` limits the processor time of one item. A worker imports the function by name, so it must be at module
    level.
    """

    def __init__(
        self, task: str, items: list[bytes], seconds: float, *, common: bytes = b"", tenant: str | None = None
    ) -> None:
        self.task, self.items, self.seconds, self.common = task, items, seconds, common
        from concurrent.futures import Future  # deferred import: most hosts never have a batch

        self.owner = owner.get() if tenant is None else tenant
        self.future: Future[list[Outcome]] = Future()
        self.outcomes: list[Outcome] = []
        self._chunk_size = MOST_ITEMS

    def order(self) -> "Order":
        """An order with the next items, as many as one slice may have."""
        from assay.workers.worker import Order  # deferred import

        first = len(self.outcomes)
        last, size = first + 1, len(self.items[first])
        while last < len(self.items) and last - first < self._chunk_size and size < MOST_BYTES:
            size += len(self.items[last])
            last += 1
        return Order(self.task, self.common, self.items[first:last], self.seconds)

    def run(self, process: "Process") -> None:
        """Run one slice in a process."""
        order = self.order()
        found = list(process.run(order))
        self.outcomes += found
        self._chunk_size = MOST_ITEMS if len(found) == len(order.items) else max(1, 2 * len(found))

    @property
    def done(self) -> bool:
        return len(self.outcomes) == len(self.items)


def default_size() -> int:
    """The default limit: one worker per core that this process may use, and one that a single owner cannot hold."""
    return available_cores() + 1


class _HostPool:
    """The pool of this host. It is made for the first batch, because most hosts never have one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limit = 0
        self.pool: Pool | None = None

    def get(self) -> "Pool":
        with self._lock:
            if self.pool is None:
                from assay.workers.process_pool import Pool  # deferred import: threads, processes and logging

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
