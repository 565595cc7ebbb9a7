"""Rows of the database as the records of the port. Times are microseconds since 1970. It needs no SQLAlchemy."""

from datetime import UTC, datetime, timedelta
from typing import Any

from assay.backends.stores.records.codec import EncodedBlob, RecordCodec
from assay.backends.stores.records.transactions import Name
from assay.ports import CaseBlock, Document, Event, EvidenceChunk, Run, RunFacts
from assay.ports.audit import AuditRecord, LaneHead
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED

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
    # SQLite has the type of each value: a statement of another program may have written a text
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    return EncodedBlob(row.coding, row.key_id, data)


# Records of the port as rows of the database, for both forms of the SQL store. It needs no SQLAlchemy.

COUNTS = {  # columns of blocks of cases
    PASSED: "passed",
    FAILED: "failed",
    UNGRADED: "ungraded",
    ERROR: "error",
    SKIPPED: "skipped",
}
Row = tuple[Any, ...]  # values in the order of their table's columns


def run_row(run: Run, codec: RecordCodec) -> Row:
    name, head = codec.seal_run(run)
    return (
        run.id,
        run.tenant,
        run.kind,
        run.status,
        name,
        head,
        stamp(run.created),
        run.started and stamp(run.started),
        run.ended and stamp(run.ended),
        run.events,
        run.holder,
        run.leased and stamp(run.leased),
        run.granted and stamp(run.granted),
        run.takeovers,
        run.facts.score,
        run.facts.cost,
        integer(run.facts.passed),
    )


def run_changes(run: Run, codec: RecordCodec) -> dict[str, Any]:
    """The parameters of the statement that updates a run."""
    return {
        "b_id": run.id,
        "status": run.status,
        "head": codec.seal_run(run)[1],
        "started": run.started and stamp(run.started),
        "ended": run.ended and stamp(run.ended),
        "events": run.events,
        "holder": run.holder,
        "leased": run.leased and stamp(run.leased),
        "granted": run.granted and stamp(run.granted),
        "takeovers": run.takeovers,
        **facts_columns(run.facts),
    }


def piece_row(tenant: str, run: str, piece: EvidenceChunk, codec: RecordCodec) -> Row:
    data = piece.data
    place = "evidence", run, piece.kind, piece.key, piece.first
    sealed = codec.seal(data, *place, tenant=tenant)
    return run, piece.kind, piece.key, piece.first, piece.last, len(data), *sealed


def document_values(document: Document, codec: RecordCodec) -> dict[str, Any]:
    place = "documents", document.tenant, document.kind, document.key
    sealed = codec.seal(document.data, *place, tenant=document.tenant)
    return {"version": document.version, "updated": stamp(document.updated), **sealed._asdict()}


def event_row(run: str, sequence: int, event: Event) -> Row:
    return run, sequence, event.type, stamp(event.at), event.data


def name_columns(name: Name) -> dict[str, Any]:
    tenant, kind, key = name
    return {"b_tenant": tenant, "b_kind": kind, "b_key": key}


def line_row(line: AuditRecord) -> Row:
    return line.tenant, stamp(line.at), line.lane, line.number, line.data, line.digest


def head_row(head: LaneHead) -> Row:
    return head.tenant, head.lane, head.lines, head.digest, head.root


def block_row(run: str, block: CaseBlock) -> tuple[Any, ...]:
    return (
        run,
        block.first,
        block.last,
        block.passed,
        block.failed,
        block.ungraded,
        block.error,
        block.skipped,
        block.spent,
        block.unknown,
        block.sequence,
        block.data,
    )


def facts_columns(facts: RunFacts) -> dict[str, Any]:
    return {"score": facts.score, "cost": facts.cost, "passed": integer(facts.passed)}


def integer(value: bool | None) -> int | None:
    """A truth value as a number, which both databases store alike."""
    return None if value is None else int(value)
