"""
A pool of worker processes, with a thread for each. `pool.py` has the one of this host, and makes it for the first
batch. A run has one for its isolated checks.
"""

import threading
from collections import Counter, OrderedDict, deque
from concurrent.futures import Future

from assay.concurrency.workers import machine
from assay.concurrency.workers.batch import Batch, Outcome
from assay.concurrency.workers.process import Process
from assay.errors import ForeignFault

IDLE = 60.0  # seconds
SPARE_IDLE = 10.0  # seconds, while another process is free too: each keeps the models that it loaded
MEMORY = 2 << 30  # limit of a worker's address space, in bytes


class Pool:
    """
    A pool of at most `limit` processes, each with a thread that sends it orders.

    0: the default. The first batch reads it, because it takes a millisecond and few processes have a batch.

    `memory` limits the address space of each process in bytes; 0 sets no limit. A process ends after `idle` seconds
    without work, and after SPARE_IDLE while another one is free too; None: when the pool is closed. At most as many
    processes start at a time as there are already: items that are quick are over before.
    """

    def __init__(self, limit: int = 0, memory: int = MEMORY, idle: float | None = IDLE) -> None:
        self._limit, self._memory, self._idle_seconds = limit, memory, idle
        self._changed = threading.Condition()
        self._queues: OrderedDict[str, deque[Batch]] = OrderedDict()
        self._running_by_owner: Counter[str] = Counter()
        self._processes: set[Process] = set()
        self._free = self._starting = 0  # processes without a batch
        self._open = True

    def submit(self, batch: Batch) -> "Future[list[Outcome]]":
        """A future with one outcome per item, in order. A cancelled batch ends after its current slice."""
        if not batch.items:
            batch.future.set_result([])
            return batch.future
        with self._changed:
            if not self._open:
                batch.future.set_result([ForeignFault("the host is shutting down")] * len(batch.items))
                return batch.future
            self._limit = self._limit or machine.default_size()
            self._queues.setdefault(batch.owner, deque()).append(batch)
            self._changed.notify()
            self._start_processes()
        return batch.future

    def resize(self, limit: int) -> None:
        """Change the limit; 0 sets the default. Processes above it end after their slice."""
        with self._changed:
            self._limit = limit or (machine.default_size() if self._processes else 0)
            self._changed.notify_all()

    def close(self) -> None:
        """Kill all processes. Waiting batches get a fault."""
        with self._changed:
            self._open = False
            waiting = [batch for queue in self._queues.values() for batch in queue]
            self._queues.clear()
            processes = list(self._processes)
            self._changed.notify_all()
        for batch in waiting:
            _settle(batch, "the host is shutting down")
        for process in processes:
            process.kill()

    def forget(self) -> None:
        """Forget the processes of the parent; called in the child after a fork."""
        for process in self._processes:
            process.forget()

    @property
    def processes(self) -> int:
        return len(self._processes)

    def _start_processes(self) -> None:
        """Start other workers if batches may run and no worker is free for them."""
        waiting = sum(map(len, self._queues.values()))
        most = min(self._limit, 2 * (len(self._processes) - self._starting) or 1)
        while (
            waiting > self._free + self._starting
            and len(self._processes) < most
            and (owner := self._turn_of()) is not None
        ):
            process = Process(self._memory)
            self._processes.add(process)
            self._starting += 1
            threading.Thread(
                target=self._serve_process,
                args=(process, self._queues[owner][0].task),
                daemon=True,
                name="assay-worker",
            ).start()

    def _serve_process(self, process: Process, task: str) -> None:
        process.start(task)
        with self._changed:
            self._starting -= 1
            self._free += 1
        while (batch := self._next(process)) is not None:
            if not batch.future.cancelled():
                batch.run(process)
            self._requeue(batch)
        process.close()

    def _next(self, process: Process) -> Batch | None:
        """The next batch of the owner whose turn it is; None: this worker must end."""
        with self._changed:
            while self._open and len(self._processes) <= self._limit:
                if (batch := self._turn()) is not None:
                    self._free -= 1
                    self._start_processes()
                    return batch
                idle = self._idle()
                if not self._changed.wait(idle) and self._turn_of() is None and idle == self._idle():
                    break
            self._free -= 1
            self._processes.discard(process)
            return None

    def _idle(self) -> float | None:
        """The seconds without work after which a free process ends."""
        if self._idle_seconds is None or self._free < 2:
            return self._idle_seconds
        return min(self._idle_seconds, SPARE_IDLE)

    def _turn(self) -> Batch | None:
        whose = self._turn_of()
        if whose is None:
            return None
        queue = self._queues[whose]
        batch = queue.popleft()
        self._queues.move_to_end(whose)
        if not queue:
            del self._queues[whose]
        self._running_by_owner[whose] += 1
        return batch

    def _turn_of(self) -> str | None:
        share = max(1, self._limit - 1)
        return next((one for one in self._queues if self._running_by_owner[one] < share), None)

    def _requeue(self, batch: Batch) -> None:
        with self._changed:
            self._free += 1
            self._running_by_owner[batch.owner] -= 1
            if not self._running_by_owner[batch.owner]:
                del self._running_by_owner[batch.owner]
            going = self._open and not batch.done and not batch.future.cancelled()
            if going:
                self._queues.setdefault(batch.owner, deque()).appendleft(batch)
            self._changed.notify()
        if not going:
            _settle(batch, "the host is shutting down")


def _settle(batch: Batch, message: str) -> None:
    missing = len(batch.items) - len(batch.outcomes)
    if batch.future.set_running_or_notify_cancel():
        batch.future.set_result([*batch.outcomes, *[ForeignFault(message)] * missing])
