"""Encodes runs as messages: results, whole or in pages or parts, progress and operations (FEP 4.2, 5.2)."""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from assay.errors import TooLarge
from assay.fep.records.run_header import read_request
from assay.fep.records.service import summary_of, times_of
from assay.ports import Run
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.json_types import is_object
from assay.protocol.operations import EvaluationOperation, EvaluationProgress
from assay.serve.fep.server_state import fep_of
from assay.serve.fep.submit import InlineResult
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.call import RpcContext, fep_error
from assay.serve.grpc.codec import encode as packed
from assay.serve.grpc.codec.result_codec import STATUS, ResultEncoder
from assay.serve.grpc.request import DecodedRequest

MARGIN = 1_024  # bytes for the message around a result


class AnswerTooLarge(TooLarge):
    """The response does not fit into one message; the message says how to get it otherwise."""

    def __init__(self, limit: int, hint: str) -> None:
        self.limit, self.setting, self._hint = limit, "max_message_bytes", hint
        super().__init__("the response", limit, "max_message_bytes")

    def __str__(self) -> str:
        return f"{super().__str__()}: {self._hint}"

    @property
    def details(self) -> dict[str, object]:
        return {**super().details, "how": self._hint}


def too_large(limit: int, run: str) -> AnswerTooLarge:
    return AnswerTooLarge(
        limit,
        f"read {run} in pages, with GetEvaluation and the metadata page-size and page-token;"
        " or run it with StreamEvaluation, which sends a result in parts;"
        " or read it as NDJSON over REST, GET /v1/evaluations/ID with Accept: application/x-ndjson",
    )


def inline_result(result: InlineResult, decoded: DecodedRequest, limit: int) -> bytes:
    """The EvaluationRunResult of an inline run; its contexts are copied from the request."""
    header = result_header(result.run, result.experiment, result.metadata)
    message = b"".join((header, *map(ResultEncoder().case, result.lines, decoded.encoded_contexts)))
    if len(message) > limit - MARGIN:
        raise too_large(limit, result.run.id)
    return message


async def read_result(
    call: RpcContext,
    run: Run,
    start: int = 0,
    stop: int | None = None,
    metadata: dict[str, Any] | None = None,
) -> bytes:
    """The EvaluationRunResult of a stored run, or one with a range of its results."""
    limit = call.server.serving.max_message_bytes
    parts = [part async for part in result_parts(call, run, start, stop, metadata)]
    if len(parts) > 1:
        raise too_large(limit, run.id)
    return parts[0]


async def result_parts(
    call: RpcContext,
    run: Run,
    start: int = 0,
    stop: int | None = None,
    extra: dict[str, Any] | None = None,
) -> AsyncGenerator[bytes]:
    """The result in messages within the limit. The first has all but the results; merged they are the whole."""
    limit = call.server.serving.max_message_bytes - MARGIN
    request = await read_request(call.server.store, run.id)
    metadata = await fep_of(call).evaluations.metadata(run, request) | (extra or {})
    batch = [result_header(run, request.experiment, metadata)]
    size = len(batch[0])
    write = ResultEncoder().case
    async for line in fep_of(call).evaluations.results(run, start, stop):
        result = write(line)
        if batch and size + len(result) > limit:
            yield b"".join(batch)
            batch, size = [], 0
        if len(result) > limit:
            raise too_large(limit + MARGIN, run.id)
        batch.append(result)
        size += len(result)
    yield b"".join(batch)


def result_header(run: Run, experiment: ExperimentMetadata | None, metadata: dict[str, Any]) -> bytes:
    """An EvaluationRunResult without its results."""
    started, ended = times_of(run)
    result = fep.EvaluationRunResult(
        evaluation_id=run.id,
        status=STATUS[run.metadata.get("status", "error")],  # type: ignore[arg-type]
        summary=fep.EvaluationSummary(**msgspec.to_builtins(summary_of(run))),
    )
    _set_time(result.started_at, started or run.created)
    _set_time(result.completed_at, ended)
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
    message = fep.EvaluationOperation(operation_id=operation.operation_id, status=operation.status)
    _set_time(message.created_at, operation.created_at)
    for name in ("started_at", "completed_at"):
        if (moment := getattr(operation, name)) is not UNSET:
            _set_time(getattr(message, name), moment)
    if operation.progress is not UNSET:
        message.progress.CopyFrom(progress_of(operation.progress))
    if operation.error is not UNSET:
        message.error.CopyFrom(fep_error(operation.error))
    if operation.metadata is not UNSET:
        message.metadata.MergeFromString(packed.struct(operation.metadata))
    return message


def _set_time(field: Any, time: datetime | None) -> None:
    if time is not None:
        field.FromDatetime(time)
