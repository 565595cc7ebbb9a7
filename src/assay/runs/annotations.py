"""
Annotations of a run (openwop-contract §9.2). They are stored apart from its log.

A correction of an `eval.scored` event gives an *effective* score in the report. The recorded score does not change.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.concurrency.threads import json_size, off_loop
from assay.errors import InvalidRequest, Problem
from assay.ports import Document, PutDocument, Run, Store, Transaction
from assay.ports.audit import audit_entry as audited
from assay.protocol.annotations import (
    Actor,
    Annotation,
    AnnotationCreate,
    ScoreCorrection,
    Signal,
    Target,
)
from assay.protocol.event_record import decode_event
from assay.runs.log_reader import read_documents, read_events

KIND = "annotation"
AGAIN = 100
_read = msgspec.json.Decoder(Annotation).decode
_correction = msgspec.json.Decoder(ScoreCorrection).decode
Redact = Callable[[str], str]


async def annotate(
    store: Store,
    run: Run,
    create: AnnotationCreate,
    principal: str,
    now: datetime,
    redact: Redact,
    documents: Callable[[Annotation], Sequence[PutDocument]] = lambda _: (),
) -> Annotation:
    """
    Store an annotation of an active or ended run. Text that looks like a secret is removed.

    `documents` gives what is written in the same transaction.
    """
    if (member := create.signal.missing_member) is not None:
        raise InvalidRequest(
            Problem(f"signal.{member}", f"a signal of kind {create.signal.kind!r} needs this member")
        )
    anchor = UNSET if create.target is UNSET else create.target
    event = UNSET if anchor is UNSET else anchor.event_id
    if event is not UNSET:
        type = await _type_of(store, run, event)
        if type is None:
            raise InvalidRequest(Problem("target.eventId", f"run {run.id} has no event {event!r}"))
        corrects = type == "eval.scored" and create.signal.kind == "correction"
        if corrects and parse_correction(str(create.signal.correction)).check is not UNSET:
            raise _no_correction("a task has one score: expected no check")
    annotation = Annotation(
        annotation_id=f"ann-{now:%Y%m%d%H%M%S%f}-{secrets.token_hex(4)}",
        target=Target(run_id=run.id, event_id=event, node_id=UNSET if anchor is UNSET else anchor.node_id),
        signal=await off_loop(json_size(create.signal), lambda: _redacted(create.signal, redact)),
        actor=Actor(principal_ref=principal),
        created_at=now,
        note=UNSET if (note := create.note) is UNSET else await off_loop(len(note), lambda: redact(note)),
    )
    put = PutDocument(
        tenant=run.tenant, kind=KIND, key=_key(run, annotation), data=msgspec.json.encode(annotation)
    )
    lines = [audited(run.tenant, "run.annotate", run.id)]
    await store.commit(Transaction(documents=[put, *documents(annotation)], lines=lines))
    return annotation


async def annotations(store: Store, run: Run) -> list[Annotation]:
    """The annotations of a run, oldest first."""
    documents = read_documents(store, run.tenant, KIND, prefix=f"{run.id}/")
    return [_read(document.data) async for document in documents]


class AnnotationCursor:
    """Reads the annotations that are new since the last call, in the order of the writers' clocks."""

    def __init__(self, store: Store, run: Run) -> None:
        self._store, self._run = store, run
        self._keys: list[str] = []

    async def news(self) -> list[Document]:
        """The new ones; on the first call, all. The last hundred are looked at again: clocks may be behind."""
        after = self._keys[-AGAIN - 1] if len(self._keys) > AGAIN else ""
        documents = read_documents(
            self._store, self._run.tenant, KIND, prefix=f"{self._run.id}/", after=after
        )
        new = [document async for document in documents if document.key not in self._keys]
        self._keys = sorted({*self._keys, *(document.key for document in new)})[-2 * AGAIN :]
        return new


def parse_correction(text: str) -> ScoreCorrection:
    """Parse `{"score": 1, "passed": true}`; one of the two is enough."""
    try:
        correction = _correction(text)
    except msgspec.MsgspecError as wrong:
        raise _no_correction(str(wrong)) from None
    if correction.withdrawn is not UNSET:
        if correction.score is not UNSET or correction.passed is not UNSET:
            raise _no_correction("withdrawn beside a score or passed")
    elif correction.score is UNSET and correction.passed is UNSET:
        raise _no_correction("neither score nor passed")
    elif correction.check is not UNSET and (correction.passed is UNSET or correction.score is not UNSET):
        raise _no_correction("a check of a case is corrected with passed alone")
    return correction


class CaseCorrection(Struct, frozen=True):
    """
    The corrections of one case that count: the last of the whole case, and the last verdict on each check. The one of
    the whole case decides what the case is.
    """

    whole: ScoreCorrection | None
    checks: Mapping[str, bool]
    annotation_id: str  # the last of them


def effective(annotations: Iterable[Annotation]) -> Mapping[str, ScoreCorrection]:
    """The last correction of each score, by event id."""
    found = _last_corrections((one.target.event_id, one) for one in annotations)
    return {event: one.whole for event, one in found.items() if one.whole is not None}


def case_corrections(annotations: Iterable[Annotation]) -> Mapping[str, CaseCorrection]:
    """The last corrections of each case of an evaluation, by the id of the case."""
    return _last_corrections((one.target.node_id, one) for one in annotations)


def _last_corrections(
    annotations: Iterable[tuple[str | UnsetType, Annotation]],
) -> Mapping[str, CaseCorrection]:
    last: dict[str, CaseCorrection] = {}
    for target, annotation in annotations:
        if target is UNSET or (correction := correction_of(annotation)) is None:
            continue
        before = last.pop(target, CaseCorrection(None, {}, ""))
        whole, checks = before.whole, dict(before.checks)
        if correction.check is not UNSET:
            checks.pop(correction.check, None)
            if correction.passed is not UNSET:
                checks[correction.check] = correction.passed
        elif correction.withdrawn is not UNSET:
            whole, checks = None, {}
        else:
            whole = correction
        if whole is not None or checks:
            last[target] = CaseCorrection(whole, checks, annotation.annotation_id)
    return last


def correction_of(annotation: Annotation) -> ScoreCorrection | None:
    """The correction of a score; None if the annotation is something else."""
    if annotation.signal.kind != "correction":
        return None
    try:
        return parse_correction(str(annotation.signal.correction))
    except InvalidRequest:
        return None  # it corrects something else than a score


async def _type_of(store: Store, run: Run, event_id: str) -> str | None:
    async for event in read_events(store, run.id):
        if event_id.encode() in event.data and decode_event(event.data).eventId == event_id:
            return event.type
    return None


def _redacted(signal: Signal, redact: Redact) -> Signal:
    changes: dict[str, Any] = {
        name: redact(value)
        for name in ("label", "correction")
        if (value := getattr(signal, name)) is not UNSET
    }
    return msgspec.structs.replace(signal, **changes)


def _key(run: Run, annotation: Annotation) -> str:
    return f"{run.id}/{annotation.annotation_id}"


def _no_correction(reason: str) -> InvalidRequest:
    expected = 'expected JSON such as {"score": 1, "passed": true} for the score of a task'
    return InvalidRequest(Problem("signal.correction", f"{expected}: {reason}"))
