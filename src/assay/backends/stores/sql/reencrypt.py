"""
Encrypts a store with the newest key, or decrypts it, in steps. Each step is a transaction, so it can stop anywhere.

Records get the data key of their tenant, unless they have one; then each data key is encrypted with the newest key of
the host.
"""

from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, Row, Table, bindparam, delete, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from assay.backends.stores.records.codec import MARKER_KIND as KIND
from assay.backends.stores.records.codec import MARKER_TENANT as TENANT
from assay.backends.stores.records.codec import EncodedBlob, RecordCodec, key_of
from assay.backends.stores.records.record_rows import read_run
from assay.backends.stores.sql.tables import documents, evidence, runs, tenant_keys
from assay.backends.stores.sql.tenant_content import rewrite_keys
from assay.errors import EnvironmentFailure, UsageError
from assay.ports import Clock, ReencryptStep

DRAWERS = (evidence, documents, runs, tenant_keys)
STEP = {evidence: 16, documents: 200, runs: 500, tenant_keys: 500}


class _Cursor(msgspec.Struct, array_like=True):
    """The cursor: the table, and the last row."""

    drawer: int = 0
    row: list[str | int] = []


class Reencryption:
    def __init__(self, codec: RecordCodec, clock: Clock) -> None:
        self._codec, self._clock = codec, clock

    def step(self, connection: Connection, following: str) -> ReencryptStep:
        place = msgspec.json.decode(following, type=_Cursor) if following else _Cursor()
        if place.drawer == len(DRAWERS):
            self._tidy(connection)
            return ReencryptStep(0, "")
        table = DRAWERS[place.drawer]
        rows = self._rows(connection, table, place.row)
        if table is tenant_keys:
            many = self._rewrap(connection, rows)
        else:
            self._load(connection, table, rows)
            many = sum(self._reencrypt_row(connection, table, row) for row in rows)
        after = _Cursor(place.drawer, _key(table, rows[-1])) if rows else _Cursor(place.drawer + 1)
        following = msgspec.json.encode(after).decode()
        return ReencryptStep(0, following, many) if table is tenant_keys else ReencryptStep(many, following)

    def _rows(self, connection: Connection, table: Table, after: list[str | int]) -> list[Row[Any]]:
        """A batch of rows without the right key; of runs, any rows. They are locked."""
        query = select(table).order_by(*table.primary_key.columns).limit(STEP[table])
        if after:
            query = query.where(tuple_(*table.primary_key.columns) > tuple_(*after))
        if table is evidence:
            query = query.add_columns(runs.c.tenant).join(runs, runs.c.id == evidence.c.run)
        if table is tenant_keys:
            query = query.where(table.c.destroyed.is_(None), table.c.key_id != self._codec.key_id)
        elif table is not runs:
            query = query.where(table.c.key_id == "" if self._codec.key_id else table.c.key_id != "")
        return list(connection.execute(query.with_for_update(of=table)))

    def _load(self, connection: Connection, table: Table, rows: list[Row[Any]]) -> None:
        """Read the keys that open the rows, and those that encrypt them."""
        if table is runs:
            self._codec.load_heads(connection, rows)
        else:
            self._codec.load(connection, rows)
        self._codec.keys.prepare(connection, {row.tenant for row in rows}, self._clock.now())

    def _rewrap(self, connection: Connection, rows: list[Row[Any]]) -> int:
        """Encrypt data keys with the newest key of the host; with encryption off, delete them."""
        if not self._codec.key_id:
            ids = [row.id for row in rows]
            connection.execute(delete(tenant_keys).where(tenant_keys.c.id.in_(ids)))
            rewrite_keys(connection)
            return len(ids)
        keys = self._codec.keys
        for row in rows:
            columns = keys.wrap(row.tenant, row.id, keys.unwrap(row))
            self._put(connection, tenant_keys, row, columns)
        return len(rows)

    def _reencrypt_row(self, connection: Connection, table: Table, row: Row[Any]) -> bool:
        if table is runs:
            if bool(key_of(row.head)) == bool(self._codec.key_id):
                return False
            name, head = self._codec.seal_run(read_run(row, self._codec))
            self._put(connection, table, row, {"name": name, "head": head})
            return True
        if table is documents and (row.tenant, row.kind) == (TENANT, KIND):
            return False  # each belongs to its own key
        place = table.name, *_primary_key(table, row)
        data = self._codec.open(EncodedBlob(row.coding, row.key_id, row.data), *place)
        sealed = self._codec.seal(data, *place, tenant=row.tenant)
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
                documents.c.tenant == TENANT,
                documents.c.kind == KIND,
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


# One document per encryption key of a store, so that opening it detects a missing or wrong key.

WORD = b"assay"
HOW = "add this key to ASSAY_EVIDENCE_KEY, as ID:KEY"


def compare(engine: Engine, codec: RecordCodec) -> None:
    """Refuse a store that these keys cannot decrypt; record the encrypting key."""
    with engine.connect() as connection, connection.begin():
        marked = _read_markers(connection)
    for id, row in marked.items():
        if id not in codec.ids:
            there = f"; it has only {', '.join(sorted(codec.ids))}" if codec.ids else ""
            raise UsageError(
                f"ASSAY_EVIDENCE_KEY: expected key {id!r}, which encrypted records of this store: {HOW}{there}"
            )
        _try(codec, id, row)
    if codec.key_id and codec.key_id not in marked:
        _mark(engine, codec)


def _read_markers(connection: Connection) -> dict[str, Row[Any]]:
    query = select(documents).where(documents.c.tenant == TENANT, documents.c.kind == KIND)
    return {row.key: row for row in connection.execute(query)}


def _try(codec: RecordCodec, id: str, row: Row[Any]) -> None:
    try:
        codec.open(EncodedBlob(row.coding, row.key_id, row.data), "documents", TENANT, KIND, id)
    except EnvironmentFailure:
        raise UsageError(
            f"ASSAY_EVIDENCE_KEY: expected the key {id!r} that encrypted this store, got another of this id"
        ) from None


def _mark(engine: Engine, codec: RecordCodec) -> None:
    id = codec.key_id
    sealed = codec.seal(WORD, "documents", TENANT, KIND, id)
    row = {"tenant": TENANT, "kind": KIND, "key": id, "version": 1, "updated": 0, **sealed._asdict()}
    try:
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            connection.execute(insert(documents), row)
    except IntegrityError:
        compare(engine, codec)  # another process was first: compare with its key
