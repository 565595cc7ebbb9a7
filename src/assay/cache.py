"""
Caches for values from requests: bounded in bytes, with a fair share for every owner.

A cache that counts entries grows with the size of the requests. This one adds up an estimate of the bytes of its
entries. It evicts the oldest entries of the owner that holds the most bytes, so that one tenant does not evict
another's entries.
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
LARGEST = 8  # an entry takes at most one eighth of the cache, unless the cache says otherwise
ENTRY = 500  # bytes of overhead of an entry


class ByteCache(Generic[V]):
    """
    A thread-safe LRU cache of at most `limit` bytes.

        plans = ByteCache[Plan](32 << 20)
        plans.put(text, plan, size=len(text) * 20, owner=tenant)
        plans.get(text, owner=tenant)
    """

    def __init__(self, limit: int, largest: int | None = None) -> None:
        """`largest`: the bytes of the largest entry that is stored."""
        self._limit, self._largest = limit, limit // LARGEST if largest is None else largest
        self._lock = threading.Lock()
        self._owners: dict[str, OrderedDict[Hashable, tuple[V, int]]] = {}
        self._sizes: dict[str, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._owners.values()))

    def get(self, key: Hashable, owner: str = "") -> V | None:
        entries = self._owners.get(owner)
        if entries is None:
            return None
        with self._lock:
            entry = entries.get(key)
            if entry is None:
                return None
            entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: V, size: int, owner: str = "") -> None:
        """Add an entry, unless it is too large for this cache."""
        size += ENTRY
        if size > self._largest:
            return
        with self._lock:
            self._drop(owner, key)
            self._owners.setdefault(owner, OrderedDict())[key] = value, size
            self._sizes[owner] = self._sizes.get(owner, 0) + size
            self.bytes += size
            while self.bytes > self._limit:
                largest = max(self._sizes, key=self._sizes.__getitem__)
                self._drop(largest, next(iter(self._owners[largest])))

    def drop(self, key: Hashable, owner: str = "") -> None:
        """Remove an entry, if it is there."""
        with self._lock:
            self._drop(owner, key)

    def clear(self) -> None:
        with self._lock:
            self._owners.clear()
            self._sizes.clear()
            self.bytes = 0

    def _drop(self, owner: str, key: Hashable) -> None:
        entries = self._owners.get(owner)
        entry = None if entries is None else entries.pop(key, None)
        if entry is None:
            return
        self.bytes -= entry[1]
        self._sizes[owner] -= entry[1]
        if not entries:
            del self._owners[owner], self._sizes[owner]


def memoize(
    limit: int, size: Callable[P, int], owner: Callable[[], str] = str
) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """
    Cache a function's results by its arguments, in `limit` bytes. `size` estimates a result's bytes from the arguments.

    Exceptions are not cached.
    """

    def decorate(make: Callable[P, V]) -> Callable[P, V]:
        cache = ByteCache[V](limit)

        @wraps(make)
        def find(*args: P.args, **kwargs: P.kwargs) -> V:
            whose = owner()
            value = cache.get(args, whose)
            if value is None:
                value = make(*args, **kwargs)
                cache.put(args, value, size(*args, **kwargs), whose)
            return value

        find.cache = cache  # pyright: ignore[reportAttributeAccessIssue]  # for measurements
        return find

    return decorate


def memoize_on(make: Callable[Concatenate[K, P], V]) -> Callable[Concatenate[K, P], V]:
    """Cache a function's results for the lifetime of its first argument. The results must not refer to it."""
    caches: WeakKeyDictionary[Any, dict[Hashable, V]] = WeakKeyDictionary()

    @wraps(make)
    def find(first: K, *args: P.args, **kwargs: P.kwargs) -> V:
        cache = caches.get(first)
        if cache is None:
            cache = caches[first] = {}
        key = args, tuple(kwargs.items())
        if key not in cache:
            cache[key] = make(first, *args, **kwargs)
        return cache[key]

    return find
