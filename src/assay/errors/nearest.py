"""A name that is close to one that does not exist."""

from collections.abc import Iterable

CLOSE = 3  # names that are offered


def did_you_mean(name: str, names: Iterable[str], before: str = "", after: str = "") -> str:
    """`did you mean contains?` between two texts, or an empty text if no name is close."""
    import difflib  # deferred import: most commands are typed correctly

    by_case = {one.casefold(): one for one in names}
    close = difflib.get_close_matches(name.casefold(), list(by_case), CLOSE)
    return f"{before}did you mean {' or '.join(by_case[one] for one in close)}?{after}" if close else ""
