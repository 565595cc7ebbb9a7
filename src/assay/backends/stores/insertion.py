"""Statements that insert rows, in the syntax of the driver."""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from sqlalchemy import Dialect, Table

from assay.backends.stores.row_values import Row
from assay.backends.stores.tables import audit_heads

# Rows of one statement. After each of them the driver waits until another thread lets Python go, which may take a
# while.
TOGETHER = (64, *range(32, 0, -1))


class Insertion:
    """
    Statements in the driver's syntax with the order of their values: SQLAlchemy would cost as much as SQLite itself.
    """

    def __init__(self, table: Table, dialect: Dialect) -> None:
        quote = dialect.identifier_preparer.quote
        columns = [column.name for column in table.columns]
        keys = ", ".join(column.name for column in table.primary_key)
        over = ", ".join(f"{quote(name)} = excluded.{name}" for name in columns)
        anyway = f" ON CONFLICT ({keys}) DO UPDATE SET {over}" if table is audit_heads else ""
        into = f"INSERT INTO {table.name} ({', '.join(map(quote, columns))}) VALUES "  # noqa: S608  # names of our own tables
        row = f"({', '.join(['%s' if dialect.name == 'postgresql' else '?'] * len(columns))})"
        self.values: Callable[[dict[str, Any]], Row] = itemgetter(*columns)
        self.together = {many: f"{into}{', '.join([row] * many)}{anyway}" for many in TOGETHER}
        self.statement = self.together[1]


def spans(count: int) -> Iterator[tuple[int, int]]:
    """Split the rows into few statements of fixed sizes."""
    start = 0
    for size in TOGETHER:
        while count - start >= size:
            yield start, start + size
            start += size
