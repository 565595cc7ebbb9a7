"""What stands before texts and messages of any length on the wire: tags, and lengths that must agree with one another."""

import re
from collections.abc import Sequence

from assay.serve.grpc.codec.encode import varint

Step = tuple[bytes, bytes]  # of a head: the tag of a message, and what stands in it before the next
Steps = tuple[Step, ...]
Found = tuple[
    int, ...
]  # how long heads are, and for each how far it is from where they begin to the end of what it stands before
_SIZE = rb"[\x80-\xff]{0,2}[\x00-\x7f]"
_KEPT = 512  # are remembered


def head_of(steps: Steps, long: int) -> bytes:
    """What stands before so many bytes."""
    head = b""
    for tag, more in reversed(steps):
        head = more + head
        head = b"".join((tag, varint(len(head) + long), head))
    return head


class Heads:
    """Some that follow one another, in messages that are alike."""

    def __init__(self, all: Sequence[Steps]) -> None:
        self._all = all
        form = b"".join(
            b"("
            + b"".join(re.escape(tag) + b"(" + _SIZE + b")" + re.escape(more) for tag, more in steps)
            + b")"
            for steps in all
        )
        self._find = re.compile(form, re.DOTALL).match
        self.known: dict[bytes, Found] = {}

    def read(self, data: bytes, at: int) -> Found | None:
        """What is found at a place; nothing, if it is something else, or if lengths do not agree."""
        found = self._find(data, at)
        if found is None:
            return None
        if (told := self.known.get(found[0])) is not None:  # whoever has asked for it asked for more or less
            return told
        ends: list[int] = []
        group = 1
        for steps in self._all:
            long = _number(found[group + len(steps)])
            if found[group] != head_of(steps, long):
                return None
            ends.append(found.end(group) - at + long)
            group += 1 + len(steps)
        if len(self.known) >= _KEPT:
            self.known.clear()
        told = self.known[found[0]] = (len(found[0]), *ends)
        return told


def _number(said: bytes) -> int:
    return sum((one & 127) << 7 * at for at, one in enumerate(said))
