"""A transport on the openai SDK: its connections and authentication, without its retries and streams."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2  # extras, and 0.8 s to load: only `open_transport` imports this file
import openai

from assay.backends.models.transport import OPENAI, ConnectionLost, HttpAnswer, Outcome, TooLargeReply
from assay.ports import Provider


class _TooMuch(Exception):
    """Raised inside the SDK's reading, which lets it pass."""


class OpenAITransport:
    def __init__(self, provider: Provider, max_bytes: int) -> None:
        self._limit = max_bytes
        self._client = _client(provider, max_bytes)
        self._options: Any = {"headers": _headers(provider)}

    async def send(self, path: str, body: bytes) -> Outcome:
        try:
            response = await self._client.post(
                path, cast_to=httpx2.Response, content=body, options=self._options
            )
        except openai.APIStatusError as told:
            response = told.response
        except openai.APIConnectionError as lost:
            return ConnectionLost(_error_message(lost.__cause__ or lost))
        except _TooMuch:
            return TooLargeReply(self._limit)
        if len(response.content) > self._limit:  # it was compressed without a request for it
            return TooLargeReply(self._limit)
        return HttpAnswer(response.status_code, dict(response.headers), response.content)

    async def close(self) -> None:
        await self._client.close()


def _error_message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream, self._limit = stream, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._limit:
                raise _TooMuch
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _headers(provider: Provider) -> dict[str, Any]:
    """Without a key none is sent. OPENAI_… variables that identify an account are not sent to other providers."""
    headers: dict[str, Any] = {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
    }  # read is counted
    if provider.api_key is None:
        headers["Authorization"] = openai.Omit()
    if provider.base_url is not None:
        headers |= {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
    return headers


def _client(provider: Provider, max_bytes: int) -> openai.AsyncOpenAI:
    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream, max_bytes)

    many = httpx2.Limits(max_connections=None, max_keepalive_connections=provider.max_concurrency)
    return openai.AsyncOpenAI(
        base_url=provider.base_url or OPENAI,
        api_key=provider.api_key.reveal() if provider.api_key else "-",
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            limits=many,
            timeout=None,  # the line keeps the time
            follow_redirects=False,
            event_hooks={"response": [bound]},
        ),
    )
