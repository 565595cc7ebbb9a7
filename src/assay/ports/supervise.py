"""Background tasks: a crash is logged and counted, and the task restarts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from assay.ports.telemetry import telemetry

log = logging.getLogger("assay.tasks")
log.addHandler(logging.NullHandler())  # commands report errors themselves
SOON, LATE = 0.5, 30.0  # seconds until a task restarts: at first, and at most


def supervise(name: str, work: Callable[[], Awaitable[None]], *, soon: float = SOON) -> asyncio.Task[None]:
    """Start a task that repeats `work` until it returns or is cancelled. The pause after each crash grows."""
    return asyncio.create_task(_supervise(name, work, soon), name=name)


async def _supervise(name: str, work: Callable[[], Awaitable[None]], soon: float) -> None:
    loop, pause = asyncio.get_running_loop(), soon
    while True:
        began = loop.time()
        if await run_guarded(name, work()) is None:
            return
        pause = soon if loop.time() - began > LATE else pause  # it ran for a while
        await asyncio.sleep(pause)
        pause = min(LATE, pause * 2)


async def run_guarded(name: str, work: Awaitable[Any], *passing: type[Exception]) -> Exception | None:
    """Await the work and return its exception, if any. Exceptions in `passing` are neither logged nor counted."""
    try:
        await work
    except passing as usual:
        return usual
    except Exception as trouble:  # noqa: BLE001  # a crash must not stop the other tasks
        log_crash(name, trouble)
        return trouble
    return None


def log_crash(name: str, trouble: BaseException) -> None:
    """Log and count a crash. The exception's message may hold content, so only its type and source line are logged."""
    telemetry.add("assay_task_deaths", 1, name)
    log.error("the background task %r failed with %s at %s", name, type(trouble).__name__, _place(trouble))


def _place(trouble: BaseException) -> str:
    at = trouble.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "nowhere" if at is None else f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"
