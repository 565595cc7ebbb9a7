"""One document per encryption key of a store, so that opening it detects a missing or wrong key."""

from typing import Any

from sqlalchemy import Connection, Engine, Row, insert, select
from sqlalchemy.exc import IntegrityError

from assay.backends.stores.codec import EncodedBlob, RecordCodec
from assay.backends.stores.schema import MARKER_KIND as KIND
from assay.backends.stores.schema import MARKER_TENANT as TENANT
from assay.backends.stores.tables import documents
from assay.errors import EnvironmentFailure, UsageError

WORD = b"assay"
HOW = "add this key to ASSAY_EVIDENCE_KEY, as ID:KEY"


def compare(engine: Engine, codec: RecordCodec) -> None:
    """Refuse a store that these keys cannot decrypt; record the encrypting key."""
    with engine.connect() as connection, connection.begin():
        marked = _read_markers(connection)
    for id, row in marked.items():
        if id not in codec.ids:
            there = f"; it has only {', '.join(sorted(codec.ids))}" if codec.ids else ""
            raise UsageError(f"this store has records encrypted with key {id!r}: {HOW}{there}")
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
            f"ASSAY_EVIDENCE_KEY has a key {id!r}, and it is not the {id!r} that encrypted this store"
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
