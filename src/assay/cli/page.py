"""Where a table is shown: on a terminal too narrow for it lines run over, and no number is cut. Its text is for a terminal."""

import sys

from rich import table
from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

from assay.terminal import one_line

ELSEWHERE = 200  # columns where there is no terminal
ANY = 10_000


def cell(text: str, style: str = "") -> Text:
    """Text as it may be shown; nothing else makes one."""
    return Text(one_line(text), style=style)


class Table(table.Table):
    """Columns without lines, whose cells are text as it may be shown."""

    def add_row(self, *cells: str | Text) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().add_row(*(cell(one) if isinstance(one, str) else one for one in cells))


class Page(Console):
    """Standard output, as wide as the terminal; plain and wide where it is none."""

    def __init__(self, elsewhere: int = ELSEWHERE, *, soft_wrap: bool = True) -> None:
        if sys.stdout.isatty():
            super().__init__(highlight=False, soft_wrap=soft_wrap)
        else:
            super().__init__(highlight=False, soft_wrap=soft_wrap, width=elsewhere, color_system=None)

    def put(self, text: str | Text, style: str = "") -> None:
        self.print(cell(text, style) if isinstance(text, str) else text)


def needed(page: Page, rows: Table) -> int:
    """Columns that it takes to show everything in one line a row."""
    return Measurement.get(page, page.options.update(max_width=ANY), rows).maximum


def put(page: Page, rows: Table, folds: int = 0) -> None:
    """`folds` of its columns may be folded into several lines; the rest is one line a row, however narrow the terminal."""
    before = page.width
    page.width = max(before, needed(page, rows) - folds)
    page.print(rows)
    page.width = before
