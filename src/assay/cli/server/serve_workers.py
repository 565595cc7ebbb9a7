"""
`assay serve --processes N`: a parent that forks the server processes, replaces one that dies, and stops them together.

The parent opens no store and no event loop, so that it can fork at any time. It holds the listening socket: connections
wait in its queue while a worker is replaced. A worker that loses its parent stops as on SIGTERM.
"""

import asyncio
import os
import selectors
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from assay.cli.console.console import count_of, echo, echo_err, echo_err_plain
from assay.concurrency.event_loop import supervise
from assay.errors.exit_codes import ERROR
from assay.host import servers
from assay.ports.telemetry import telemetry
from assay.serve.web.worker_group import WorkerGroup, WorkerMember, restore_metrics, write_metrics

STOP_SECONDS = 40.0  # for all workers to end after SIGTERM; then they are killed
FAILED_STARTS = 5  # in a row, after which the server ends
METRICS_SECONDS = 1.0  # between two writes of a worker's metrics
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ForkedMember(WorkerMember):
    """The side of a worker: it tells the parent that it serves, and learns that the parent is gone."""

    def __init__(self, group: WorkerGroup, index: int, report: int, lifeline: int) -> None:
        super().__init__(group, index)
        self._report, self.lifeline = report, lifeline

    def ready(self) -> None:
        super().ready()
        with suppress(OSError):
            os.write(self._report, b"1")


class WorkerProcess(NamedTuple):
    """A worker, as the parent sees it. Its end of `report` gives a byte when the worker serves."""

    number: int  # of its row in the group
    report: int


class Supervisor:
    """Keeps the workers of a group running until a signal."""

    def __init__(self, group: WorkerGroup, listener: socket.socket, addresses: Sequence[str]) -> None:
        self._group, self._listener, self._addresses = group, listener, addresses
        self._workers: dict[int, WorkerProcess] = {}  # by process id
        self._starts: dict[int, float] = {}  # when a worker is to start, by index
        self._ready: set[int] = set()  # process ids
        self._failures = [0] * group.size  # starts in a row that failed
        self._announced = self._stopping = False
        self._until = 0.0
        self._code = 0
        self._selector = selectors.DefaultSelector()
        self._lifeline = os.pipe()
        self._wakeup = socket.socketpair()

    def run(self) -> WorkerMember | None:
        """Returns in each worker with its membership, and in the parent with None when all have ended."""
        for end in self._wakeup:
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakeup[1].fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, _on_child_end)
        self._selector.register(self._wakeup[0], selectors.EVENT_READ)
        self._starts[0] = 0.0  # the others follow when the first one serves: it migrates the database
        while self._starts or self._workers:
            member = self._start_due()
            if member is not None:
                return member
            self._wait()
            self._reap()
            self._enforce_stop()
        self._close()
        if self._code:
            raise SystemExit(self._code)
        return None

    def _on_signal(self, number: int, frame: object) -> None:
        self._stop()

    def _stop(self) -> None:
        """Begin the graceful stop: every worker drains."""
        if self._stopping:
            return
        self._stopping, self._until = True, time.monotonic() + STOP_SECONDS
        self._starts.clear()
        self._listener.close()
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in self._workers:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _start_due(self) -> WorkerMember | None:
        now = time.monotonic()
        for index in [index for index, at in self._starts.items() if at <= now]:
            if self._stopping:
                return None
            member = self._fork(index)
            if member is not None:
                return member
        return None

    def _fork(self, index: int) -> WorkerMember | None:
        mine, theirs = os.pipe()
        blocked = signal.pthread_sigmask(
            signal.SIG_BLOCK, SIGNALS
        )  # no handler of the parent runs in a child
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in (*SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.setpgid(0, 0)  # Ctrl-C on a terminal reaches the parent alone
            os.close(mine)
            os.close(self._lifeline[1])
            for worker in self._workers.values():
                with suppress(OSError):
                    os.close(worker.report)
            self._selector.close()
            for end in self._wakeup:
                end.close()
            return ForkedMember(self._group, index, theirs, self._lifeline[0])
        os.close(theirs)
        del self._starts[index]
        self._workers[pid] = WorkerProcess(index, mine)
        self._selector.register(mine, selectors.EVENT_READ, pid)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return None

    def _wait(self) -> None:
        pauses = [at - time.monotonic() for at in self._starts.values()]
        if self._stopping:
            pauses.append(self._until - time.monotonic())
        for key, _ in self._selector.select(max(0.0, min(pauses)) if pauses else None):
            if key.data is None:
                with suppress(BlockingIOError):
                    self._wakeup[0].recv(4096)
            elif os.read(key.fd, 1):
                self._on_ready(key.data)
            else:
                self._selector.unregister(key.fd)

    def _on_ready(self, pid: int) -> None:
        self._ready.add(pid)
        self._failures[self._workers[pid].number] = 0
        if self._announced or self._stopping:
            return
        running = {worker.number for worker in self._workers.values()} | set(self._starts)
        self._starts |= {index: 0.0 for index in range(self._group.size) if index not in running}
        if len(self._ready) == self._group.size:
            self._announced = True
            for address in self._addresses:
                echo(f"assay serves {address}", flush=True)

    def _reap(self) -> None:
        for pid in list(self._workers):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._on_end(pid, os.waitstatus_to_exitcode(status))

    def _on_end(self, pid: int, code: int) -> None:
        index, report = self._workers.pop(pid)
        with suppress(KeyError):
            self._selector.unregister(report)
        os.close(report)
        was_ready = pid in self._ready or self._group.is_ready(index)
        self._ready.discard(pid)
        self._group.clear(index)
        if self._stopping:
            if code not in (0, -signal.SIGTERM):  # it was ended by force
                self._code = self._code or ERROR
            return
        if not self._announced and not was_ready:  # a mistake of the operator, which the worker has reported
            self._code = code if code > 0 else ERROR
            self._stop()
            return
        self._failures[index] = 0 if was_ready else self._failures[index] + 1
        reason = f"signal {-code}" if code < 0 else f"code {code}"
        if self._failures[index] >= FAILED_STARTS:
            echo_err(f"server process {index} ended {FAILED_STARTS} times before it served; the server stops")
            self._code = ERROR
            self._stop()
            return
        echo_err_plain(f"server process {index} ended with {reason}; another one starts")
        pause = 0.1 * 2 ** self._failures[index] if self._failures[index] else 0.0
        self._starts[index] = time.monotonic() + pause

    def _enforce_stop(self) -> None:
        if self._stopping and self._workers and time.monotonic() >= self._until:
            many = len(self._workers)
            echo_err(
                f"{count_of(many, 'server process')} did not end within {STOP_SECONDS:g} s and"
                f" {'is' if many == 1 else 'are'} killed; the next start continues the runs from what is stored"
            )
            self._signal_all(signal.SIGKILL)
            self._until = time.monotonic() + 1.0

    def _close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for end in self._wakeup:
            end.close()
        for end in self._lifeline:
            os.close(end)
        self._group.close()


def _on_child_end(number: int, frame: object) -> None:
    """The signal only wakes the parent: it reaps its children itself."""


async def work_for_parent(server: servers.HttpServer, member: WorkerMember) -> None:
    """Tell the parent when this worker serves, share its metrics, and stop when the parent is gone."""
    if isinstance(member, ForkedMember):
        loop = asyncio.get_running_loop()
        loop.add_reader(member.lifeline, _on_parent_gone, loop, server, member.lifeline)
    restore_metrics(member, telemetry)
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event to wait for
        await asyncio.sleep(0.01)
    member.ready()
    await supervise("metrics", lambda: _write_loop(member))


def _on_parent_gone(loop: asyncio.AbstractEventLoop, server: servers.HttpServer, lifeline: int) -> None:
    loop.remove_reader(lifeline)
    server.should_exit = True


async def _write_loop(member: WorkerMember) -> None:
    while True:
        with suppress(OSError):  # the parent has removed the folder, or its disk is full
            write_metrics(member, telemetry)
        await asyncio.sleep(METRICS_SECONDS)
