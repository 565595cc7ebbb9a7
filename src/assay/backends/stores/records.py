"""Rows of the database as the records of the port. Times are microseconds since 1970. It needs no SQLAlchemy."""

from datetime import UTC, datetime, timedelta
from typing import Any

from assay.backends.stores.codec import EncodedBlob, RecordCodec
from assay.ports import Document, Run, RunFacts

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stamp(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment(stamp: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stamp)


def read_run(row: Any, codec: RecordCodec) -> Run:
    name, metadata = codec.open_run(row.id, row.name, row.head)
    return Run(
        id=row.id,
        tenant=row.tenant,
        kind=row.kind,
        status=row.status,
        name=name,
        metadata=metadata,
        created=moment(row.created),
        started=None if row.started is None else moment(row.started),
        ended=None if row.ended is None else moment(row.ended),
        events=row.events,
        holder=row.holder,
        leased=None if row.leased is None else moment(row.leased),
        granted=None if row.granted is None else moment(row.granted),
        takeovers=row.takeovers,
        facts=RunFacts(
            score=row.score, cost=row.cost, passed=None if row.passed is None else bool(row.passed)
        ),
    )


def read_document(row: Any, codec: RecordCodec) -> Document:
    return Document(
        tenant=row.tenant,
        kind=row.kind,
        key=row.key,
        version=row.version,
        data=codec.open(sealed_blob(row), "documents", row.tenant, row.kind, row.key),
        updated=moment(row.updated),
    )


def sealed_blob(row: Any) -> EncodedBlob:
    data = row.data
    if isinstance(
        data, str
    ):  # SQLite has the type of each value: a statement of another program may have written a text
        data = data.encode("utf-8", "surrogateescape")
    return EncodedBlob(row.coding, row.key_id, data)
