"""What a run comes to, from what was recorded (FEP 4.2)."""

import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from assay.fep.tally import Tally
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.results import EvaluationRunResult, TestCaseResult

read_result = msgspec.json.Decoder(TestCaseResult).decode


def new_id() -> str:
    return f"eval_{secrets.token_hex(12)}"


def run_result(
    evaluation_id: str,
    started_at: datetime,
    completed_at: datetime,
    tally: Tally,
    lines: Iterable[bytes],
    experiment: ExperimentMetadata | None,
    metadata: dict[str, Any] | None = None,
) -> EvaluationRunResult:
    return EvaluationRunResult(
        evaluation_id=evaluation_id,
        started_at=started_at,
        completed_at=completed_at,
        status=tally.status,
        experiment=experiment or UNSET,
        summary=tally.summary(),
        results=[read_result(line) for line in lines],
        metadata=metadata or UNSET,
    )
