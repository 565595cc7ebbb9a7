"""The door: who is asking, remembered for a moment, so that not every request reads the store."""

import hashlib
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from assay.auth.keys import Key, admitted, find, presented
from assay.ports import Clock, Principal, Store, SystemClock

SECONDS = 3.0  # so that what another process revokes is refused here within five
SIZE = 4096


class PresentedToken(Protocol):
    """One whose signature was good."""

    def admitted(self, now: datetime) -> Principal: ...


class Authenticator:
    """
    Knows whom it let in by the hash of their key or token, never by its text.

    Expiry holds at once, a revocation within `seconds`. No key has a dot in it and every token has two.
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
        self._known: dict[bytes, tuple[float, Key | PresentedToken]] = {}  # oldest first

    async def authenticate(self, text: str) -> Principal:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        began = self._tick()  # before the look: what is revoked after it must not be good for longer
        held = self._known.get(digest)
        if held is None or began - held[0] >= self._seconds:
            self._known.pop(digest, None)
            held = began, await self._look(text)
            self._remember(digest, held)
        known, now = held[1], self._clock.now()
        return admitted(known, now) if isinstance(known, Key) else known.admitted(now)

    async def _look(self, text: str) -> Key | PresentedToken:
        if self._tokens is not None and "." in text and text.isascii():
            return await self._tokens(text)
        return await find(self._store, presented(text))

    def _remember(self, digest: bytes, held: tuple[float, Key | PresentedToken]) -> None:
        self._known.pop(digest, None)
        self._known[digest] = held
        while len(self._known) > self._size:
            del self._known[next(iter(self._known))]
