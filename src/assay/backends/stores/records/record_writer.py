"""Writes transactions, leases and audit entries, for both forms of the SQL store, inside a transaction."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from assay.backends.stores.records import lease_fencing, queries
from assay.backends.stores.records import sqlite_statements as statements
from assay.backends.stores.records import transactions as rules
from assay.backends.stores.records.queries import Database, Values
from assay.backends.stores.records.record_rows import (
    Row,
    block_row,
    document_values,
    event_row,
    head_row,
    line_row,
    name_columns,
    piece_row,
    run_changes,
    run_row,
)
from assay.errors import StoreLocked
from assay.ports import Document, Run, RunStatus, Transaction
from assay.ports.audit import AuditEntry, LaneHead
from assay.ports.audit_chain import START, next_head, next_record

MAX_LANES = 10_000  # open lanes, one per tenant
_LOCK_LOG = "SELECT pg_advisory_xact_lock(hashtextextended(:tenant, 7))"
_HEAD = "SELECT lane, root FROM audit_heads WHERE tenant = :tenant"
_LAST_HEAD = "ORDER BY lane DESC LIMIT 1"
# SQLite accepts any type in any column.
_TYPES = (
    "AND typeof(tenant) = 'text' AND typeof(lane) = 'integer' AND typeof(lines) = 'integer'"
    " AND typeof(digest) = 'blob' AND typeof(root) = 'blob'"
)

# By tenant, with the time of the last line: times never decrease in a lane.
Lanes = dict[str, tuple[LaneHead, datetime]]


class RecordWriter:
    """
    It has the lanes of one process in the audit log: call `forget` before a commit, and `keep` after it.

    An entry needs no read and no lock, except when a lane begins.
    """

    def __init__(self) -> None:
        self._lanes: Lanes = {}

    def write(
        self, db: Database, batches: Sequence[Transaction], now: datetime
    ) -> tuple[list[rules.Outcome], Lanes]:
        """Write transactions, each as a whole or not at all, with their audit entries."""
        run_names, document_names = rules.names(batches)
        runs = {run.id: run for run in queries.find_runs(db, run_names, lock=True)}
        documents = {
            (document.tenant, document.kind, document.key): document
            for document in queries.find_documents(db, document_names, lock=True)
        }
        old_runs, old_documents = set(runs), set(documents)
        locked = _locked_names(db, batches, runs, documents) if db.postgres else {}
        counts = {one: queries.count_documents(db, one) for one in rules.required_counts(batches)}
        outcomes = rules.apply_all(batches, runs, documents, now, locked, counts)
        done = [outcome for outcome in outcomes if isinstance(outcome, rules.Changes)]
        tenants = {run.tenant for one in done for run in one.runs.values()}
        tenants |= {tenant for one in done for tenant, _, _ in one.documents}
        db.codec.prepare(db.connection, tenants, now)
        _put_runs(db, {id: runs[id] for one in done for id in one.runs}, old_runs)
        db.insert("events", [event_row(*added) for one in done for added in one.events])
        pieces = [
            piece_row(runs[run].tenant, run, piece, db.codec) for one in done for run, piece in one.pieces
        ]
        db.insert("evidence", pieces)
        db.insert("case_blocks", [block_row(*added) for one in done for added in one.blocks])
        _put_documents(
            db, {name: documents.get(name) for one in done for name in one.documents}, old_documents
        )
        return outcomes, self.add_lines(db, [line for one in done for line in one.lines], now)

    def add_lines(self, db: Database, lines: Iterable[AuditEntry], now: datetime) -> Lanes:
        """Append lines to the lanes of this process; return their new ends."""
        lanes: Lanes = {}
        rows: list[Row] = []
        for line in lines:
            held = lanes.get(line.tenant) or self._lanes.get(line.tenant)
            head, last = held or (_new_lane(db, line.tenant), now)
            written = next_record(head, max(now, last), line)
            rows.append(line_row(written))
            lanes[line.tenant] = next_head(head, written), written.at
        db.insert("audit", rows)
        db.insert("audit_heads", [head_row(head) for head, _ in lanes.values()])
        return lanes

    def keep(self, lanes: Lanes) -> None:
        if len(self._lanes) > MAX_LANES:
            self._lanes.clear()
        self._lanes.update(lanes)

    def forget(self, lanes: Lanes) -> None:
        for tenant in lanes:
            self._lanes.pop(tenant, None)


def _new_lane(db: Database, tenant: str) -> LaneHead:
    """A new lane, chained to the first line of the lane before."""
    if db.postgres:
        db.rows(_LOCK_LOG, {"tenant": tenant})
    heads = db.rows(f"{_HEAD} {'' if db.postgres else _TYPES} {_LAST_HEAD}", {"tenant": tenant})
    lane, before = (heads[0].lane + 1, heads[0].root) if heads else (0, START)
    return LaneHead(tenant=tenant, lane=lane, lines=0, digest=before, root=b"")


def _put_runs(db: Database, changed: Mapping[str, Run], old: set[str]) -> None:
    db.insert("runs", [run_row(run, db.codec) for id, run in changed.items() if id not in old])
    renewed = [run for id, run in changed.items() if id in old]
    db.change(statements.UPDATE_RUN, [run_changes(run, db.codec) for run in renewed])
    db.change(statements.REMOVE_NAME, [{"b_id": run.id} for run in renewed if run.erased and not run.name])


def _put_documents(db: Database, changed: Mapping[rules.Name, Document | None], old: set[rules.Name]) -> None:
    gone = [name_columns(name) for name, document in changed.items() if document is None and name in old]
    db.change(statements.DELETE_DOCUMENT, gone)
    made: list[Row] = []
    renewed: list[Values] = []
    for name, document in changed.items():
        if document is not None and name in old:
            renewed.append(name_columns(name) | document_values(document, db.codec))
        elif document is not None:
            made.append((*name, *document_values(document, db.codec).values()))
    db.change(statements.UPDATE_DOCUMENT, renewed)
    db.insert("documents", made)


def _locked_names(
    db: Database,
    batches: Sequence[Transaction],
    runs: Mapping[str, Run],
    documents: Mapping[rules.Name, Document],
) -> dict[str | rules.Name, str]:
    """Rows that exist and are locked by another process, with their descriptions."""
    named = {entry.run for batch in batches for entry in batch.entries if not entry.opens}
    absent = (named | rules.required_runs(batches)) - runs.keys()
    absent -= {entry.run for batch in batches for entry in batch.entries if entry.opens}
    changes = (change for batch in batches for change in batch.documents if change.version != 0)
    missing = {rules.name_of(change) for change in changes} - documents.keys()
    found: dict[str | rules.Name, str] = {id: f"run {id}" for id in queries.existing_runs(db, sorted(absent))}
    there = queries.existing_documents(db, sorted(missing))
    return found | {name: f"{name[1]} {name[2]!r}" for name in there}


# Leases


def claim(db: Database, run: str, holder: str, now: datetime, seconds: float) -> Run | None:
    claimed = claim_all(db, queries.find_runs(db, [run], lock=True), holder, now, seconds)
    return claimed[0] if claimed else None


def claim_all(db: Database, runs: Sequence[Run], holder: str, now: datetime, seconds: float) -> list[Run]:
    """Take the leases of the free runs."""
    anchored, claimed = lease_fencing.claim_leases(runs, holder, now, seconds)
    hold(db, [*anchored, *claimed], now)
    return claimed


def renew(db: Database, holder: str, now: datetime, seconds: float) -> dict[str, RunStatus]:
    held = queries.held_runs(db, holder, lock=True)
    hold(db, [lease_fencing.take_lease(run, holder, now, seconds) for run in held], now)
    # with a lock of rows, also those that are being written
    ours = [*held, *(queries.held_runs(db, holder, lock=False) if db.postgres else ())]
    return {run.id: run.status for run in ours}


def release(db: Database, run: str, holder: str, now: datetime) -> None:
    found = _locked_run(db, run)
    hold(db, [lease_fencing.release_lease(one) for one in found if one.holder == holder], now)


def forgive(db: Database, run: str, holder: str, now: datetime) -> None:
    found = [lease_fencing.forgive_takeover(one, holder) for one in _locked_run(db, run)]
    hold(db, [one for one in found if one is not None], now)


def _locked_run(db: Database, run: str) -> list[Run]:
    """The run, if there is one. A run that another process writes is not skipped: this one tries again."""
    found = queries.find_runs(db, [run], lock=True)
    if not found and db.postgres and queries.existing_runs(db, [run]):
        raise StoreLocked(f"run {run}")
    return found


def hold(db: Database, runs: Sequence[Run], now: datetime) -> None:
    """Write the leases of these runs."""
    db.codec.prepare(db.connection, {run.tenant for run in runs}, now)
    db.change(statements.UPDATE_RUN, [run_changes(run, db.codec) for run in runs])
