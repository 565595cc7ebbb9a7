"""Builds the result of a run from its tally and result lines (FEP 4.2)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from assay.fep.tally import Tally
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.results import EvaluationRunResult, TestCaseResult

read_result = msgspec.json.Decoder(TestCaseResult).decode


def metadata_of(tally: Tally) -> dict[str, Any]:
    """The metadata of a run: its cost, and its rates and means with intervals (decisions 31, 46)."""
    statistics = tally.statistics()
    metadata: dict[str, Any] = msgspec.to_builtins(tally.spending) if tally.spending else {}
    return metadata if statistics is None else {**metadata, "statistics": msgspec.to_builtins(statistics)}


def run_result(
    evaluation_id: str,
    started_at: datetime,
    completed_at: datetime,
    tally: Tally,
    lines: Iterable[bytes],
    experiment: ExperimentMetadata | None,
) -> EvaluationRunResult:
    return EvaluationRunResult(
        evaluation_id=evaluation_id,
        started_at=started_at,
        completed_at=completed_at,
        status=tally.status,
        experiment=experiment or UNSET,
        summary=tally.summary(),
        results=[read_result(line) for line in lines],
        metadata=metadata_of(tally) or UNSET,
    )
