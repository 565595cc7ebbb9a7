"""Event loops: a coroutine for synchronous code, the loop of a server, locks by key, background tasks."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Generic, TypeVar

from assay.concurrency.threads import source
from assay.ports.bugs import log_bug
from assay.ports.telemetry import telemetry

T = TypeVar("T")


def run_to_end(make: Callable[[], Awaitable[T]]) -> T:
    """Run the coroutine that `make` returns, in a new thread if this thread already runs an event loop."""
    outcome: list[T] = []
    errors: list[BaseException] = []

    async def main() -> None:
        # not returned: asyncio.run would make the repr of the whole result when the task ends
        outcome.append(await make())
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError  # Ctrl-C: asyncio turns it into KeyboardInterrupt

    if not _runs_loop():
        try:
            asyncio.run(main())
        finally:
            source(os.getpid()).end_idle()
        return outcome[0]

    def in_thread() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=in_thread, name="assay-evaluate")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]


def _runs_loop() -> bool:
    """Asked apart, so that an error of the coroutine has no error of this question as its context."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# The event loop of a server: uvloop if it is installed, which is a little faster per request; otherwise asyncio's
# own.


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(main)


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Makes the event loop; None: asyncio's default."""
    try:
        return import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None


# A lock per key.


class KeyedLock:
    """Holders of the same key wait for each other. A lock exists only while it is held or waited for."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncGenerator[None]:
        lock, count = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, count + 1
        try:
            async with lock:
                yield
        finally:
            lock, count = self._locks.pop(key)
            if count > 1:
                self._locks[key] = lock, count - 1


# Background tasks: a crash is logged and counted, and the task restarts.

log = logging.getLogger("assay.tasks")
log.addHandler(logging.NullHandler())  # commands report errors themselves
# for open responses (15), units in flight (10) and the database to end, once a process is asked to stop
STOP_SECONDS = 28.0
END_SECONDS = 2.0  # for threads to end, once all is closed
FORCED = 1  # the exit code of a process that did not end by itself
SOON, LATE = 0.5, 30.0  # seconds until a task restarts: at first, and at most


def supervise(
    name: str, task: Callable[[], Awaitable[None]], *, restart_seconds: float = SOON
) -> asyncio.Task[None]:
    """Start a task that repeats `task` until it returns or is cancelled. The pause after each crash grows."""
    return asyncio.create_task(_supervise(name, task, restart_seconds), name=name)


async def _supervise(name: str, task: Callable[[], Awaitable[None]], restart_seconds: float) -> None:
    loop, pause = asyncio.get_running_loop(), restart_seconds
    while True:
        began = loop.time()
        if await run_guarded(name, task()) is None:
            return
        pause = restart_seconds if loop.time() - began > LATE else pause  # it ran for a while
        await asyncio.sleep(pause)
        pause = min(LATE, pause * 2)


async def run_guarded(name: str, awaitable: Awaitable[Any], *passing: type[Exception]) -> Exception | None:
    """Await the work and return its exception, if any. Exceptions in `passing` are neither logged nor counted."""
    try:
        await awaitable
    except passing as usual:
        return usual
    except Exception as trouble:  # noqa: BLE001  # a crash must not stop the other tasks
        log_crash(name, trouble)
        return trouble
    return None


def end_process_after(seconds: float, left: Callable[[], str]) -> None:
    """
    End this process by force after these seconds, if it still runs.

    Its exit code is then 1, and one line says what was left.

    A thread that waits for a database cannot be stopped, and Python waits for its threads before it ends.
    """

    def end() -> None:
        log.error(
            "the process did not end within %g s, because something waits, such as for a database; it ends "
            "by force: %s",
            seconds,
            left(),
        )
        logging.shutdown()
        os._exit(FORCED)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def nothing_left() -> str:
    """What a process leaves that has closed everything and still has threads."""
    return "all was closed before, and nothing is lost"


def log_crash(name: str, error: BaseException) -> None:
    """Log and count a crash."""
    telemetry.add("assay_task_deaths", 1, name)
    log_bug(log.name, f"the background task {name!r}", error)


K = TypeVar("K", bound=Hashable)


class IdleKeys(Generic[K]):
    """Calls `forget` with each key that was not used for `seconds`. One timer on the event loop serves all keys."""

    def __init__(self, seconds: float, forget: Callable[[K], None]) -> None:
        self._seconds, self._forget = seconds, forget
        self._used: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def use(self, key: K) -> None:
        loop = asyncio.get_running_loop()
        self._used[key] = loop.time()
        if self._timer is None or self._loop is not loop:  # the loop of the timer may have ended
            self._loop, self._timer = loop, loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        idle = [key for key, at in self._used.items() if at + self._seconds <= loop.time()]
        for key in idle:
            del self._used[key]
            self._forget(key)
        self._timer = loop.call_later(self._seconds, self._look) if self._used else None
