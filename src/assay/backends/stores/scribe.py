"""Writes: many batches in one transaction, each of them whole or not at all."""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, delete, select, text, tuple_, update

from assay.backends.stores import queries, rules
from assay.backends.stores.chain import Chain, Lanes, head_row, line_row
from assay.backends.stores.failpoints import Reach
from assay.backends.stores.insertion import Insertion, Row
from assay.backends.stores.seal import Vault
from assay.backends.stores.tables import audit, audit_heads, documents, events, evidence, moment, runs, stamp
from assay.errors import Broken, Conflict
from assay.ports import Batch, Clock, Document, Event, Piece, Run

Outcome = rules.Settled | Conflict

_CHANGING = ("status", "head", "started", "ended", "events", "holder", "leased")
_UPDATE_RUN = update(runs).where(runs.c.id == bindparam("b_id")).values({c: bindparam(c) for c in _CHANGING})
_NAMED = (
    documents.c.tenant == bindparam("b_tenant"),
    documents.c.kind == bindparam("b_kind"),
    documents.c.key == bindparam("b_key"),
)
_UPDATE_DOCUMENT = (
    update(documents)
    .where(*_NAMED)
    .values({c: bindparam(c) for c in ("version", "updated", "coding", "key_id", "data")})
)
_DELETE_DOCUMENT = delete(documents).where(*_NAMED)

# PostgreSQL's clock, so that leases mean the same on every machine; and the name of the transaction, to ask after it
_BEGUN = text(
    "SELECT pg_current_xact_id()::text AS id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now"
)
_ENDED = text("SELECT pg_xact_status(CAST(:id AS xid8))")


class Doubt:
    """What was about to be committed when the database went away: it may have arrived."""

    transaction: str | None = None
    outcomes: list[Outcome]


class Scribe:
    def __init__(self, engine: Engine, vault: Vault, clock: Clock, reach: Reach) -> None:
        self._engine, self._vault, self._clock, self._reach = engine, vault, clock, reach
        self._postgres = engine.dialect.name == "postgresql"
        self._chain = Chain()
        self._insert = {
            table: Insertion(table, engine.dialect, renews=table is audit_heads)
            for table in (runs, events, evidence, documents, audit, audit_heads)
        }

    def write(self, batches: Sequence[Batch], doubt: Doubt) -> list[Outcome]:
        """What became of each batch, durably. Called again with its doubt, it does not write what did arrive."""
        with self._engine.connect().execution_options(writes=True) as connection:
            if doubt.transaction is not None and self._arrived(connection, doubt.transaction):
                return doubt.outcomes
            doubt.transaction = None
            with connection.begin():
                transaction, now = self.begun(connection)
                outcomes = self._write(connection, batches, now)
                lanes = self._audit(connection, outcomes, now)
                self._reach("commit.written")
                doubt.transaction, doubt.outcomes = transaction, outcomes
                self._chain.forget(lanes)  # if it is not known what became of them, others begin
            self._chain.keep(lanes)
            self._reach("commit.after")
            doubt.transaction = None
            return outcomes

    def begun(self, connection: Connection) -> tuple[str | None, datetime]:
        """The name of this transaction, where it has one, and the time."""
        if not self._postgres:
            return None, self._clock.now()
        row = connection.execute(_BEGUN).one()
        return row.id, moment(row.now)

    def erase(self, connection: Connection, run: str, kind: str | None, limit: int) -> int:
        where = [evidence.c.run == run] + ([] if kind is None else [evidence.c.kind == kind])
        place = evidence.c.run, evidence.c.kind, evidence.c.key, evidence.c.first
        some = select(*place).where(*where).order_by(*place).limit(limit)
        return connection.execute(delete(evidence).where(tuple_(*place).in_(some))).rowcount

    def sweep(self, connection: Connection, kind: str, before: datetime, limit: int) -> int:
        name = documents.c.tenant, documents.c.kind, documents.c.key
        old = select(*name).where(documents.c.kind == kind, documents.c.updated < stamp(before))
        return connection.execute(delete(documents).where(tuple_(*name).in_(old.limit(limit)))).rowcount

    def hold(self, connection: Connection, held: Iterable[Run]) -> None:
        """Write who holds some runs."""
        self._many(connection, _UPDATE_RUN, [self._changed_run(run) for run in held])

    def _arrived(self, connection: Connection, transaction: str) -> bool:
        for _ in range(100):
            with connection.begin():
                state = connection.execute(_ENDED, {"id": transaction}).scalar()
            if state != "in progress":
                return state == "committed"
            time.sleep(0.05)  # its server process has not noticed yet that we are gone
        raise Broken("the database went away during a commit, and does not say what became of it")

    def _write(self, connection: Connection, batches: Sequence[Batch], now: datetime) -> list[Outcome]:
        run_names, document_names = rules.names(batches)
        known = {run.id: run for run in queries.find_runs(connection, self._vault, run_names, lock=True)}
        kept = {
            (document.tenant, document.kind, document.key): document
            for document in queries.find_documents(connection, self._vault, document_names, lock=True)
        }
        old_runs, old_documents = set(known), set(kept)
        outcomes: list[Outcome] = []
        for batch in batches:
            try:
                settled = rules.settle(batch, known, kept, now)
            except Conflict as conflict:
                outcomes.append(conflict)
            else:
                settled.onto(known, kept)
                outcomes.append(settled)
        done = [outcome for outcome in outcomes if isinstance(outcome, rules.Settled)]
        self._put_runs(connection, {id: known[id] for settled in done for id in settled.runs}, old_runs)
        happened = [_event(*added) for settled in done for added in settled.events]
        self._insert[events].add(connection, happened)
        found = [self._piece(*added) for settled in done for added in settled.pieces]
        self._insert[evidence].add(connection, found)
        changed = {name: kept.get(name) for settled in done for name in settled.documents}
        self._put_documents(connection, changed, old_documents)
        return outcomes

    def _audit(self, connection: Connection, outcomes: Sequence[Outcome], now: datetime) -> Lanes:
        """What was done, by whom: in the transaction in which it was done."""
        lines = [line for one in outcomes if isinstance(one, rules.Settled) for line in one.lines]
        if not lines:
            return {}
        lanes, written = self._chain.add(connection, lines, now)
        self._insert[audit].add_named(connection, [line_row(line) for line in written])
        self._insert[audit_heads].add_named(connection, [head_row(head) for head, _ in lanes.values()])
        return lanes

    def _put_runs(self, connection: Connection, changed: dict[str, Run], old: set[str]) -> None:
        made = [self._new_run(run) for id, run in changed.items() if id not in old]
        self._insert[runs].add(connection, made)
        renewed = [self._changed_run(run) for id, run in changed.items() if id in old]
        self._many(connection, _UPDATE_RUN, renewed)

    def _put_documents(
        self, connection: Connection, changed: dict[rules.Name, Document | None], old: set[rules.Name]
    ) -> None:
        gone = [_named(name) for name, document in changed.items() if document is None and name in old]
        self._many(connection, _DELETE_DOCUMENT, gone)
        made: list[Row] = []
        renewed: list[dict[str, Any]] = []
        for name, document in changed.items():
            if document is not None and name in old:
                renewed.append(_named(name) | self._document(document))
            elif document is not None:
                made.append((*name, *self._document(document).values()))
        self._many(connection, _UPDATE_DOCUMENT, renewed)
        self._insert[documents].add(connection, made)

    def _many(self, connection: Connection, statement: Any, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            connection.execute(statement, rows)

    def _new_run(self, run: Run) -> Row:
        name, head = self._vault.seal_run(run)
        status, head, *rest = _state(run, head).values()
        return run.id, run.tenant, run.kind, status, name, head, stamp(run.created), *rest

    def _changed_run(self, run: Run) -> dict[str, Any]:
        return {"b_id": run.id} | _state(run, self._vault.seal_run(run)[1])

    def _piece(self, run: str, piece: Piece) -> Row:
        sealed = self._vault.seal(piece.data, "evidence", run, piece.kind, piece.key, piece.first)
        return run, piece.kind, piece.key, piece.first, piece.last, len(piece.data), *sealed

    def _document(self, document: Document) -> dict[str, Any]:
        sealed = self._vault.seal(document.data, "documents", document.tenant, document.kind, document.key)
        return {"version": document.version, "updated": stamp(document.updated), **sealed._asdict()}


def _event(run: str, event: Event) -> Row:
    return run, event.sequence, event.type, stamp(event.at), event.data


def _state(run: Run, head: bytes) -> dict[str, Any]:
    return {
        "status": run.status,
        "head": head,
        "started": run.started and stamp(run.started),
        "ended": run.ended and stamp(run.ended),
        "events": run.events,
        "holder": run.holder,
        "leased": run.leased and stamp(run.leased),
    }


def _named(name: rules.Name) -> dict[str, Any]:
    tenant, kind, key = name
    return {"b_tenant": tenant, "b_kind": kind, "b_key": key}
