"""
Columns of Arrow from cells of Python. `pyarrow.array` loads pandas first, if it is installed, to ask whether the cells
are one of its columns. That takes longer than most evaluations; buffers need no pandas.
"""

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any


def column_of(arrow: Any, cells: Sequence[Any], kind: type) -> Any:
    """Cells that are None or of this kind: str, int, float or bool."""
    given = [cell is not None for cell in cells]
    type_, buffers = _TYPES[kind]
    missing = len(cells) - sum(given)
    parts = [_flags(given)[0] if missing else None, *buffers(cells)]
    return arrow.Array.from_buffers(
        getattr(arrow, type_)(),
        len(cells),
        [None if part is None else arrow.py_buffer(part) for part in parts],
        missing,
    )


def _texts(cells: Sequence[str | None]) -> tuple[bytes, bytes]:
    texts = [b"" if cell is None else cell.encode() for cell in cells]
    return array("i", accumulate(map(len, texts), initial=0)).tobytes(), b"".join(texts)


def _numbers(code: str) -> Callable[[Sequence[Any]], tuple[bytes, ...]]:
    def buffer(cells: Sequence[Any]) -> tuple[bytes, ...]:
        return (array(code, [0 if cell is None else cell for cell in cells]).tobytes(),)

    return buffer


def _flags(cells: Sequence[Any]) -> tuple[bytes, ...]:
    """A bit for each, the first is the lowest."""
    text = "".join("1" if flag else "0" for flag in reversed(cells))
    return (int(text or "0", 2).to_bytes((len(cells) + 7) // 8, "little"),)


_TYPES: dict[type, tuple[str, Callable[[Sequence[Any]], tuple[bytes, ...]]]] = {
    str: ("string", _texts),
    int: ("int64", _numbers("q")),
    float: ("float64", _numbers("d")),
    bool: ("bool_", _flags),
}
