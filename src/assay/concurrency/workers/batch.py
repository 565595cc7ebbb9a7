"""A batch of items for worker processes, and whose it is."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from assay.errors import Fault

if TYPE_CHECKING:
    from assay.concurrency.workers.process import Process
    from assay.concurrency.workers.worker_loop import Order


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

    `seconds` limits the processor time of one item, `wall_seconds` the time until its answer; without the latter it is
    enough for the processor time on a busy machine. `name` is what a message calls the function. A worker imports the
    function by its path, so it must be at module level.
    """

    def __init__(
        self,
        task: str,
        items: list[bytes],
        seconds: float | None,
        *,
        common: bytes = b"",
        wall_seconds: float | None = None,
        name: str = "the task",
        tenant: str | None = None,
    ) -> None:
        self.task, self.items, self.seconds, self.common = task, items, seconds, common
        self.wall_seconds, self.name = wall_seconds, name
        from concurrent.futures import Future  # deferred import: most hosts never have a batch

        self.owner = owner.get() if tenant is None else tenant
        self.future: Future[list[Outcome]] = Future()
        self.outcomes: list[Outcome] = []
        self._chunk_size = MOST_ITEMS

    def order(self) -> "Order":
        """An order with the next items, as many as one slice may have."""
        from assay.concurrency.workers.worker_loop import Order  # deferred import

        first = len(self.outcomes)
        last, size = first + 1, len(self.items[first])
        while last < len(self.items) and last - first < self._chunk_size and size < MOST_BYTES:
            size += len(self.items[last])
            last += 1
        return Order(self.task, self.common, self.items[first:last], self.seconds)

    def run(self, process: "Process") -> None:
        """Run one slice in a process."""
        order = self.order()
        found = list(process.run(order, self.wall_seconds, self.name))
        self.outcomes += found
        self._chunk_size = MOST_ITEMS if len(found) == len(order.items) else max(1, 2 * len(found))

    @property
    def done(self) -> bool:
        return len(self.outcomes) == len(self.items)
