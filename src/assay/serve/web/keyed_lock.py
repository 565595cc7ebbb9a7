"""One after the other: those who come with the same key wait for each other, those with another do not."""

import asyncio
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager


class KeyedLock:
    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def of(self, key: Hashable) -> AsyncGenerator[None]:
        lock, many = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, many + 1
        try:
            async with lock:
                yield
        finally:
            lock, many = self._locks.pop(key)
            if many > 1:
                self._locks[key] = lock, many - 1
