"""The door: who is asking, remembered for a moment, so that not every request reads the store."""

import time
from collections.abc import Callable

from assay.access.keys import Key, admitted, find, presented
from assay.ports import Clock, Principal, Store, SystemClock

SECONDS = 3.0  # so that what another process revokes is refused here within five
SIZE = 4096


class Gate:
    """Knows whom it let in by the hash of their key, never by its text. Expiry holds at once, a revocation within `seconds`."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock | None = None,
        seconds: float = SECONDS,
        size: int = SIZE,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._clock, self._tick = store, clock or SystemClock(), tick
        self._seconds, self._size = seconds, size
        self._known: dict[str, tuple[float, Key]] = {}  # oldest first

    async def authenticate(self, text: str) -> Principal:
        asked = presented(text)
        began = self._tick()  # before the look: what is revoked after it must not be good for longer
        since, key = self._known.get(asked.digest, (began - self._seconds, None))
        if key is None or began - since >= self._seconds:
            self._known.pop(asked.digest, None)
            key = await find(self._store, asked)
            self._remember(asked.digest, began, key)
        return admitted(key, self._clock.now())

    def _remember(self, digest: str, began: float, key: Key) -> None:
        self._known.pop(digest, None)
        self._known[digest] = began, key
        while len(self._known) > self._size:
            del self._known[next(iter(self._known))]
