"""
Caches of what requests bring: bounded in bytes, with a share for every owner.

A cache that counts entries holds as many gigabytes as the requests are large. This one adds up how much its entries hold,
by an estimate, and lets the oldest go: first those of the owner that holds the most, so that one tenant's entries do not
drive out another's.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")
LARGEST = 8  # an entry has at most one of so many parts of a cache
ENTRY = 500  # bytes that an entry takes beside what it is about


class ByteCache(Generic[V]):
    """
    At most so many bytes. Safe for threads.

        plans = ByteCache[Plan](32 << 20)
        plans.put(text, plan, size=len(text) * 20, owner=tenant)
        plans.get(text, owner=tenant)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._owners: dict[str, OrderedDict[Hashable, tuple[V, int]]] = {}
        self._held: dict[str, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._owners.values()))

    def get(self, key: Hashable, owner: str = "") -> V | None:
        entries = self._owners.get(owner)
        if entries is None:
            return None
        with self._lock:
            found = entries.get(key)
            if found is None:
                return None
            entries.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: V, size: int, owner: str = "") -> None:
        """An entry that is large for this cache is not held."""
        size += ENTRY
        if size > self._most // LARGEST:
            return
        with self._lock:
            self._drop(owner, key)
            self._owners.setdefault(owner, OrderedDict())[key] = value, size
            self._held[owner] = self._held.get(owner, 0) + size
            self.bytes += size
            while self.bytes > self._most:
                largest = max(self._held, key=self._held.__getitem__)
                self._drop(largest, next(iter(self._owners[largest])))

    def clear(self) -> None:
        with self._lock:
            self._owners.clear()
            self._held.clear()
            self.bytes = 0

    def _drop(self, owner: str, key: Hashable) -> None:
        entries = self._owners.get(owner)
        found = None if entries is None else entries.pop(key, None)
        if found is None:
            return
        self.bytes -= found[1]
        self._held[owner] -= found[1]
        if not entries:
            del self._owners[owner], self._held[owner]


def remembered(
    most: int, size: Callable[P, int], owner: Callable[[], str] = str
) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """
    A function whose results are held by their arguments, in `most` bytes; `size` estimates one from the arguments.

    What it raises is not held.
    """

    def decorate(make: Callable[P, V]) -> Callable[P, V]:
        cache = ByteCache[V](most)

        @wraps(make)
        def find(*args: P.args, **kwargs: P.kwargs) -> V:
            whose = owner()
            found = cache.get(args, whose)
            if found is None:
                found = make(*args, **kwargs)
                cache.put(args, found, size(*args, **kwargs), whose)
            return found

        find.cache = cache  # pyright: ignore[reportAttributeAccessIssue]  # for those who measure
        return find

    return decorate


def beside(make: Callable[Concatenate[K, P], V]) -> Callable[Concatenate[K, P], V]:
    """A function whose results are held as long as its first argument, and no longer; they may not hold it themselves."""
    known: WeakKeyDictionary[Any, dict[Hashable, V]] = WeakKeyDictionary()

    @wraps(make)
    def find(first: K, *args: P.args, **kwargs: P.kwargs) -> V:
        some = known.get(first)
        if some is None:
            some = known[first] = {}
        key = args, tuple(kwargs.items())
        if key not in some:
            some[key] = make(first, *args, **kwargs)
        return some[key]

    return find
