"""Background tasks: a crash is logged and counted, and the task restarts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from assay.ports.bugs import log_bug
from assay.ports.telemetry import telemetry

log = logging.getLogger("assay.tasks")
log.addHandler(logging.NullHandler())  # commands report errors themselves
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


def log_crash(name: str, error: BaseException) -> None:
    """Log and count a crash."""
    telemetry.add("assay_task_deaths", 1, name)
    log_bug(log.name, f"the background task {name!r}", error)
