"""Whether the store of a server answers. Probes need no key, so the answer is shared for a second."""

import time

from assay.errors import EnvironmentFailure, Unavailable
from assay.ports import Store

SECONDS = 1.0  # that an answer is valid


class StoreProbe:
    """Asks the store at most once a second, however many probes come."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._until = 0.0
        self._unavailable: str | None = None

    async def check(self) -> None:
        """Raise Unavailable if the store does not answer."""
        if time.monotonic() >= self._until:  # callers at the same time share one question to the store
            try:
                await self._store.ping()
                self._unavailable = None
            except EnvironmentFailure as failure:
                self._unavailable = str(failure)
            self._until = time.monotonic() + SECONDS
        if self._unavailable is not None:
            raise Unavailable(self._unavailable, retry_after=2, reason="database")
