"""The JSON of a run's result: its header, and the whole of it if its results are in memory."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.ports import Run
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.results import EvaluationSummary, Status
from assay.results.tally import Tally

_encode = msgspec.json.Encoder().encode


def result_json(
    run: Run, experiment: ExperimentMetadata | None, lines: Sequence[bytes], metadata: dict[str, Any]
) -> bytes:
    """The EvaluationRunResult of a run whose results are in memory, equal to the stream of `stream_result`."""
    header = result_header(run, experiment, (run.started, run.ended))
    end = b'],"metadata":' + _encode(metadata) + b"}" if metadata else b"]}"
    if not lines:
        return header + end
    parts = [*lines]  # each line but the first and the last is copied once
    parts[0] = header + parts[0]
    parts[-1] += end
    return b",".join(parts)


class ResultHeader(Struct, frozen=True):
    """The members of an EvaluationRunResult before its results."""

    evaluation_id: str
    started_at: datetime
    completed_at: datetime | None
    status: Status
    summary: dict[str, Any] | EvaluationSummary
    experiment: ExperimentMetadata | UnsetType = UNSET


def result_header(
    run: Run,
    experiment: ExperimentMetadata | None,
    when: tuple[datetime | None, datetime | None] | None = None,
) -> bytes:
    """An EvaluationRunResult up to its results."""
    started, ended = when or times_of(run)
    status, summary = run.metadata.get("status", "error"), run.metadata.get("summary") or summary_of(run)
    header = ResultHeader(run.id, started or run.created, ended, status, summary, experiment or UNSET)
    return _encode(header)[:-1] + b',"results":['


def times_of(run: Run) -> tuple[datetime | None, datetime | None]:
    """Start and end of a run. An inline run has the clock of the process that scored it."""
    if moments := run.metadata.get("moments"):
        started, ended = moments
        return datetime.fromisoformat(started), datetime.fromisoformat(ended)
    return run.started, run.ended


def summary_of(run: Run) -> EvaluationSummary:
    return msgspec.convert(run.metadata.get("summary", Tally().summary()), EvaluationSummary)
