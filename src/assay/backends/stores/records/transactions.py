"""Applies a transaction to runs and documents. Pure functions that all stores share."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import msgspec

from assay.backends.stores.records.lease_fencing import fence, most_losses
from assay.errors import Conflict, InvalidRequest, Problem, StoreLocked
from assay.ports import (
    ACTIVE,
    ANY_UNIT,
    CLOSED,
    ERASED,
    EXECUTING,
    LOSSES,
    CaseBlock,
    CreateRun,
    DeleteDocument,
    Document,
    Event,
    EvidenceChunk,
    PutDocument,
    RequireCount,
    RequireRun,
    Run,
    RunUpdate,
    Transaction,
)
from assay.ports.audit import AuditEntry
from assay.ports.telemetry import telemetry

Name = tuple[str, str, str]  # tenant, kind, key

MAX_NAME_BYTES = 512  # an index entry has several names, and PostgreSQL allows 2,700 bytes


class Changes(msgspec.Struct):
    """The rows to write: new states of runs and documents (None: deleted), and added events and chunks."""

    runs: dict[str, Run] = {}
    documents: dict[Name, Document | None] = {}
    events: list[tuple[str, int, Event]] = []  # with the sequence of each
    pieces: list[tuple[str, EvidenceChunk]] = []
    blocks: list[tuple[str, CaseBlock]] = []
    ends: list[int] = []
    lines: Sequence[AuditEntry] = ()

    def merge_into(self, runs: dict[str, Run], documents: dict[Name, Document]) -> None:
        """Apply the changes to these tables."""
        runs.update(self.runs)
        for name, document in self.documents.items():
            if document is None:
                documents.pop(name, None)
            else:
                documents[name] = document


Outcome = Changes | Conflict | StoreLocked


def apply(
    batch: Transaction,
    runs: Mapping[str, Run],
    documents: Mapping[Name, Document],
    now: datetime,
    counts: Mapping[RequireCount, int] = MappingProxyType({}),
) -> Changes:
    """
    Compute the changes of a transaction from the current runs and documents it names. It may raise Conflict.

    `counts` has the present number of documents for each RequireCount.
    """
    for requirement in batch.requires:
        if isinstance(requirement, RequireRun):
            _check_run(requirement, runs.get(requirement.run))
        elif counts[requirement] != requirement.count:
            message = f"expected {requirement.count}, got {counts[requirement]}"
            raise Conflict("required", f"{requirement.kind} {requirement.prefix!r}", message)
    out = Changes(lines=batch.lines)
    for entry in batch.entries:
        there = out.runs.get(entry.run) or runs.get(entry.run)
        if entry.erases:
            out.runs[entry.run] = run = _erase_run(entry, there, now)
            out.ends.append(run.events)
            continue
        run = _create(entry, entry.opens, there, now) if entry.opens else _check_admission(entry, there)
        out.events += [(run.id, sequence, event) for sequence, event in enumerate(entry.events, run.events)]
        out.pieces += [(run.id, piece) for piece in entry.evidence]
        for block in entry.cases:
            out.blocks.append((run.id, msgspec.structs.replace(block, sequence=run.events)))
        out.runs[run.id] = run = _advance(run, entry, now)
        out.ends.append(run.events)
    for change in batch.documents:
        name = name_of(change)
        before = out.documents[name] if name in out.documents else documents.get(name)
        out.documents[name] = _apply_change(change, before, now)
    return out


def apply_all(
    batches: Iterable[Transaction],
    runs: dict[str, Run],
    documents: dict[Name, Document],
    now: datetime,
    locked: Mapping[str | Name, str] = MappingProxyType({}),
    counts: Mapping[RequireCount, int] = MappingProxyType({}),
) -> list[Outcome]:
    """Apply the transactions in order. `runs` and `documents` are updated to the state after all of them."""
    outcomes: list[Outcome] = []
    for batch in batches:
        if locked and (what := _locked_name(locked, batch)) is not None:
            outcomes.append(StoreLocked(what))
            continue
        try:
            one = apply(batch, runs, documents, now, counts)
        except Conflict as conflict:
            outcomes.append(conflict)
        else:
            one.merge_into(runs, documents)
            outcomes.append(one)
    return outcomes


def _locked_name(locked: Mapping[str | Name, str], batch: Transaction) -> str | None:
    """The rows that another process has locked."""
    runs, documents = names([batch])
    return next((locked[name] for name in (*runs, *documents) if name in locked), None)


def names(batches: Iterable[Transaction]) -> tuple[list[str], list[Name]]:
    """The runs and documents of some transactions, sorted, so that all processes lock them in the same order."""
    batches = list(batches)
    # among several, a created run is assumed to be new; if it is not, each transaction is retried alone
    alone = len(batches) == 1
    changed = {entry.run for batch in batches for entry in batch.entries if alone or not entry.opens}
    return (
        sorted(changed | required_runs(batches)),
        sorted({name_of(change) for batch in batches for change in batch.documents}),
    )


def required_runs(batches: Iterable[Transaction]) -> set[str]:
    """The runs that preconditions name."""
    return {one.run for batch in batches for one in batch.requires if isinstance(one, RequireRun)}


def required_counts(batches: Iterable[Transaction]) -> set[RequireCount]:
    """The preconditions on numbers of documents."""
    return {one for batch in batches for one in batch.requires if isinstance(one, RequireCount)}


def name_of(change: PutDocument | DeleteDocument) -> Name:
    return change.tenant, change.kind, change.key


def check(batch: Transaction) -> None:
    """Refuse names that a database cannot store."""
    names = _names(batch)
    text = "".join(names)  # a quick test: most names are short ASCII
    short = len(text) <= MAX_NAME_BYTES or max(map(len, names)) <= MAX_NAME_BYTES
    plain = short and text.isascii() and "\0" not in text
    problems: list[Problem] = [] if plain else [problem for name in names for problem in _bad_name(name)]
    problems += [
        Problem(piece.kind, f"expected first to last, got {piece.first} to {piece.last}")
        for entry in batch.entries
        for piece in entry.evidence
        if not 0 <= piece.first <= piece.last
    ]
    problems += [
        Problem("cases", f"expected first to last, got {block.first} to {block.last}")
        for entry in batch.entries
        for block in entry.cases
        if not 0 <= block.first <= block.last
    ]
    if problems:
        raise InvalidRequest(problems)


def _names(batch: Transaction) -> list[str]:
    """All names in a transaction."""
    found: list[str] = []
    for entry in batch.entries:
        found += (entry.run, entry.holder or "")
        if opens := entry.opens:
            found += (opens.tenant, opens.kind, opens.name)
        found += [event.type for event in entry.events]
        for piece in entry.evidence:
            found += (piece.kind, piece.key)
    for change in batch.documents:
        found += name_of(change)
    for requirement in batch.requires:
        names = (requirement.run,) if isinstance(requirement, RequireRun) else (requirement.prefix,)
        found += names
    for line in batch.lines:
        found += (line.tenant, line.who, line.action, line.what, line.outcome, line.request)
    return found


def _bad_name(name: str) -> list[Problem]:
    if name.isascii() and "\0" not in name and len(name) <= MAX_NAME_BYTES:
        return []
    try:
        long = len(name.encode()) > MAX_NAME_BYTES
    except UnicodeEncodeError:
        return [Problem("", f"expected a name that is Unicode text, got {name[:40]!r}")]
    if long:
        return [Problem("", f"expected a name of at most {MAX_NAME_BYTES} bytes, got {name[:40]!r}…")]
    return [Problem("", f"expected a name without NUL, got {name[:40]!r}")] if "\0" in name else []


def _check_run(requirement: RequireRun, run: Run | None) -> None:
    if run is None:
        raise Conflict("required", f"run {requirement.run}", "there is no such run")
    if run.erased or (run.status, run.events) != (requirement.status, requirement.events):
        raise Conflict("required", f"run {requirement.run}", "it was changed or erased")


def _create(entry: RunUpdate, creation: CreateRun, existing: Run | None, now: datetime) -> Run:
    if existing is not None:
        raise Conflict("exists", f"run {entry.run}", "a run of that id exists already")
    if entry.expected:
        raise Conflict("sequence", f"run {entry.run}", f"its next event is 0, not {entry.expected}")
    leased = now + timedelta(seconds=creation.seconds) if creation.holder else None
    return Run(
        id=entry.run, tenant=creation.tenant, kind=creation.kind, name=creation.name, created=now,
        holder=creation.holder, leased=leased, granted=now if creation.holder else None,
    )  # fmt: skip


def _erase_run(entry: RunUpdate, run: Run | None, now: datetime) -> Run:
    place = f"run {entry.run}"
    if run is None:
        raise Conflict("missing", place, "there is no such run")
    if run.status not in CLOSED:
        raise Conflict("status", place, f"it is {run.status}: only a run that has ended can be erased")
    if run.erased and entry.renames is None:
        return run
    moment = run.erased or now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    merged = run.metadata | (entry.metadata or {}) | {ERASED: moment}
    metadata = {name: value for name, value in merged.items() if value is not None}
    name = run.name if entry.renames is None else entry.renames
    return msgspec.structs.replace(run, name=name, metadata=metadata)


def _check_admission(entry: RunUpdate, run: Run | None) -> Run:
    place = f"run {entry.run}"
    if run is None:
        raise Conflict("missing", place, "there is no such run")
    if run.status in CLOSED:
        raise Conflict("closed", place, f"it is {run.status}, which is final")
    if entry.holder is not None:
        fence(run, entry.holder)
    if entry.when is not None and run.status not in entry.when:
        raise Conflict("status", place, f"it is {run.status}, not {' or '.join(sorted(entry.when))}")
    if entry.expected is not None and entry.expected != run.events:
        raise Conflict("sequence", place, f"its next event is {run.events}, not {entry.expected}")
    return run


def _advance(run: Run, entry: RunUpdate, now: datetime) -> Run:
    status = entry.status or run.status
    held = status in ACTIVE
    metadata = _metadata(run, entry, held=held)
    takeovers = min(run.takeovers, most_losses(metadata.get(LOSSES, {}))) if held else run.takeovers
    return msgspec.structs.replace(
        run,
        status=status,
        metadata=metadata,
        started=now if run.started is None and status not in ("pending", "cancelled") else run.started,
        ended=now if status in CLOSED else None,
        events=run.events + len(entry.events),
        holder=run.holder if held else None,
        leased=run.leased if held else None,
        granted=run.granted if held else None,
        takeovers=0 if held and entry.holder and entry.events else takeovers,
        facts=run.facts if entry.facts is None else entry.facts,
    )


def _metadata(run: Run, entry: RunUpdate, *, held: bool) -> dict[str, Any]:
    """
    The metadata after an update. Only an active run has executed units and losses. A unit that has ended did not end
    its process, so its losses are gone; a death of unknown units counts until an event.
    """
    metadata = run.metadata if entry.metadata is None else entry.metadata
    executing = run.metadata.get(EXECUTING) if entry.executing is None else list(entry.executing)
    losses: dict[str, list[str]] | None = run.metadata.get(LOSSES)
    if executing is None and losses is None:
        return metadata
    kept = {name: value for name, value in metadata.items() if name not in (EXECUTING, LOSSES)}
    if held and executing is not None:
        kept[EXECUTING] = executing
    if held and losses is not None:
        ended = {*run.metadata.get(EXECUTING, ())}.difference(executing or ())
        if entry.holder and entry.events:
            ended.add(ANY_UNIT)
        kept[LOSSES] = {unit: lost for unit, lost in losses.items() if unit not in ended}
    return kept


def _apply_change(
    change: PutDocument | DeleteDocument, existing: Document | None, now: datetime
) -> Document | None:
    version = existing.version if existing else 0
    if change.version is not None and change.version != version:
        place = f"{change.kind} {change.key!r}"
        if change.version == 0:
            raise Conflict("exists", place, f"it exists already, at version {version}")
        if existing is None:
            raise Conflict("missing", place, f"expected version {change.version}, but it does not exist")
        raise Conflict("version", place, f"it is at version {version}, not {change.version}")
    if isinstance(change, DeleteDocument):
        return None
    return Document(
        tenant=change.tenant, kind=change.kind, key=change.key, version=version + 1, data=change.data, updated=now
    )  # fmt: skip


# The metrics of a commit.


def count_commit(changes: Changes, seconds: float) -> None:
    if not telemetry.on:
        return
    telemetry.observe("assay_commit_seconds", seconds)
    if changes.events:
        telemetry.add("assay_events", len(changes.events))
    for run in changes.runs.values():
        if run.status in CLOSED:
            telemetry.add("assay_runs", 1, run.kind, run.status)
