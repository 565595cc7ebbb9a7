"""One feed per run: the first follower opens it, later followers share it, and the last one closes it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class SharedFeed(Protocol):
    followers: int

    def close(self) -> None: ...


F = TypeVar("F", bound=SharedFeed)


@contextmanager
def shared_feed(feeds: dict[str, F], run: str, make: Callable[[], F]) -> Generator[F]:
    feed = feeds.get(run)
    if feed is None:
        feed = feeds[run] = make()
    feed.followers += 1
    try:
        yield feed
    finally:
        feed.followers -= 1
        if not feed.followers:
            feed.close()
            feeds.pop(run, None)
