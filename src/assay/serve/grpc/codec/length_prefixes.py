"""Length prefixes before texts and messages of variable length: tags, and lengths that must agree with each other."""

import re
from collections.abc import Sequence

from assay.serve.grpc.codec.encode import varint

Step = tuple[bytes, bytes]  # the tag of a message, and its bytes before the next message
Steps = tuple[Step, ...]
Found = tuple[int, ...]  # the length of all prefixes, and for each the offset of the end of its message
_SIZE = rb"[\x80-\xff]{0,2}[\x00-\x7f]"
_CACHED = 512  # prefixes


def prefix_of(steps: Steps, length: int) -> bytes:
    """The prefix of a message of `long` bytes."""
    head = b""
    for tag, more in reversed(steps):
        head = more + head
        head = b"".join((tag, varint(len(head) + length), head))
    return head


class LengthPrefixes:
    """Consecutive prefixes, in messages of one shape."""

    def __init__(self, all: Sequence[Steps]) -> None:
        self._all = all
        form = b"".join(
            b"("
            + b"".join(re.escape(tag) + b"(" + _SIZE + b")" + re.escape(more) for tag, more in steps)
            + b")"
            for steps in all
        )
        self._find = re.compile(form, re.DOTALL).match
        self.cache: dict[bytes, Found] = {}

    def read(self, data: bytes, start: int) -> Found | None:
        """The prefixes at a position; None if there is something else, or if lengths do not agree."""
        match = self._find(data, start)
        if match is None:
            return None
        if (cached := self.cache.get(match[0])) is not None:  # the caller's lookup had more or fewer bytes
            return cached
        ends: list[int] = []
        group = 1
        for steps in self._all:
            long = _number(match[group + len(steps)])
            if match[group] != prefix_of(steps, long):
                return None
            ends.append(match.end(group) - start + long)
            group += 1 + len(steps)
        if len(self.cache) >= _CACHED:
            self.cache.clear()
        result = self.cache[match[0]] = (len(match[0]), *ends)
        return result


def _number(varint: bytes) -> int:
    return sum((byte & 127) << 7 * at for at, byte in enumerate(varint))
