"""The door: who is asking, remembered for a moment, so that not every request reads the store."""

import hashlib
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Protocol

from assay.access.keys import Key, admitted, find, presented
from assay.ports import Clock, Principal, Store, SystemClock

SECONDS = 3.0  # so that what another process revokes is refused here within five
SIZE = 4096


class Token(Protocol):
    """One whose signature was good."""

    def admitted(self, now: datetime) -> Principal: ...


class Gate:
    """
    Knows whom it let in by the hash of their key or token, never by its text.

    Expiry holds at once, a revocation within `seconds`. No key has a dot in it and every token has two.
    """

    def __init__(
        self,
        store: Store,
        *,
        tokens: Callable[[str], Awaitable[Token]] | None = None,
        clock: Clock | None = None,
        seconds: float = SECONDS,
        size: int = SIZE,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._tokens, self._clock, self._tick = store, tokens, clock or SystemClock(), tick
        self._seconds, self._size = seconds, size
        self._known: dict[str, tuple[float, Key | Token]] = {}  # oldest first

    async def authenticate(self, text: str) -> Principal:
        look: Callable[[], Awaitable[Key | Token]]
        if self._tokens is not None and "." in text and text.isascii():
            digest, look = hashlib.sha256(text.encode()).hexdigest(), partial(self._tokens, text)
        else:
            asked = presented(text)
            digest, look = asked.digest, partial(find, self._store, asked)
        began = self._tick()  # before the look: what is revoked after it must not be good for longer
        since, known = self._known.get(digest, (began - self._seconds, None))
        if known is None or began - since >= self._seconds:
            self._known.pop(digest, None)
            known = await look()
            self._remember(digest, began, known)
        now = self._clock.now()
        return admitted(known, now) if isinstance(known, Key) else known.admitted(now)

    def _remember(self, digest: str, began: float, key: Key | Token) -> None:
        self._known.pop(digest, None)
        self._known[digest] = began, key
        while len(self._known) > self._size:
            del self._known[next(iter(self._known))]
