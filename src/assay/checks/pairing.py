"""Pairs of two lists: each item of the first with one of the second that it fits, as many as possible."""

from collections.abc import Sequence


def pair(fitting: Sequence[Sequence[int]]) -> dict[int, int]:
    """
    The index of the second list for each index of the first that gets one. `fitting` has the indexes that each fits.

    An item that fits many does not take the only one of another item.
    """
    found: dict[int, int] = {}
    taken: dict[int, int] = {}  # the first index of each second one
    for first in range(len(fitting)):
        _augment(first, fitting, found, taken)
    return found


def _augment(
    first: int, fitting: Sequence[Sequence[int]], found: dict[int, int], taken: dict[int, int]
) -> None:
    """Give an item its partner; items that have one may change theirs. A walk in breadth: lists may be long."""
    reached: dict[int, int] = {}  # for each partner, the item that reached it
    queue = [first]
    for item in queue:
        for partner in fitting[item]:
            if partner in reached:
                continue
            reached[partner] = item
            if partner in taken:
                queue.append(taken[partner])
                continue
            free = partner
            while True:
                owner = reached[free]
                previous = found.get(owner)
                found[owner], taken[free] = free, owner
                if previous is None:
                    return
                free = previous
