"""Re-encrypts a store with the newest key, or decrypts it, in steps. Each step is a transaction, so it can stop anywhere."""

from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Table, bindparam, delete, select, tuple_, update

from assay.backends.stores import key_markers as markers
from assay.backends.stores import queries
from assay.backends.stores.codec import EncodedBlob, RecordCodec, key_of
from assay.backends.stores.tables import documents, evidence, runs
from assay.ports import ReencryptStep

DRAWERS = (evidence, documents, runs)
STEP = {evidence: 16, documents: 200, runs: 500}


class _Cursor(msgspec.Struct, array_like=True):
    """The cursor: the table, and the last row."""

    drawer: int = 0
    row: list[str | int] = []


class Reencryption:
    def __init__(self, codec: RecordCodec) -> None:
        self._codec = codec

    def step(self, connection: Connection, following: str) -> ReencryptStep:
        place = msgspec.json.decode(following, type=_Cursor) if following else _Cursor()
        if place.drawer == len(DRAWERS):
            self._tidy(connection)
            return ReencryptStep(0, "")
        table = DRAWERS[place.drawer]
        rows = self._rows(connection, table, place.row)
        many = sum(self._reencrypt_row(connection, table, row) for row in rows)
        after = _Cursor(place.drawer, _key(table, rows[-1])) if rows else _Cursor(place.drawer + 1)
        return ReencryptStep(many, msgspec.json.encode(after).decode())

    def _rows(self, connection: Connection, table: Table, after: list[str | int]) -> list[Row[Any]]:
        """A batch of rows of another key; of runs, any rows. They are locked."""
        query = select(table).order_by(*table.primary_key.columns).limit(STEP[table])
        if after:
            query = query.where(tuple_(*table.primary_key.columns) > tuple_(*after))
        if table is not runs:
            query = query.where(table.c.key_id != self._codec.key_id)
        return list(connection.execute(query.with_for_update()))

    def _reencrypt_row(self, connection: Connection, table: Table, row: Row[Any]) -> bool:
        if table is runs:
            if key_of(row.head) == self._codec.key_id:
                return False
            name, head = self._codec.seal_run(queries.read_run(row, self._codec))
            self._put(connection, table, row, {"name": name, "head": head})
            return True
        if table is documents and (row.tenant, row.kind) == (markers.TENANT, markers.KIND):
            return False  # each belongs to its own key
        place = table.name, *_primary_key(table, row)
        sealed = self._codec.seal(
            self._codec.open(EncodedBlob(row.coding, row.key_id, row.data), *place), *place
        )
        self._put(connection, table, row, sealed._asdict())
        return True

    def _put(self, connection: Connection, table: Table, row: Row[Any], values: dict[str, Any]) -> None:
        keys = [column.name for column in table.primary_key.columns]
        where = [table.c[name] == bindparam(f"b_{name}") for name in keys]
        connection.execute(
            update(table).where(*where).values(values), {f"b_{name}": getattr(row, name) for name in keys}
        )

    def _tidy(self, connection: Connection) -> None:
        """Delete the markers of the older keys, which encrypt nothing any more."""
        connection.execute(
            delete(documents).where(
                documents.c.tenant == markers.TENANT,
                documents.c.kind == markers.KIND,
                documents.c.key != self._codec.key_id,
            )
        )


def _primary_key(table: Table, row: Row[Any]) -> list[str | int]:
    """The row's position for the codec."""
    if table is evidence:
        return [row.run, row.kind, row.key, row.first]
    return [row.tenant, row.kind, row.key]


def _key(table: Table, row: Row[Any]) -> list[str | int]:
    return [getattr(row, column.name) for column in table.primary_key.columns]
