"""Runs as messages: results whole, in pages and in parts, progress and operations (FEP 4.2, 5.2)."""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from assay.errors import TooLarge
from assay.fep.run_header import read_request
from assay.fep.service import summary_of, times_of
from assay.ports import Run
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.json_types import is_object
from assay.protocol.operations import EvaluationOperation, EvaluationProgress
from assay.serve.fep.state import fep_of
from assay.serve.fep.submit import InlineResult
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.codec import encode as packed
from assay.serve.grpc.codec.result_writer import RunEncoder
from assay.serve.grpc.codec.results import STATUS, ResultEncoder
from assay.serve.grpc.context import RpcContext
from assay.serve.grpc.errors import fep_error
from assay.serve.grpc.request import DecodedRequest

MARGIN = 1_024  # bytes of what a result may be wrapped in


class AnswerTooLarge(TooLarge):
    """More than one message may have, and how to have it all the same."""

    def __init__(self, limit: int, how: str) -> None:
        self.limit, self.setting, self._how = limit, "max_message_bytes", how
        super().__init__("the answer", limit, "max_message_bytes")

    def __str__(self) -> str:
        return f"{super().__str__()}: {self._how}"

    @property
    def details(self) -> dict[str, object]:
        return {**super().details, "how": self._how}


def too_large(limit: int, run: str) -> AnswerTooLarge:
    return AnswerTooLarge(
        limit,
        f"read {run} in pages, GetEvaluation with the metadata page-size and page-token;"
        " or let StreamEvaluation send the next one in parts;"
        " or take it as lines over REST, GET /v1/evaluations/ID with Accept: application/x-ndjson",
    )


def made_result(made: InlineResult, converted: DecodedRequest, limit: int) -> bytes:
    """The EvaluationRunResult of a run that was done at once, and whose request is at hand."""
    plan, told = converted.whole.asked.plan, converted.whole.told
    parts = [head(made.run, made.experiment, made.metadata)]
    if told is None or plan.shared is None or not plan.shared.bounds:
        parts += map(ResultEncoder().case, made.lines, converted.echoes)
    else:
        shared = RunEncoder(plan.shared, arguments=plan.options.resolved_arguments)
        parts += map(shared.case, made.lines, told, converted.echoes)
    result = b"".join(parts)
    if len(result) > limit - MARGIN:
        raise too_large(limit, made.run.id)
    return result


async def kept_result(
    call: RpcContext, run: Run, start: int = 0, stop: int | None = None, more: dict[str, Any] | None = None
) -> bytes:
    """The same of one that was kept, or with a range of its results."""
    limit = call.server.serving.max_message_bytes
    parts = [part async for part in result_parts(call, run, start, stop, more)]
    if len(parts) > 1:
        raise too_large(limit, run.id)
    return parts[0]


async def result_parts(
    call: RpcContext, run: Run, start: int = 0, stop: int | None = None, more: dict[str, Any] | None = None
) -> AsyncGenerator[bytes]:
    """In messages that are not too large. The first has all but the results; merged they are the whole."""
    most = call.server.serving.max_message_bytes - MARGIN
    request = await read_request(call.server.store, run.id)
    metadata = await fep_of(call).evaluations.metadata(run, request) | (more or {})
    held = [head(run, request.experiment, metadata)]
    size = len(held[0])
    write = ResultEncoder().case
    async for line in fep_of(call).evaluations.results(run, start, stop):
        result = write(line)
        if held and size + len(result) > most:
            yield b"".join(held)
            held, size = [], 0
        if len(result) > most:
            raise too_large(most + MARGIN, run.id)
        held.append(result)
        size += len(result)
    yield b"".join(held)


def head(run: Run, experiment: ExperimentMetadata | None, metadata: dict[str, Any]) -> bytes:
    """An EvaluationRunResult without its results."""
    started, ended = times_of(run)
    result = fep.EvaluationRunResult(
        evaluation_id=run.id,
        status=STATUS[run.head.get("status", "error")],  # type: ignore[arg-type]
        summary=fep.EvaluationSummary(**msgspec.to_builtins(summary_of(run))),
    )
    _moment(result.started_at, started or run.created)
    _moment(result.completed_at, ended)
    if experiment is not None:
        result.experiment.SetInParent()
        if isinstance(experiment.name, str):
            result.experiment.name = experiment.name
        if is_object(experiment.metadata):
            result.experiment.metadata.MergeFromString(packed.struct(experiment.metadata))
            result.experiment.metadata.SetInParent()
    if metadata:
        result.metadata.MergeFromString(packed.struct(metadata))
    return result.SerializeToString()


def progress_of(progress: EvaluationProgress) -> fep.EvaluationProgress:
    return fep.EvaluationProgress(**msgspec.to_builtins(progress))


def operation_of(operation: EvaluationOperation) -> fep.EvaluationOperation:
    shown = fep.EvaluationOperation(operation_id=operation.operation_id, status=operation.status)
    _moment(shown.created_at, operation.created_at)
    for name in ("started_at", "completed_at"):
        if (moment := getattr(operation, name)) is not UNSET:
            _moment(getattr(shown, name), moment)
    if operation.progress is not UNSET:
        shown.progress.CopyFrom(progress_of(operation.progress))
    if operation.error is not UNSET:
        shown.error.CopyFrom(fep_error(operation.error))
    if operation.metadata is not UNSET:
        shown.metadata.MergeFromString(packed.struct(operation.metadata))
    return shown


def _moment(field: Any, moment: datetime | None) -> None:
    if moment is not None:
        field.FromDatetime(moment)
