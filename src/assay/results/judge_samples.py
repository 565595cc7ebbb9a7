"""The random samples of judged cases that people label. A draw is recorded as an annotation of its run."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET

from assay.errors import UsageError
from assay.errors.door import hint_of
from assay.ports import Run, Store
from assay.ports.audit import HOST
from assay.protocol.annotations import Annotation, AnnotationCreate, Signal
from assay.protocol.redaction import redact_text
from assay.results.judge_check import JudgedCases, JudgeSample
from assay.runs.annotations import annotate

SAMPLE = "judge-sample"  # the label of the annotation that records a draw


def recorded_sample(notes: Sequence[Annotation]) -> JudgeSample | None:
    """The last recorded draw."""
    for note in reversed(notes):
        if note.signal.kind == "label" and note.signal.label == SAMPLE and note.note is not UNSET:
            try:
                return msgspec.json.decode(note.note, type=JudgeSample)
            except msgspec.MsgspecError:
                continue  # a label of the same name by a person
    return None


def draw_sample(judged: JudgedCases, count: int, seed: int) -> JudgedCases:
    """The cases with a draw of `count` of them."""
    total = len(judged.cases)
    if not 1 <= count <= total:
        raise UsageError(f"expected 1 to {total} {judged.noun}s, because a judge scored {total}; got {count}")
    sample = JudgeSample(seed=seed, drawn=count, judged=total, probability=count / total)
    return msgspec.structs.replace(judged, sample=sample)


async def record_sample(
    store: Store,
    run: Run,
    judged: JudgedCases,
    count: int,
    seed: int,
    now: datetime,
    principal: str = HOST,
) -> JudgedCases:
    """Draw and record a sample. A second one must contain the first, so it has the same seed."""
    before, with_sample = judged.sample, draw_sample(judged, count, seed)
    if before is not None and before.seed != seed:
        raise UsageError(
            f"{run.id} has a sample with the seed {before.seed}: labels of two seeds have no known probability; "
            f"use {hint_of('seed', str(before.seed))}"
        )
    if before is not None and count < before.drawn:
        raise UsageError(
            f"{run.id} has a sample of {before.drawn} {judged.noun}s; expected at least as many, got {count}"
        )
    if with_sample.sample != before:
        signal = Signal(kind="label", label=SAMPLE)
        create = AnnotationCreate(signal=signal, note=msgspec.json.encode(with_sample.sample).decode())
        await annotate(store, run, create, principal, now, redact_text)
    return with_sample
