"""How often a host is asked."""

import threading
import time


class Pace:
    """At most `rate` turns a second, for all threads together."""

    def __init__(self, rate: float) -> None:
        self._pause, self._next, self._lock = 1 / rate, 0.0, threading.Lock()

    def wait(self) -> None:
        """Wait for the next turn."""
        with self._lock:
            now = time.monotonic()
            mine = max(now, self._next)
            self._next = mine + self._pause
        if mine > now:
            time.sleep(mine - now)
