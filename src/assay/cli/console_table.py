"""Tables on standard output. On a narrow terminal lines run over; no number is cut. Every cell is escaped for a terminal."""

import sys

from rich import table
from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

from assay.cli.word_wrap import break_points, later_indent, width_of
from assay.terminal import one_line

FILE_WIDTH = 200  # columns where standard output is not a terminal
UNLIMITED = 10_000


def cell(text: str, style: str = "") -> Text:
    """Text that is safe to show on a terminal. Make a rich Text only here."""
    return Text(one_line(text), style=style)


class Table(table.Table):
    """Columns without lines; a cell that is a str is escaped."""

    def add_row(self, *cells: str | Text) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().add_row(*(cell(value) if isinstance(value, str) else value for value in cells))


class Page(Console):
    """Standard output as wide as the terminal; without color and `file_width` wide if it is not a terminal."""

    def __init__(self, file_width: int = FILE_WIDTH, *, soft_wrap: bool = True) -> None:
        if sys.stdout.isatty():
            super().__init__(highlight=False, soft_wrap=soft_wrap)
        else:
            super().__init__(highlight=False, soft_wrap=soft_wrap, width=file_width, color_system=None)

    def put(self, text: str | Text, style: str = "", indent: str | None = None) -> None:
        """Print one line. On a terminal it wraps at words; a later line begins with `indent`."""
        line = cell(text, style) if isinstance(text, str) else text
        width = width_of(sys.stdout)
        points = [] if width is None else break_points(line.plain, width, indent)
        own = later_indent(line.plain) if indent is None else indent
        for at, part in enumerate(line.divide(points)):
            part.rstrip()
            self.print(part if at == 0 else Text(own) + part)

    def put_indented(self, label: str, text: str, style: str = "") -> None:
        """Print a label and a text beside it. On a terminal the text wraps in its own column."""
        self.put(f"{label}{text}", style, " " * len(label))

    def width_of(self, rows: Table) -> int:
        """The columns that the table needs to show every row in one line."""
        return Measurement.get(self, self.options.update(max_width=UNLIMITED), rows).maximum

    def put_table(self, rows: Table, folds: int = 0) -> None:
        """Print a table. `folds` of its columns of text may fold into several lines; all others stay in one line a row."""
        before = self.width
        self.width = max(before, self.width_of(rows) - folds)
        self.print(rows)
        self.width = before
