"""A server gives back memory that it no longer needs."""

import asyncio
import gc
import weakref

import pytest

from assay.concurrency.memory import GROWTH, resident_bytes
from assay.serve.web.memory import HELD, POSTPONED, MemoryKeeper


class Node:
    def __init__(self):
        self.itself = self


@pytest.mark.parametrize(
    ("levels", "given_back"),
    [
        ([0, GROWTH + 1], [True]),
        ([0, GROWTH], [False]),
        ([0, GROWTH + 1, GROWTH + 1, 2 * GROWTH + 1, 2 * GROWTH + 2], [True, False, True]),
        ([9 * GROWTH, GROWTH, 2 * GROWTH + 1], [False, True]),  # it had become smaller in between
    ],
)
def test_old_garbage_is_collected_when_memory_has_grown(levels, given_back):
    following = iter([*levels, 9 * GROWTH])
    keeper = MemoryKeeper(lambda: next(following))

    async def look():
        return [await keeper.look() for _ in given_back]

    node = Node()
    there = weakref.ref(node)
    gc.disable()
    try:
        del node
        assert asyncio.run(look()) == given_back
        assert (there() is None) == any(given_back)
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("held", "looks"),
    [([HELD], 1), ([HELD + 1, HELD + 1, 0], 3), ([HELD + 1] * (POSTPONED + 5), POSTPONED + 1)],
)
def test_a_collection_waits_for_large_bodies_but_not_for_ever(held, looks):
    """It would look at all that they have become, and nothing else runs meanwhile."""
    levels, following = iter([0]), iter(held)
    keeper = MemoryKeeper(lambda: next(levels, GROWTH + 1), lambda: next(following))

    async def look():
        return [await keeper.look() for _ in range(looks)]

    assert asyncio.run(look()) == [False] * (looks - 1) + [True]


def test_the_memory_of_the_process_is_measured():
    assert resident_bytes() > 1 << 20
