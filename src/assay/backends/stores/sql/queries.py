"""Queries of the store. Each takes a connection and returns the port's types."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, delete, func, or_, select, tuple_

from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.notifier import RunPosition
from assay.backends.stores.records.record_rows import (
    COUNTS,
    moment,
    read_document,
    read_run,
    sealed_blob,
    stamp,
)
from assay.backends.stores.sql.tables import OPEN, case_blocks, documents, events, evidence, runs
from assay.ports import (
    ACTIVE,
    CLOSED,
    CaseBlock,
    CaseTotals,
    ChunkInfo,
    Document,
    Event,
    EvidenceChunk,
    RequireCount,
    Run,
)

T = TypeVar("T")

_MOST = 500  # names in one statement

_ACTIVE = OPEN, runs.c.status.in_(sorted(ACTIVE))  # the index `runs_open` finds them among millions of runs

# Built once: building them costs more than SQLite takes to answer.
_RUNS = select(runs).where(runs.c.id.in_(bindparam("ids", expanding=True))).order_by(runs.c.id)
_TALLIES = select(runs.c.id, runs.c.events, runs.c.status).where(
    runs.c.id.in_(bindparam("ids", expanding=True))
)
_EVENTS = (
    select(events.c.type, events.c.data, events.c.at, events.c.sequence)
    .where(events.c.run == bindparam("run"), events.c.sequence > bindparam("after"))
    .order_by(events.c.sequence)
    .limit(bindparam("limit"))
)
_DOCUMENT_NAME = documents.c.tenant, documents.c.kind, documents.c.key
_DOCUMENTS = (
    select(documents)
    .where(tuple_(*_DOCUMENT_NAME).in_(bindparam("names", expanding=True)))
    .order_by(*_DOCUMENT_NAME)
)
# A row that another process has locked is skipped: waiting for it would block all later transactions.
_RUNS_LOCKED = _RUNS.with_for_update(skip_locked=True)
_DOCUMENTS_LOCKED = _DOCUMENTS.with_for_update(skip_locked=True)
_RUN_NAMES = select(runs.c.id).where(runs.c.id.in_(bindparam("ids", expanding=True)))
_DOCUMENT_NAMES = select(*_DOCUMENT_NAME).where(
    tuple_(*_DOCUMENT_NAME).in_(bindparam("names", expanding=True))
)


def find_runs(
    connection: Connection, codec: RecordCodec, ids: Sequence[str], *, lock: bool = False
) -> list[Run]:
    query = _RUNS_LOCKED if lock else _RUNS
    return [run for some in _portions(ids) for run in read_runs(connection, codec, query, {"ids": some})]


def held_runs(connection: Connection, codec: RecordCodec, holder: str, *, lock: bool) -> list[Run]:
    query = select(runs).where(*_ACTIVE, runs.c.holder == holder).order_by(runs.c.created, runs.c.id)
    return read_runs(connection, codec, query.with_for_update(skip_locked=True) if lock else query)


def locked_runs(connection: Connection, ids: Sequence[str]) -> set[str]:
    """The runs that exist but could not be locked: another process has them."""
    return {row.id for some in _portions(ids) for row in connection.execute(_RUN_NAMES, {"ids": some})}


def locked_documents(
    connection: Connection, names: Sequence[tuple[str, str, str]]
) -> set[tuple[str, str, str]]:
    found = (row for some in _portions(names) for row in connection.execute(_DOCUMENT_NAMES, {"names": some}))
    return {(row.tenant, row.kind, row.key) for row in found}


def lost_runs(
    connection: Connection,
    codec: RecordCodec,
    holder: str,
    now: datetime,
    limit: int,
    max_takeovers: int | None = None,
) -> list[Run]:
    """
    Active runs without a valid lease; rows that another process has locked are skipped.

    And those whose lease was granted in the future: it is not known how long they are held.
    """
    at = stamp(now)
    over = or_(runs.c.leased <= at, runs.c.granted > at)
    free = or_(runs.c.holder.is_(None), and_(runs.c.holder != holder, over))
    query = select(runs).where(*_ACTIVE, free).order_by(runs.c.created, runs.c.id)
    if max_takeovers is not None:
        query = query.where(runs.c.takeovers != max_takeovers)
    return read_runs(connection, codec, query.limit(limit).with_for_update(skip_locked=True))


def tallies(connection: Connection, ids: Sequence[str]) -> dict[str, RunPosition]:
    return {
        row.id: RunPosition(row.events, row.status in CLOSED)
        for some in _portions(ids)
        for row in connection.execute(_TALLIES, {"ids": some})
    }


def list_events(connection: Connection, run: str, after: int, limit: int) -> list[Event]:
    rows = connection.execute(_EVENTS, {"run": run, "after": after, "limit": limit})
    return [Event(type, data, moment(at), sequence) for type, data, at, sequence in rows]


def list_chunk_infos(
    connection: Connection, run: str, kind: str, after: ChunkInfo | None, limit: int
) -> list[ChunkInfo]:
    place = evidence.c.key, evidence.c.first
    query = select(*place, evidence.c.last, evidence.c.size).where(
        evidence.c.run == run, evidence.c.kind == kind
    )
    if after is not None:
        query = query.where(tuple_(*place) > tuple_(after.key, after.first))
    rows = connection.execute(query.order_by(*place).limit(limit))
    return [ChunkInfo(kind=kind, key=row.key, first=row.first, last=row.last, size=row.size) for row in rows]


def list_chunks(
    connection: Connection,
    codec: RecordCodec,
    run: str,
    kind: str,
    key: str,
    start: int,
    stop: int | None,
    limit: int,
) -> list[EvidenceChunk]:
    here = evidence.c.run == run, evidence.c.kind == kind, evidence.c.key == key
    reaching = select(func.max(evidence.c.first)).where(*here, evidence.c.first <= start).scalar_subquery()
    query = select(evidence).where(
        *here, evidence.c.first >= func.coalesce(reaching, 0), evidence.c.last >= start
    )  # fmt: skip
    if stop is not None:
        query = query.where(evidence.c.first < stop)
    rows = connection.execute(query.order_by(evidence.c.first).limit(limit)).all()
    codec.load(connection, rows)
    return [
        EvidenceChunk(
            kind=kind,
            key=key,
            first=row.first,
            last=row.last,
            data=codec.open(sealed_blob(row), "evidence", run, kind, key, row.first),
        )
        for row in rows
    ]


def list_contents(
    connection: Connection, codec: RecordCodec, run: str, kind: str, keys: Sequence[str]
) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for at in range(0, len(keys), _MOST):
        some = keys[at : at + _MOST]
        here = evidence.c.run == run, evidence.c.kind == kind, evidence.c.key.in_(some)
        rows = connection.execute(select(evidence).where(*here).order_by(evidence.c.first.desc())).all()
        codec.load(connection, rows)
        for row in rows:
            found[row.key] = codec.open(sealed_blob(row), "evidence", run, kind, row.key, row.first)
    return found


def find_documents(
    connection: Connection, codec: RecordCodec, names: Sequence[tuple[str, str, str]], *, lock: bool = False
) -> list[Document]:
    query = _DOCUMENTS_LOCKED if lock else _DOCUMENTS
    found: list[Document] = []
    for some in _portions(names):
        rows = connection.execute(query, {"names": some}).all()
        codec.load(connection, rows)
        found += [read_document(row, codec) for row in rows]
    return found


def list_documents(
    connection: Connection, codec: RecordCodec, tenant: str, kind: str, prefix: str, after: str, limit: int
) -> list[Document]:
    query = select(documents).where(*_under(tenant, kind, prefix))
    if after:
        query = query.where(documents.c.key > after)
    rows = connection.execute(query.order_by(documents.c.key).limit(limit)).all()
    codec.load(connection, rows)
    return [read_document(row, codec) for row in rows]


def count_documents(connection: Connection, required: RequireCount) -> int:
    """The number of documents that the precondition compares, or the sum of their versions."""
    where = _under(required.tenant, required.kind, required.prefix)
    number = func.coalesce(func.sum(documents.c.version), 0) if required.versions else func.count()
    return int(connection.execute(select(number).select_from(documents).where(*where)).scalar_one())


def _under(tenant: str, kind: str, prefix: str) -> list[ColumnElement[bool]]:
    """The documents of a kind whose key has the prefix."""
    where: list[ColumnElement[bool]] = [documents.c.tenant == tenant, documents.c.kind == kind]
    if prefix:
        where += [documents.c.key >= prefix, func.substr(documents.c.key, 1, len(prefix)) == prefix]
        if (end := _past(prefix)) is not None:
            where.append(documents.c.key < end)
    return where


def _past(prefix: str) -> str | None:
    """An upper bound of all texts with this prefix, if there is a simple one. It only limits the scan."""
    last = ord(prefix[-1])
    return prefix[:-1] + chr(last + 1) if last < 0xD7FF else None


def _portions(names: Sequence[T]) -> Iterator[Sequence[T]]:
    return (names[start : start + _MOST] for start in range(0, len(names), _MOST))


def read_runs(
    connection: Connection, codec: RecordCodec, query: Select[Any], parameters: dict[str, Any] | None = None
) -> list[Run]:
    rows = connection.execute(query, parameters).all()
    codec.load_heads(connection, rows)
    return [read_run(row, codec) for row in rows]


# The table of cases in a database: rows by run and number, and their sums.

SUMS = (*COUNTS.values(), "spent", "unknown")
MOST = 500  # runs in one statement
ERASED = 1_000  # rows that one step of an erasure deletes
_NAMES = [column.name for column in case_blocks.columns]


def list_blocks(connection: Connection, run: str, start: int, limit: int, holding: str) -> list[CaseBlock]:
    table = case_blocks.c
    reaching = select(func.max(table.first)).where(table.run == run, table.first <= start).scalar_subquery()
    query = select(*case_blocks.columns).where(
        table.run == run, table.first >= func.coalesce(reaching, 0), table.last >= start
    )
    if holding:
        query = query.where(or_(*(table[COUNTS[outcome]] > 0 for outcome in holding)))
    rows = connection.execute(query.order_by(table.first).limit(limit))
    return [CaseBlock(**dict(zip(_NAMES[1:], row[1:], strict=True))) for row in rows]


def sum_blocks(connection: Connection, ids: Sequence[str]) -> dict[str, CaseTotals]:
    sums = [func.sum(case_blocks.c[name]).label(name) for name in SUMS]
    found: dict[str, CaseTotals] = {}
    for at in range(0, len(ids), MOST):
        where = case_blocks.c.run.in_(ids[at : at + MOST])
        for row in connection.execute(
            select(case_blocks.c.run, *sums).where(where).group_by(case_blocks.c.run)
        ):
            counts = {name: int(getattr(row, name)) for name in SUMS if name != "spent"}
            found[row.run] = CaseTotals(**counts, spent=float(row.spent))
    return found


def delete_blocks(connection: Connection, runs: Sequence[str]) -> int:
    """Delete some rows of runs whose evidence is gone; return their number. Repeat until it is 0."""
    place = case_blocks.c.run, case_blocks.c.first
    some = select(*place).where(case_blocks.c.run.in_(runs)).order_by(*place).limit(ERASED)
    return connection.execute(delete(case_blocks).where(tuple_(*place).in_(some))).rowcount
