"""Authenticates callers. Results are cached for seconds, so that not every request reads the store."""

import hashlib
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from assay.auth import page_sessions
from assay.auth.keys import Key, admit, find, parse
from assay.ports import Clock, Principal, Store, SystemClock

SECONDS = 3.0  # a key that another process revokes is refused here within five
SIZE = 4096


class PresentedToken(Protocol):
    """A token with a valid signature, or a session of the page."""

    def admit(self, now: datetime) -> Principal: ...


class Authenticator:
    """
    Authenticates API keys, tokens and sessions of the page. Its cache is keyed by their hashes, never by their text.

    Expiry takes effect at once, a revocation within `seconds`. A key contains no dot; a token contains two.
    """

    def __init__(
        self,
        store: Store,
        *,
        tokens: Callable[[str], Awaitable[PresentedToken]] | None = None,
        clock: Clock | None = None,
        seconds: float = SECONDS,
        size: int = SIZE,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._tokens, self._clock, self._tick = store, tokens, clock or SystemClock(), tick
        self._seconds, self._size = seconds, size
        self._cache: dict[bytes, tuple[float, Key | PresentedToken]] = {}  # oldest first

    async def authenticate(self, text: str) -> Principal:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        began = self._tick()  # before the lookup: a revocation during it must not extend the cache time
        entry = self._cache.get(digest)
        if entry is None or began - entry[0] >= self._seconds:
            self._cache.pop(digest, None)
            entry = began, await self._look_up(text)
            self._remember(digest, entry)
        credential, now = entry[1], self._clock.now()
        return admit(credential, now) if isinstance(credential, Key) else credential.admit(now)

    async def _look_up(self, text: str) -> Key | PresentedToken:
        if self._tokens is not None and "." in text and text.isascii():
            return await self._tokens(text)
        if text.startswith(page_sessions.PREFIX):
            return await page_sessions.find(self._store, text)
        return await find(self._store, parse(text))

    def _remember(self, digest: bytes, entry: tuple[float, Key | PresentedToken]) -> None:
        self._cache.pop(digest, None)
        self._cache[digest] = entry
        while len(self._cache) > self._size:
            del self._cache[next(iter(self._cache))]
