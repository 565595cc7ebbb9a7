"""New rows, as a driver takes them: going through SQLAlchemy for each costs as much as the database itself."""

import sqlite3
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Dialect, Table
from sqlalchemy.exc import DBAPIError

MOST = 64  # rows of one statement: with twelve columns still below the 999 values of an old SQLite
Row = tuple[Any, ...]


class Insertion:
    """Rows of one table, each with its values in the order of the columns; one that `renews` takes the place of an old row."""

    def __init__(self, table: Table, dialect: Dialect, *, renews: bool = False) -> None:
        self._postgres = dialect.name == "postgresql"
        quote = dialect.identifier_preparer.quote
        names = [column.name for column in table.columns]
        marks = ", ".join(["%s" if self._postgres else "?"] * len(names))
        self._head = f"INSERT INTO {table.name} ({', '.join(map(quote, names))}) VALUES "  # noqa: S608  # names of our own tables
        self._marks, self._tail = f"({marks})", ""
        if renews:
            keys = ", ".join(column.name for column in table.primary_key)
            over = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in names)
            self._tail = f" ON CONFLICT ({keys}) DO UPDATE SET {over}"
        self._values = itemgetter(*names)
        self._statements: dict[int, str] = {}

    def add_named(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        self.add(connection, [*map(self._values, rows)])

    def add(self, connection: Connection, rows: Sequence[Row]) -> None:
        if self._postgres and rows:
            connection.exec_driver_sql(self._statement(1), [*rows])
            return
        # many rows in one statement: between two of them sqlite3 lets other threads in, and waits until they let it
        driver: Any = connection.connection.driver_connection
        at = 0
        while at < len(rows):
            many = min(MOST, 1 << (len(rows) - at).bit_length() - 1)
            self._execute(driver, self._statement(many), [*chain.from_iterable(rows[at : at + many])])
            at += many

    def _statement(self, many: int) -> str:
        """A few of them, for powers of two, so that the driver knows them again."""
        found = self._statements.get(many)
        if found is None:
            found = self._statements[many] = self._head + ", ".join([self._marks] * many) + self._tail
        return found

    def _execute(self, driver: Any, statement: str, values: list[Any]) -> None:
        """A file does not go away: nothing of what SQLAlchemy would do around this is needed."""
        try:
            driver.execute(statement, values)
        except sqlite3.Error as error:
            raise DBAPIError.instance(statement, None, error, sqlite3.Error) from error
