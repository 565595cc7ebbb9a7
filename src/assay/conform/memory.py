"""What checks learn about a host once, and use again."""

from collections import defaultdict
from collections.abc import Callable
from threading import Lock, RLock
from typing import Any


class Memory:
    """Values by names, for several threads: a value that one makes is waited for by the others."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Any, Exception | None]] = {}
        self._lock, self._making = Lock(), defaultdict[str, RLock](RLock)

    def once(self, name: str, make: Callable[[], Any], kept: tuple[type[Exception], ...]) -> Any:
        """What `make` returned, or raised of the types in `kept`, when it was first called under this name."""
        with self._lock:
            making = self._making[name]
        with making:
            if name not in self._made:
                try:
                    self._made[name] = (make(), None)
                except kept as reason:
                    self._made[name] = (None, reason)
            value, reason = self._made[name]
        if reason is not None:
            raise reason
        return value
