"""Runs a coroutine for synchronous code."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

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

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(main())
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
