"""Where a table is shown: on a terminal too narrow for it lines run over, and no number is cut."""

import sys

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

ELSEWHERE = 200  # columns where there is no terminal
ANY = 10_000


def console() -> Console:
    """Standard output, as wide as the terminal; plain and wide where it is none."""
    if sys.stdout.isatty():
        return Console(highlight=False, soft_wrap=True)
    return Console(highlight=False, soft_wrap=True, width=ELSEWHERE, color_system=None)


def needed(page: Console, table: Table) -> int:
    """Columns that it takes to show everything in one line a row."""
    return Measurement.get(page, page.options.update(max_width=ANY), table).maximum


def put(page: Console, table: Table, folds: int = 0) -> None:
    """`folds` of its columns may be folded into several lines; the rest is one line a row, however narrow the terminal."""
    before = page.width
    page.width = max(before, needed(page, table) - folds)
    page.print(table)
    page.width = before
