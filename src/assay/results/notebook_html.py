"""HTML of bounded size for a notebook. Every text of a result stays text."""

from collections.abc import Iterable, Sequence
from itertools import islice

from assay.terminal import escape_characters

MAX_TEXT = 300  # characters of a cell
MAX_ROWS = 20  # of a table
LEFT = 'style="text-align: left"'
_ACTIVE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def text(value: object, limit: int = MAX_TEXT) -> str:
    """A value as text that a browser shows as it is. A long one is cut."""
    line = " ".join(str(value).split())
    return escape_characters(line if len(line) <= limit else f"{line[: limit - 1]}…").translate(_ACTIVE)


def paragraph(value: object, *, strong: bool = False) -> str:
    inner = text(value, 1_000)
    return f"<p><strong>{inner}</strong></p>" if strong else f"<p>{inner}</p>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], total: int) -> str:
    """A table of the first rows of `total`; nothing without rows."""
    shown = [f"<tr>{_cells('td', row)}</tr>" for row in islice(rows, MAX_ROWS)]
    if not shown:
        return ""
    more = paragraph(f"… and {total - len(shown):,} more") if total > len(shown) else ""
    head = _cells("th", columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(shown)}</tbody></table>{more}"


def _cells(tag: str, values: Iterable[object]) -> str:
    return "".join(f"<{tag} {LEFT}>{text(value)}</{tag}>" for value in values)


def page(parts: Iterable[str]) -> str:
    return f"<div>{''.join(parts)}</div>"
