"""Statements that insert rows, in the syntax of the driver."""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from assay.backends.stores.row_values import Row
from assay.backends.stores.sqlite_statements import COLUMNS, insertion

# Rows of one statement. After each of them the driver waits until another thread lets Python go, which may take a
# while.
TOGETHER = (64, *range(32, 0, -1))


class Insertion:
    """The statements of a table with the order of their values: SQLAlchemy would cost as much as SQLite itself."""

    def __init__(self, table: str, *, mark: str) -> None:
        self.values: Callable[[dict[str, Any]], Row] = itemgetter(*COLUMNS[table])
        self.together = {many: insertion(table, rows=many, mark=mark) for many in TOGETHER}
        self.statement = self.together[1]


def spans(count: int) -> Iterator[tuple[int, int]]:
    """Split the rows into few statements of fixed sizes."""
    start = 0
    for size in TOGETHER:
        while count - start >= size:
            yield start, start + size
            start += size
