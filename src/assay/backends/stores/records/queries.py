# ruff: noqa: S608  # the parts of statements are constants here; values are parameters
"""The questions of both forms of the SQL store, in the language that SQLite and PostgreSQL share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.notifier import RunPosition
from assay.backends.stores.records.record_rows import (
    COUNTS,
    Row,
    moment,
    read_document,
    read_run,
    sealed_blob,
    stamp,
)
from assay.backends.stores.records.sqlite_schema import OPEN_RUNS
from assay.backends.stores.records.transactions import Name
from assay.ports import (
    ACTIVE,
    CLOSED,
    CaseBlock,
    CaseTotals,
    ChunkInfo,
    Document,
    DocumentInfo,
    Event,
    EvidenceChunk,
    RequireCount,
    Run,
)

T = TypeVar("T")
Values = dict[str, Any]

MOST = 500  # names in one statement
SUMS = (*COUNTS.values(), "spent", "unknown")
_BLOCK = CaseBlock.__struct_fields__
# The index `runs_open` finds them among millions of runs.
_ACTIVE = f"{OPEN_RUNS} AND status IN {(*sorted(ACTIVE),)}"
_HERE = "run = :run AND kind = :kind AND key = :key"


class Database(ABC):
    """A connection in a transaction. Parameters of statements have names."""

    def __init__(self, connection: Any, codec: RecordCodec, *, postgres: bool = False) -> None:
        self.connection, self.codec, self.postgres = connection, codec, postgres
        # A row that another process has locked is skipped: waiting for it would block all later transactions.
        self.lock = " FOR UPDATE SKIP LOCKED" if postgres else ""

    @abstractmethod
    def rows(self, statement: str, values: Mapping[str, Any]) -> Sequence[Any]: ...

    @abstractmethod
    def change(self, statement: str, rows: Sequence[Values]) -> None:
        """Execute the statement once for each row."""

    @abstractmethod
    def insert(self, table: str, rows: Sequence[Row]) -> None: ...


def find_runs(db: Database, ids: Sequence[str], *, lock: bool = False) -> list[Run]:
    end = f"ORDER BY id{db.lock if lock else ''}"
    return [run for where, some in _portions(ids) for run in read_runs(db, f"WHERE id {where} {end}", some)]


def held_runs(db: Database, holder: str, *, lock: bool) -> list[Run]:
    end = f"ORDER BY created, id{db.lock if lock else ''}"
    return read_runs(db, f"WHERE {_ACTIVE} AND holder = :holder {end}", {"holder": holder})


def lost_runs(
    db: Database, holder: str, now: datetime, limit: int, max_takeovers: int | None = None
) -> list[Run]:
    """
    Active runs without a valid lease; rows that another process has locked are skipped.

    And those whose lease was granted in the future: it is not known how long they are held.
    """
    free = "(holder IS NULL OR (holder <> :holder AND (leased <= :now OR granted > :now)))"
    more = "" if max_takeovers is None else " AND takeovers <> :most"
    values = {"holder": holder, "now": stamp(now), "most": max_takeovers, "limit": limit}
    return read_runs(
        db, f"WHERE {_ACTIVE} AND {free}{more} ORDER BY created, id LIMIT :limit{db.lock}", values
    )


def read_runs(db: Database, rest: str, values: Mapping[str, Any]) -> list[Run]:
    rows = db.rows(f"SELECT * FROM runs {rest}", values)
    db.codec.load_heads(db.connection, rows)
    return [read_run(row, db.codec) for row in rows]


def existing_runs(db: Database, ids: Sequence[str]) -> set[str]:
    return {
        row.id
        for where, some in _portions(ids)
        for row in db.rows(f"SELECT id FROM runs WHERE id {where}", some)
    }


def existing_documents(db: Database, names: Sequence[Name]) -> set[Name]:
    return {
        (row.tenant, row.kind, row.key)
        for where, some in _named(names)
        for row in db.rows(f"SELECT tenant, kind, key FROM documents WHERE {where}", some)
    }


def positions(db: Database, ids: Sequence[str]) -> dict[str, RunPosition]:
    return {
        row.id: RunPosition(row.events, row.status in CLOSED)
        for where, some in _portions(ids)
        for row in db.rows(f"SELECT id, events, status FROM runs WHERE id {where}", some)
    }


def list_events(db: Database, run: str, after: int, limit: int) -> list[Event]:
    statement = (
        "SELECT type, data, at, sequence FROM events WHERE run = :run AND sequence > :after"
        " ORDER BY sequence LIMIT :limit"
    )
    rows = db.rows(statement, {"run": run, "after": after, "limit": limit})
    return [Event(row.type, row.data, moment(row.at), row.sequence) for row in rows]


def list_chunk_infos(
    db: Database, run: str, kind: str, after: ChunkInfo | None, limit: int
) -> list[ChunkInfo]:
    values: Values = {"run": run, "kind": kind, "limit": limit}
    there = ""
    if after is not None:
        there, values = (
            " AND (key, first) > (:key, :first)",
            {**values, "key": after.key, "first": after.first},
        )
    rows = db.rows(
        f"SELECT key, first, last, size FROM evidence WHERE run = :run AND kind = :kind{there}"
        " ORDER BY key, first LIMIT :limit",
        values,
    )
    return [ChunkInfo(kind=kind, key=row.key, first=row.first, last=row.last, size=row.size) for row in rows]


def list_chunks(
    db: Database, run: str, kind: str, key: str, start: int, stop: int | None, limit: int
) -> list[EvidenceChunk]:
    values = {"run": run, "kind": kind, "key": key, "start": start, "stop": stop, "limit": limit}
    rows = db.rows(
        f"SELECT * FROM evidence WHERE {_HERE} AND last >= :start AND first >= coalesce("
        f"(SELECT max(first) FROM evidence WHERE {_HERE} AND first <= :start), 0)"
        f"{'' if stop is None else ' AND first < :stop'} ORDER BY first LIMIT :limit",
        values,
    )
    return [
        EvidenceChunk(kind=kind, key=key, first=row.first, last=row.last, data=data)
        for row, data in _opened(db, run, rows)
    ]


def list_contents(db: Database, run: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for where, some in _portions(keys):
        rows = db.rows(
            f"SELECT * FROM evidence WHERE run = :run AND kind = :kind AND key {where} ORDER BY first DESC",
            {"run": run, "kind": kind, **some},
        )
        found |= {row.key: data for row, data in _opened(db, run, rows)}
    return found


def _opened(db: Database, run: str, rows: Sequence[Any]) -> Iterator[tuple[Any, bytes]]:
    db.codec.load(db.connection, rows)
    for row in rows:
        yield row, db.codec.open(sealed_blob(row), "evidence", run, row.kind, row.key, row.first)


def find_documents(db: Database, names: Sequence[Name], *, lock: bool = False) -> list[Document]:
    end = f"ORDER BY tenant, kind, key{db.lock if lock else ''}"
    return [
        document for where, some in _named(names) for document in _documents(db, f"WHERE {where} {end}", some)
    ]


def list_documents(
    db: Database, tenant: str, kind: str, prefix: str, after: str, limit: int
) -> list[Document]:
    where, values = _under(tenant, kind, prefix)
    if after:
        where += " AND key > :after"
    return _documents(
        db, f"WHERE {where} ORDER BY key LIMIT :limit", {**values, "after": after, "limit": limit}
    )


def list_document_infos(
    db: Database, tenant: str, kind: str, prefix: str, after: str, limit: int
) -> list[DocumentInfo]:
    where, values = _under(tenant, kind, prefix)
    if after:
        where += " AND key > :after"
    rows = db.rows(
        f"SELECT key, length(data) AS size FROM documents WHERE {where} ORDER BY key LIMIT :limit",
        {**values, "after": after, "limit": limit},
    )
    return [DocumentInfo(row.key, row.size) for row in rows]


def measure_documents(db: Database, tenant: str, kind: str, prefix: str) -> tuple[int, int]:
    """The number of documents and the sum of their stored sizes."""
    where, values = _under(tenant, kind, prefix)
    (row,) = db.rows(
        f"SELECT count(*) AS many, coalesce(sum(length(data)), 0) AS size FROM documents WHERE {where}",
        values,
    )
    return int(row.many), int(row.size)


def _documents(db: Database, rest: str, values: Mapping[str, Any]) -> list[Document]:
    rows = db.rows(f"SELECT * FROM documents {rest}", values)
    db.codec.load(db.connection, rows)
    return [read_document(row, db.codec) for row in rows]


def count_documents(db: Database, required: RequireCount) -> int:
    """The number of documents that the precondition compares, or the sum of their versions."""
    where, values = _under(required.tenant, required.kind, required.prefix)
    number = "coalesce(sum(version), 0)" if required.versions else "count(*)"
    return int(db.rows(f"SELECT {number} AS many FROM documents WHERE {where}", values)[0].many)


def _under(tenant: str, kind: str, prefix: str) -> tuple[str, Values]:
    """The documents of a kind whose key has the prefix."""
    where, values = "tenant = :tenant AND kind = :kind", {"tenant": tenant, "kind": kind}
    if not prefix:
        return where, values
    where += " AND key >= :prefix AND substr(key, 1, :length) = :prefix"
    values |= {"prefix": prefix, "length": len(prefix)}
    last = ord(prefix[-1])
    if last < 0xD7FF:  # a simple upper bound, which only limits the scan
        where, values = f"{where} AND key < :past", {**values, "past": prefix[:-1] + chr(last + 1)}
    return where, values


def list_blocks(db: Database, run: str, start: int, limit: int, holding: str) -> list[CaseBlock]:
    outcomes = " OR ".join(f"{COUNTS[outcome]} > 0" for outcome in holding)
    rows = db.rows(
        "SELECT * FROM case_blocks WHERE run = :run AND last >= :start AND first >= coalesce("
        "(SELECT max(first) FROM case_blocks WHERE run = :run AND first <= :start), 0)"
        f"{f' AND ({outcomes})' if outcomes else ''} ORDER BY first LIMIT :limit",
        {"run": run, "start": start, "limit": limit},
    )
    return [CaseBlock(**{name: getattr(row, name) for name in _BLOCK}) for row in rows]


def sum_blocks(db: Database, ids: Sequence[str]) -> dict[str, CaseTotals]:
    sums = ", ".join(f"sum({name}) AS {name}" for name in SUMS)
    found: dict[str, CaseTotals] = {}
    for where, some in _portions(ids):
        for row in db.rows(f"SELECT run, {sums} FROM case_blocks WHERE run {where} GROUP BY run", some):
            counts = {name: int(getattr(row, name)) for name in SUMS if name != "spent"}
            found[row.run] = CaseTotals(**counts, spent=float(row.spent))
    return found


def one_of(names: Iterable[Any], prefix: str = "n") -> tuple[str, Values]:
    """The condition that a column has one of these values."""
    values = {f"{prefix}{at}": name for at, name in enumerate(names)}
    return f"IN ({', '.join(f':{name}' for name in values) or 'NULL'})", values


def _portions(names: Sequence[str]) -> Iterator[tuple[str, Values]]:
    return (one_of(names[at : at + MOST]) for at in range(0, len(names), MOST))


def _named(names: Sequence[Name]) -> Iterator[tuple[str, Values]]:
    for start in range(0, len(names), MOST):
        values: Values = {}
        rows: list[str] = []
        for at, name in enumerate(names[start : start + MOST]):
            row = dict(zip((f"t{at}", f"k{at}", f"n{at}"), name, strict=True))
            rows.append(f"({', '.join(f':{one}' for one in row)})")
            values |= row
        yield f"(tenant, kind, key) IN (VALUES {', '.join(rows)})", values
