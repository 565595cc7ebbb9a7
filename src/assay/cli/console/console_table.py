"""
Tables on standard output. On a narrow terminal lines run over; no number is cut. Every cell is escaped for a terminal.

A file needs neither colors nor folded lines, so tables for it are written without rich, which takes longer to load than
to write. A test compares both forms.
"""

import re
import sys
from typing import TYPE_CHECKING, Any, Self

from assay.cli.console.console import WIDEST, break_points, echo_text, later_indent, width_of, wrap
from assay.terminal import one_line

if TYPE_CHECKING:
    from rich import table, text
    from rich.console import Console

UNLIMITED = 10_000
NARROW = re.compile("[ -~–—×±…·•✓✗°µ←→↑↓]*")  # characters that certainly take one column each


class Text:
    """A text with styles, escaped by `cell`."""

    def __init__(self, plain: str, style: str = "") -> None:
        self._spans = [(plain, style)]

    @property
    def plain(self) -> str:
        return "".join(part for part, _ in self._spans)

    def append(self, more: "str | Text", style: str = "") -> Self:
        self._spans += (more if isinstance(more, Text) else cell(more, style))._spans
        return self

    def rich(self) -> "text.Text":
        from rich.text import Text as RichText  # deferred import

        whole = RichText(self._spans[0][0], style=self._spans[0][1])
        for part, style in self._spans[1:]:
            whole.append(part, style=style or None)
        return whole


def cell(text: str, style: str = "") -> Text:
    """Text that is safe to show on a terminal. Make a Text only here."""
    return Text(one_line(text), style=style)


class Table:
    """Columns without lines; a cell that is a str is escaped. The options are those of a rich table."""

    def __init__(self, *, padding: tuple[int, int, int, int] = (0, 1, 0, 1), **options: Any) -> None:
        self._options: dict[str, Any] = {"box": None, "pad_edge": False, "padding": padding, **options}
        self._header: bool = options.get("show_header", True)
        self._gap = padding[1] + padding[3]
        self._columns: list[tuple[Text, dict[str, Any]]] = []
        self._rows: list[list[Text]] = []

    def add_column(self, name: str | Text, **options: Any) -> None:
        self._columns.append((cell(name) if isinstance(name, str) else name, options))

    def add_row(self, *cells: str | Text) -> None:
        self._rows.append([cell(value) if isinstance(value, str) else value for value in cells])

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def lines(self) -> list[str] | None:
        """
        Every row in one line, as rich writes them; None: rich must write it, as only rich knows how wide its characters
        are.
        """
        rows = [[one.plain for one in row] for row in self._rows]
        if self._header:
            rows.insert(0, [name.plain for name, _ in self._columns])
        if not all(NARROW.fullmatch(text) for row in rows for text in row):
            return None
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        if not all(widths):
            return None  # rich gives an empty column a width that depends on its neighbours
        right = [options.get("justify") == "right" for _, options in self._columns]
        return [
            (" " * self._gap).join(
                text.rstrip().rjust(width) if end else text.ljust(width)
                for end, text, width in zip(right, row, widths, strict=True)
            )
            for row in rows
        ]

    def rich(self) -> "table.Table":
        from rich.table import Table as RichTable  # deferred import

        whole = RichTable(**self._options)
        for name, options in self._columns:
            whole.add_column(name.rich(), **options)
        for row in self._rows:
            whole.add_row(*(one.rich() for one in row))
        return whole


class Page:
    """Standard output as wide as the terminal, at most `WIDEST`; without color if it is not a terminal."""

    def __init__(self, *, soft_wrap: bool = True) -> None:
        self._soft_wrap = soft_wrap
        self._plain = not sys.stdout.isatty()
        self._opened: Console | None = None

    @property
    def width(self) -> int:
        return width_of(sys.stdout)

    def put(self, text: str | Text, style: str = "", indent: str | None = None) -> None:
        """Print one line. It wraps at words; a later line begins with `indent`."""
        line = cell(text, style) if isinstance(text, str) else text
        if self._plain and self._soft_wrap:
            echo_text("".join(f"{part}\n" for part in wrap(line.plain.rstrip(), self.width, indent)))
            return
        points = break_points(line.plain, self.width, indent)
        own = later_indent(line.plain, self.width, indent)
        for at, part in enumerate(line.rich().divide(points)):
            part.rstrip()
            self._console.print(part if at == 0 else Text(own).rich() + part)

    def put_indented(self, label: str, text: str, style: str = "") -> None:
        """Print a label and a text beside it. The text wraps in its own column."""
        self.put(f"{label}{text}", style, " " * len(label))

    def width_of(self, rows: Table) -> int:
        """The columns that the table needs to show every row in one line."""
        if (lines := rows.lines()) is not None:
            return max(map(len, lines), default=0)
        from rich.measure import Measurement  # deferred import

        options = self._console.options.update(max_width=UNLIMITED)
        return Measurement.get(self._console, options, rows.rich()).maximum

    def put_table(self, rows: Table, folds: int = 0) -> None:
        """
        Print a table. `folds` of its columns of text may fold into several lines; all others stay in one line a row.
        Where even `WIDEST` columns are too few, its texts fold.
        """
        self._print(rows, min(max(self.width, self.width_of(rows) - folds), WIDEST))

    def print(self, rows: Table) -> None:
        """Print a table. Its columns of text fold where it is wider than the page."""
        self._print(rows, self.width)

    def _print(self, rows: Table, width: int) -> None:
        lines = rows.lines() if self._plain else None
        if lines is not None and max(map(len, lines), default=0) <= width:
            echo_text("".join(f"{line}\n" for line in lines))
            return
        console = self._console
        before, console.width = console.width, width
        console.print(rows.rich())
        console.width = before

    @property
    def _console(self) -> "Console":
        if self._opened is None:
            from rich.console import Console  # deferred import

            color: dict[str, Any] = {"color_system": None} if self._plain else {}
            self._opened = Console(highlight=False, soft_wrap=self._soft_wrap, width=self.width, **color)
        return self._opened
