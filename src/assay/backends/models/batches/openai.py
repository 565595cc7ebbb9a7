"""OpenAI's batches: a file of requests goes up, a batch works on it, files of answers and of errors come down."""

import io
import secrets
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from assay.backends.models.batches.answer_file import fetched
from assay.backends.models.completions import decode_answer
from assay.backends.models.provider_client import ProviderClient, ProviderResponse
from assay.ports.batches import BatchAnswers, BatchRequest, BatchResponse, BatchState

ENDPOINT = "/v1/chat/completions"
WINDOW = "24h"  # the only one there is
NAME = "assay_batch"  # in the metadata of a batch
PAGES, PAGE = 20, 100  # of the list of batches
SLACK = 3600.0  # seconds by which the provider's clock may differ
T = TypeVar("T")
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})


class OpenAIBatches:
    def __init__(self, line: ProviderClient) -> None:
        self._line = line

    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:
        edge = f"assay-{secrets.token_hex(16)}"
        head = (
            f'--{edge}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{edge}\r\n'
            f'Content-Disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        form = io.BytesIO()  # one copy of all requests
        form.write(head.encode())
        for one in requests:
            line = {"custom_id": one.id, "method": "POST", "url": ENDPOINT, "body": msgspec.Raw(one.body)}
            form.write(msgspec.json.encode(line) + b"\n")
        form.write(f"\r\n--{edge}--\r\n".encode())
        sent = await self._line.post(
            "/files", form.getvalue(), content_type=f"multipart/form-data; boundary={edge}"
        )
        file = self._read(sent, _File).id
        asked = {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": WINDOW}
        body = msgspec.json.encode(asked | {"metadata": {NAME: name}})
        return self._read(await self._line.post("/batches", body, repeatable=False), _Batch).id

    async def find(self, name: str, *, count: int, since: float) -> list[str]:
        after = ""
        for _ in range(PAGES):
            page = self._read(await self._line.get(f"/batches?limit={PAGE}{after}"), _Page)
            for one in page.data:
                if (one.metadata or {}).get(NAME) == name:
                    return [one.id]
            if not page.data or not page.has_more or page.data[-1].created_at < since - SLACK:
                return []
            after = f"&after={page.data[-1].id}"
        return []

    async def state(self, batch: str) -> BatchState:
        found = await self._batch(batch)
        problem = ""
        if found.status == "failed":
            messages = [one.message for one in (found.errors.data if found.errors else None) or ()]
            problem = "; ".join(messages)[:300] or "it says no reason"
        return BatchState(found.status in ENDED, found.request_counts.completed, problem)

    async def responses(self, batch: str) -> BatchAnswers:
        found = await self._batch(batch)
        files = [file for file in (found.output_file_id, found.error_file_id) if file]
        return await fetched(self._line, _response, *(f"/files/{file}/content" for file in files))

    async def cancel(self, batch: str) -> None:
        await self._line.post(f"/batches/{batch}/cancel", b"{}")

    async def _batch(self, batch: str) -> "_Batch":
        return self._read(await self._line.get(f"/batches/{batch}"), _Batch)

    def _read(self, response: ProviderResponse, type: type[T]) -> T:
        return read_object(self._line, response, type)


def read_object(line: ProviderClient, response: ProviderResponse, type: type[T]) -> T:
    """An answer about batches; a ForeignFault if it has another form."""
    return decode_answer(line.provider, response.body, msgspec.json.Decoder(type), "a batch")


def _response(data: bytes) -> tuple[str, BatchResponse] | None:
    line = _line(data)
    if line.response is None:  # it expired or was cancelled
        return None
    return line.custom_id, BatchResponse(line.response.status_code, bytes(line.response.body))


class _File(msgspec.Struct):
    id: str


class _Counts(msgspec.Struct):
    completed: int = 0


class _Error(msgspec.Struct):
    message: str = ""


class _Errors(msgspec.Struct):
    data: list[_Error] | None = None


class _Batch(msgspec.Struct):
    id: str
    status: str = ""
    created_at: float = 0.0
    metadata: dict[str, str] | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    request_counts: _Counts = msgspec.field(default_factory=_Counts)
    errors: _Errors | None = None


class _Page(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw = msgspec.Raw(b"{}")


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None


_line = msgspec.json.Decoder(_Line).decode
