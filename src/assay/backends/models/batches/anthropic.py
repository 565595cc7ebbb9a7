"""Anthropic's message batches: requests go up in one body, results come down as lines."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from assay.backends.models.batches.answer_file import fetched
from assay.backends.models.batches.openai import PAGE, PAGES, SLACK, read_object
from assay.backends.models.provider_client import ProviderClient
from assay.ports.batches import BatchAnswers, BatchRequest, BatchResponse, BatchState

PATH = "/messages/batches"
STATUSES = {  # of a single call, by the type of an error
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class AnthropicBatches:
    """A batch has no name: what was submitted is found by its time and its number of requests."""

    def __init__(self, line: ProviderClient) -> None:
        self._line = line

    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:
        body = msgspec.json.encode(
            {"requests": [{"custom_id": one.id, "params": msgspec.Raw(one.body)} for one in requests]}
        )
        return read_object(self._line, await self._line.post(PATH, body, repeatable=False), _Batch).id

    async def find(self, name: str, *, count: int, since: float) -> list[str]:
        found: list[str] = []
        after = ""
        for _ in range(PAGES):
            page = read_object(self._line, await self._line.get(f"{PATH}?limit={PAGE}{after}"), _Page)
            for one in page.data:
                if one.seconds < since - SLACK:
                    return found
                if one.request_counts.total == count:
                    found.append(one.id)
            if not page.has_more or not page.data:
                return found
            after = f"&after_id={page.data[-1].id}"
        return found

    async def state(self, batch: str) -> BatchState:
        found = read_object(self._line, await self._line.get(f"{PATH}/{batch}"), _Batch)
        counts = found.request_counts
        return BatchState(found.processing_status == "ended", counts.total - counts.processing)

    async def responses(self, batch: str) -> BatchAnswers:
        return await fetched(self._line, _response, f"{PATH}/{batch}/results")

    async def cancel(self, batch: str) -> None:
        await self._line.post(f"{PATH}/{batch}/cancel", b"{}")


def _response(data: bytes) -> tuple[str, BatchResponse] | None:
    line = _line(data)
    match line.result.type:
        case "succeeded":
            return line.custom_id, BatchResponse(200, bytes(line.result.message))
        case "errored":
            type = line.result.error.error.type if line.result.error else ""
            body = msgspec.json.encode(line.result.error)
            return line.custom_id, BatchResponse(STATUSES.get(type, 500), body)
        case _:
            return None  # canceled, expired


class _Counts(msgspec.Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def total(self) -> int:
        return self.processing + self.succeeded + self.errored + self.canceled + self.expired


class _Batch(msgspec.Struct):
    id: str
    processing_status: str = ""
    created_at: datetime | None = None
    request_counts: _Counts = msgspec.field(default_factory=_Counts)

    @property
    def seconds(self) -> float:
        return self.created_at.timestamp() if self.created_at else 0.0


class _Page(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _Detail(msgspec.Struct):
    type: str = ""
    message: str = ""


class _Error(msgspec.Struct):
    error: _Detail = msgspec.field(default_factory=_Detail)


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"{}")
    error: _Error | None = None


class _Line(msgspec.Struct):
    custom_id: str
    result: _Result


_line = msgspec.json.Decoder(_Line).decode
