"""One document per encryption key of a store, so that opening it detects a missing or wrong key."""

from typing import Any

from sqlalchemy import Connection, Engine, Row, insert, select
from sqlalchemy.exc import IntegrityError

from assay.backends.stores.codec import EncodedBlob, RecordCodec
from assay.backends.stores.tables import documents
from assay.errors import EnvironmentFailure, UsageError

TENANT, KIND = "", "seal"
WORD = b"assay"
HOW = "add this key to ASSAY_EVIDENCE_KEY, as ID:KEY"


def compare(engine: Engine, vault: RecordCodec) -> None:
    """Refuse a store that these keys cannot decrypt; record the encrypting key."""
    with engine.connect() as connection, connection.begin():
        marked = _marked(connection)
    for id, row in marked.items():
        if id not in vault.ids:
            there = f"; it has only {', '.join(sorted(vault.ids))}" if vault.ids else ""
            raise UsageError(f"this store has records encrypted with key {id!r}: {HOW}{there}")
        _try(vault, id, row)
    if vault.key_id and vault.key_id not in marked:
        _mark(engine, vault)


def _marked(connection: Connection) -> dict[str, Row[Any]]:
    query = select(documents).where(documents.c.tenant == TENANT, documents.c.kind == KIND)
    return {row.key: row for row in connection.execute(query)}


def _try(vault: RecordCodec, id: str, row: Row[Any]) -> None:
    try:
        vault.open(EncodedBlob(row.coding, row.key_id, row.data), "documents", TENANT, KIND, id)
    except EnvironmentFailure:
        raise UsageError(
            f"ASSAY_EVIDENCE_KEY has a key {id!r}, and it is not the {id!r} that encrypted this store"
        ) from None


def _mark(engine: Engine, vault: RecordCodec) -> None:
    id = vault.key_id
    sealed = vault.seal(WORD, "documents", TENANT, KIND, id)
    row = {"tenant": TENANT, "kind": KIND, "key": id, "version": 1, "updated": 0, **sealed._asdict()}
    try:
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            connection.execute(insert(documents), row)
    except IntegrityError:
        compare(engine, vault)  # another process was first: compare with its key
