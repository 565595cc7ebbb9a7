"""Divides the tokens of a shared request among its texts, by their lengths. The parts add up to the total."""

from collections.abc import Sequence


def shares(total: int | None, texts: Sequence[str]) -> list[int | None]:
    """
    Each text's part of the tokens; unknown if the total is.

        shares(10, ["abc", "a"]) == [6, 4]
    """
    if total is None:
        return [None] * len(texts)
    whole = sum(len(text) + 1 for text in texts)
    parts: list[int | None] = []
    length = given = 0
    for text in texts:
        length += len(text) + 1
        parts.append(total * length // whole - given)
        given = total * length // whole
    return parts


def sum_known(parts: Sequence[float | None]) -> float | None:
    """The sum; None if any part is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
