"""Who used how much of a request that several shared: by the length of their texts, so that the parts make the whole."""

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


def added(parts: Sequence[float | None]) -> float | None:
    """Their sum; unknown if one of them is."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
