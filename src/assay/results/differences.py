"""The difference between what was expected and what came: lines of two texts, or paths of two JSON values."""

from collections.abc import Iterator
from typing import Any

import msgspec

from assay.protocol.json_types import is_list, is_object

MAX_DIFFERENCES = 20
MAX_LINES = 400  # lines of each text that are compared
MAX_LINE = 2_000  # characters of a line that are shown
CONTEXT = 2  # equal lines around a difference
DEPTH = 50


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
    lines: list[str] = []
    for line in _walk(expected, actual, "$", subset, 0):
        if len(lines) == limit:
            lines.append("…")
            break
        lines.append(line)
    return lines


def _walk(expected: Any, actual: Any, path: str, subset: bool, depth: int) -> Iterator[str]:
    if depth < DEPTH and is_object(expected) and is_object(actual):
        for name, value in expected.items():
            at = f"{path}.{name}" if name.isidentifier() else f"{path}[{name!r}]"
            if name not in actual:
                yield f"{at}: expected {_short(value)}, got nothing"
            else:
                yield from _walk(value, actual[name], at, subset, depth + 1)
        for name in () if subset else actual.keys() - expected.keys():
            yield f"{path}.{name}: expected nothing, got {_short(actual[name])}"
    elif depth < DEPTH and is_list(expected) and is_list(actual) and len(expected) == len(actual):
        for at, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from _walk(left, right, f"{path}[{at}]", subset, depth + 1)
    elif is_list(expected) and is_list(actual):
        yield f"{path}: expected a list of {len(expected)}, got a list of {len(actual)}"
        for at, (left, right) in enumerate(zip(expected, actual, strict=False)):
            yield from _walk(left, right, f"{path}[{at}]", subset, depth + 1) if depth < DEPTH else ()
    elif not _equal(expected, actual):
        yield f"{path}: expected {_short(expected)}, got {_short(actual)}"


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _parse(text: str) -> Any:
    """The object or list that a text holds; None for every other text."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:119]}…"


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"
