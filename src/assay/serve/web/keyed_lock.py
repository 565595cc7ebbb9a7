"""A lock per key."""

import asyncio
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager


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
