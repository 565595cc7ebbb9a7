"""One worker process: started when first needed, and again after it ended."""

import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.concurrency.workers.worker_loop import DONE, HEAD, LATE, PAUSE, SIZE, Order, TaskFailure
from assay.errors import Fault, ForeignFault, PathFault, TimeFault, ValueFault

log = logging.getLogger("assay.workers")
TO_START = 60.0  # seconds for the start of a process; they do not count for the task
PATIENCE = 4  # an item may take its processor time, times this…
MARGIN = 5.0  # …plus this, in seconds, without the time in which its process waits for a core
LEAST_QUEUED = 0.01  # seconds without a core that extend a time limit
LOOK = 0.05  # seconds between two looks at a process that has no core
GATHER = 0.001  # seconds between two reads of consecutive replies
_MAIN = "from assay.concurrency.workers.worker_loop import serve; serve({}, '{}')"


class Process:
    """A worker process, for one thread at a time. `memory` limits its address space in bytes; 0 sets no limit."""

    def __init__(self, memory: int = 0) -> None:
        self._memory, self._module = memory, ""
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()  # between a start and a `kill` from another thread
        self._killed = False

    def start(self, task: str) -> None:
        """Start the process for this task before its first order, which reports why it cannot be started."""
        self._module = task.partition(":")[0]
        with suppress(OSError, EOFError):
            self._spawn()

    def run(
        self, order: Order, wall_seconds: float | None = None, name: str = "the task"
    ) -> Iterator[bytes | Fault]:
        """
        Yield one outcome per item, in order. If there are fewer outcomes than items, send the rest again.

        `wall_seconds` is the time limit of one item; the default is enough for the order's processor time on a busy
        machine, because the time in which the process waits for a core does not count. After an item that is late, the
        process is killed. If the process dies by itself, the outcome is a fault.
        """
        seconds = order.seconds or 0.0
        limit = seconds * PATIENCE + MARGIN if wall_seconds is None else wall_seconds
        reason = f"no answer within {seconds or limit:g} s"
        try:
            yield from self._replies(order, limit, reason, is_wall=wall_seconds is not None)
        except TimeoutError:
            self.close()
            yield TimeFault(f"{reason}; its process was killed")
        except (BrokenPipeError, EOFError):
            code = self.close()
            if code == -signal.SIGPROF:
                yield TimeFault(f"{reason}; its process was killed")
            else:
                yield ForeignFault(f"{name} ended its process ({_exit_reason(code)})")
        except OSError as wrong:
            self.close()
            yield ForeignFault(f"no worker process can be started: {wrong.strerror}", recoverable=True)

    def close(self) -> int:
        """Kill the process. Returns its exit code."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.kill()
        code = process.wait()
        _close_pipes(process)
        return code

    def kill(self) -> None:
        """
        Kill the process from another thread and do not start it again. The thread that reads its replies sees its end.
        """
        with self._lock:
            self._killed, process = True, self._process
        if process is not None:
            process.kill()
            process.wait()

    def forget(self) -> None:
        """Called in the child after a fork: the process belongs to the parent."""
        if self._process is not None:
            _close_pipes(self._process)
            self._process.returncode = 0  # the parent waits for it
            self._process = None

    def _replies(self, order: Order, limit: float, reason: str, *, is_wall: bool) -> Iterator[bytes | Fault]:
        process = self._spawn()
        assert process.stdin is not None
        assert process.stdout is not None
        encoded = msgspec.msgpack.encode(order)
        rest = memoryview(SIZE.pack(len(encoded)) + encoded)
        while rest:
            rest = rest[os.write(process.stdin.fileno(), rest) :]
        frames = _frames(process.stdout.fileno(), limit, None if is_wall else process.pid)
        for _ in order.items:
            kind, reply = next(frames)
            if kind == PAUSE:
                return
            if kind == DONE:
                yield reply
            elif kind == LATE:
                yield TimeFault(reason)
            else:
                yield _fault(msgspec.msgpack.decode(reply, type=TaskFailure))

    def _spawn(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            with self._lock:
                if self._killed:
                    raise EOFError
                self._process = subprocess.Popen(  # noqa: S603  # our own interpreter, our own module
                    [sys.executable, "-P", "-c", _MAIN.format(self._memory, self._module)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    env={
                        **os.environ,
                        "PYTHONPATH": os.pathsep.join(one or os.getcwd() for one in sys.path),
                    },
                )
            assert self._process.stdout is not None
            next(_frames(self._process.stdout.fileno(), TO_START, self._process.pid))
        return self._process


def _frames(source: int, limit: float, pid: int | None) -> Iterator[tuple[bytes, bytes]]:
    """
    Yield replies as they arrive, each within `limit` seconds of the one before.

    With the `pid` of the process, the time in which it waited for a core does not count.
    """
    buffer = bytearray()
    poll = select.poll()
    poll.register(source, select.POLLIN)
    until, times = time.monotonic() + limit, core_times(pid)
    while True:
        at = 0
        while len(buffer) - at >= HEAD.size:
            kind, size = HEAD.unpack_from(buffer, at)
            if len(buffer) - at < HEAD.size + size:
                break
            yield kind, bytes(buffer[at + HEAD.size : at + HEAD.size + size])
            at += HEAD.size + size
            until = time.monotonic() + limit
        if at:
            del buffer[:at]
            time.sleep(GATHER)  # more replies follow: reading each separately would cost more than the work
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            before, times = times, core_times(pid)
            until += times.queued - before.queued
            if times.queued - before.queued < LEAST_QUEUED:
                if times.ran - before.ran >= LEAST_QUEUED or not is_runnable(pid):
                    raise TimeoutError
                until = time.monotonic() + LOOK  # how long it has no core is known when it has one again
            continue
        part = os.read(source, 1 << 18)
        if not part:
            raise EOFError
        buffer += part


class CoreTimes(NamedTuple):
    """How many seconds a process had a core, and was ready to run without one, before it had its core the last time."""

    ran: float = 0.0
    queued: float = 0.0


def core_times(pid: int | None) -> CoreTimes:
    """Those of a process; 0 where the system does not say it, or without a process."""
    with suppress(OSError, ValueError, IndexError):
        ran, queued, *_ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return CoreTimes(int(ran) / 1e9, int(queued) / 1e9)
    return CoreTimes()


def is_runnable(pid: int | None) -> bool:
    """Whether a process runs or waits for a core, and the system says how long."""
    with suppress(OSError, IndexError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "R" and Path(f"/proc/{pid}/schedstat").exists()
    return False


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _exit_reason(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _fault(failure: TaskFailure) -> Fault:
    if failure.bug:
        log.error("a task of a worker process failed: a bug in assay: %s", failure.bug)
    for kind in (PathFault, ValueFault, TimeFault):
        if kind.__name__ == failure.kind:
            return kind(failure.message)
    return ForeignFault(failure.message, recoverable=failure.recoverable)
