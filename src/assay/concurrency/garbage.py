"""How often Python looks for reference cycles while assay works."""

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

# A call of an agent or of a judge allocates thousands of objects. By default every 700 new objects are searched, and a
# framework keeps so many that all of them are searched again and again. A command searches more rarely still, and the
# cycles of calls would keep their contents until then.
THRESHOLDS = 20_000, 10, 10


class _FrozenObjects:
    """
    Whether the program has called `gc.freeze`. Counting frozen objects takes milliseconds, so a positive answer is
    cached.
    """

    def __init__(self) -> None:
        self._seen = False

    def __bool__(self) -> bool:
        self._seen = self._seen or gc.get_freeze_count() > 0
        return self._seen


_frozen_objects = _FrozenObjects()


@contextmanager
def gc_paused() -> Generator[None]:
    """
    Pause the garbage collector: this code makes many objects and no cycles, and collecting would take half of the time.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on and not _frozen_objects:
            gc.freeze()  # and back: this moves the new objects to the oldest generation without a scan
            gc.unfreeze()
        if on:
            gc.enable()


class _RareCollection:
    """Thresholds while at least one run needs them, in any thread. Those of the program come back after the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = THRESHOLDS

    def begin(self) -> None:
        with self._lock:
            self._users += 1
            now = gc.get_threshold()
            if self._users == 1:
                self._before = now
                if now[0]:  # 0 is off
                    gc.set_threshold(*THRESHOLDS)

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and gc.get_threshold() == THRESHOLDS:
                gc.set_threshold(*self._before)


_rare_collection = _RareCollection()


@contextmanager
def gc_rare() -> Generator[None]:
    """
    Collect garbage rarely while agents and judges are asked. Calls make cycles, so it is not paused.
    """
    _rare_collection.begin()
    try:
        yield
    finally:
        _rare_collection.end()
