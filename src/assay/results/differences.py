"""The difference between what was expected and what came: lines of two texts, or paths of two JSON values."""

from itertools import islice
from typing import Any

import msgspec

from assay.checks.standard.json_rules import Rules
from assay.checks.standard.json_rules import differences as rule_differences

MAX_DIFFERENCES = 20
MAX_LINES = 400  # lines of each text that are compared
MAX_LINE = 2_000  # characters of a line that are shown
CONTEXT = 2  # equal lines around a difference


def differences(expected: Any, actual: Any) -> list[str]:
    """
    The difference, for a person: `- ` is expected, `+ ` is actual. Empty if the two are equal.

    Two texts are compared line by line; two texts that hold JSON objects or lists, and all other values, path by path.
    """
    if isinstance(expected, str) and isinstance(actual, str):
        left, right = _parse(expected), _parse(actual)
        if left is None or right is None:
            return text_differences(expected, actual)
        expected, actual = left, right
    return json_differences(expected, actual)


def text_differences(expected: str, actual: str) -> list[str]:
    """Two texts as a difference of lines, with the equal lines next to each change."""
    if expected == actual:
        return []
    left, right = expected.splitlines()[:MAX_LINES], actual.splitlines()[:MAX_LINES]
    if left == right:
        same = "line ends or " if max(len(left), len(right)) < MAX_LINES else ""
        return [f"they differ only in {same}lines after {MAX_LINES}"]
    import difflib  # deferred import: most results need no difference

    lines = list(difflib.unified_diff(left, right, n=CONTEXT, lineterm=""))[3:]
    marked = [line if line.startswith("@@") else f"{line[0]} {line[1:]}" for line in lines]
    return [_cut("…" if line.startswith("@@") else line) for line in marked]


def json_differences(
    expected: Any, actual: Any, *, subset: bool = False, limit: int = MAX_DIFFERENCES
) -> list[str]:
    """`$.total: expected 12, got 13`, one line a path. With `subset`, `actual` may have additional members."""
    lines = list(islice(rule_differences(expected, actual, Rules(subset=subset)), limit + 1))
    return lines if len(lines) <= limit else [*lines[:limit], "…"]


def _parse(text: str) -> Any:
    """The object or list that a text holds; None for every other text."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"
