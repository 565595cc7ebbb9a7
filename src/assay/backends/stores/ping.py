"""Asks a database for a sign of life, and notices a SQLite file that was removed or replaced."""

import asyncio
import os
import sqlite3
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from assay.errors import EnvironmentFailure
from assay.errors.storage import DatabaseUnavailable
from assay.ports import store_patience

T = TypeVar("T")

SECONDS = 1.5  # that a database may take for an answer
TICK = 0.2  # seconds between two looks at the answers that are waited for
_WRITABLE = text("SELECT NOT pg_is_in_recovery() AND NOT current_setting('transaction_read_only')::bool")


class DatabasePing:
    """
    One question at a time, with a thread of its own: it is answered while all readers wait.

    `pools` are emptied when the SQLite file at their path is another one, so that later connections open that.
    """

    def __init__(self, engine: Engine, *pools: Engine) -> None:
        self._engine, self._pools = engine, (engine, *pools)
        self._path = engine.url.database if engine.dialect.name == "sqlite" else None
        self._file = _identity(self._path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-store-ping")
        self._question: Future[str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Future[Any], float] = {}  # answers of requests, and when to suspect them
        self._timer: asyncio.TimerHandle | None = None

    async def ask(self) -> None:
        """Raise DatabaseUnavailable if there is no answer in time. Callers at the same time share one question."""
        question = self._question
        if question is None or question.done():
            question = self._question = self._thread.submit(self._ask)
        await asyncio.wait({asyncio.wrap_future(question)}, timeout=SECONDS)
        # The thread knows better than the event loop, which may have been late for the answer.
        trouble = question.result() if question.done() else f"no answer within {SECONDS:g} s"
        if trouble:
            raise DatabaseUnavailable(f"the database is unavailable ({trouble})")

    async def wait(self, answer: asyncio.Future[T]) -> T:
        """
        Wait for an answer of the database.

        A request that has waited for a while asks for a sign of life, and gives up without one.

        So a database that hangs is noticed like one that is gone, and a slow one is waited for.
        """
        seconds = store_patience.get()
        if seconds is not None:
            self._waiting[answer] = time.monotonic() + seconds - SECONDS
            if self._timer is None:  # one for all: a timer for each answer would cost more than the wait
                self._timer = answer.get_loop().call_later(TICK, self._look)
        try:
            return await answer
        except EnvironmentFailure:
            self.forget_other_file()
            raise
        finally:
            self._waiting.pop(answer, None)

    def _look(self) -> None:
        """Suspect the answers that have been waited for too long."""
        self._timer, now = None, time.monotonic()
        for answer in [answer for answer, due in self._waiting.items() if due <= now]:
            del self._waiting[answer]
            self._suspect(answer)
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(TICK, self._look)

    def _suspect(self, answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            task = answer.get_loop().create_task(self._give_up(answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _give_up(self, answer: asyncio.Future[Any]) -> None:
        """Fail the answer, unless it comes or the database gives signs of life."""
        while not answer.done():
            try:
                await self.ask()
            except DatabaseUnavailable as unavailable:
                if not answer.done():
                    answer.set_exception(unavailable)
                return
            await asyncio.wait({answer}, timeout=1)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def forget_other_file(self) -> None:
        """Close the idle connections if they belong to a file that is no longer there."""
        if self._path is not None and (there := _identity(self._path)) != self._file:
            self._file = there
            for pool in self._pools:
                pool.dispose()

    def _ask(self) -> str:
        """Why the database cannot be used; an empty text if it can."""
        self.forget_other_file()
        try:
            if self._path is not None:
                return _ask_file(self._path)
            try:
                return self._ask_server()
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                return self._ask_server()  # the connection was older than the server
        except (DBAPIError, sqlite3.Error) as error:
            return type(error).__name__

    def _ask_server(self) -> str:
        with self._engine.connect() as connection:
            return "" if connection.execute(_WRITABLE).scalar() else "it is read-only"


def _ask_file(path: str) -> str:
    """A connection of its own: the cache of an open one would hide what has become of the file."""
    if not Path(path).is_file():
        return "the file is missing"
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return "the file is read-only"
    with closing(
        sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=SECONDS)
    ) as connection:
        connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
    return ""


def _identity(path: str | None) -> tuple[int, int] | None:
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def deliver(future: Future[T], answer: asyncio.Future[T]) -> None:
    """From a thread. The reader may have given up by now."""

    def settle() -> None:
        if answer.done():
            return
        if future.cancelled():
            answer.cancel()
        elif (error := future.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(future.result())

    with suppress(RuntimeError):  # the event loop is closed
        answer.get_loop().call_soon_threadsafe(settle)
