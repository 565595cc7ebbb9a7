"""Health and reflection: open to everybody, and so within bounds, that no stranger keeps others out with them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

from grpc import (
    HandlerCallDetails,
    RpcMethodHandler,
    StatusCode,
    stream_stream_rpc_method_handler,
    stream_unary_rpc_method_handler,
)
from grpc.aio import EOF, ServerInterceptor

from assay.serve.grpc.context import Context

MOST = 64  # that go on at the same time: watchers of health, talks with reflection
LARGEST = 4 * 1024  # bytes of a question: the name of a service, of a symbol


class TooManyStreams(Exception):
    """As many go on as may."""


class BoundedPublicServices(ServerInterceptor):
    """Around the methods that are not ours. A question has so many seconds to come."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._going = seconds, 0

    async def intercept_service(
        self, continuation: Callable[[HandlerCallDetails], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        handler = await continuation(handler_call_details)
        ours = handler is None or not handler_call_details.method.startswith("/grpc.")
        return handler if ours else self._bounded(handler)

    def _bounded(self, handler: Any) -> "RpcMethodHandler[Any, Any]":
        read, written = handler.request_deserializer, handler.response_serializer

        async def asked(_: Any, context: Context) -> Any:
            return await handler.unary_unary(read(await self._question(context) or b""), context)

        async def watched(_: Any, context: Context) -> None:
            request = read(await self._question(context) or b"")
            with self._place():
                await handler.unary_stream(request, context)

        async def talked(_: Any, context: Context) -> None:
            with self._place():
                async for answer in handler.stream_stream(self._questions(context, read), context):
                    await context.write(answer)

        if handler.request_streaming:
            return stream_stream_rpc_method_handler(_told(talked), None, written)
        if handler.response_streaming:
            return stream_stream_rpc_method_handler(_told(watched), None, written)
        return stream_unary_rpc_method_handler(_told(asked), None, written)

    @contextmanager
    def _place(self) -> Generator[None]:
        if self._going >= MOST:
            raise TooManyStreams
        self._going += 1
        try:
            yield
        finally:
            self._going -= 1

    async def _question(self, context: Context) -> bytes | None:
        """Some bytes, soon; gRPC itself would wait for any number for ever."""
        async with asyncio.timeout(self._seconds):
            data: Any = await context.read()
        if data is EOF:
            return None
        if len(data) > LARGEST:
            raise ValueError
        return data

    async def _questions(self, context: Context, read: Callable[[bytes], Any]) -> AsyncGenerator[Any]:
        while (data := await self._question(context)) is not None:
            yield read(data)


def _told(work: Callable[[Any, Context], Awaitable[Any]]) -> Any:
    async def told(requests: AsyncIterator[Any], context: Context) -> Any:
        try:
            return await work(requests, context)
        except TooManyStreams:
            await context.abort(StatusCode.RESOURCE_EXHAUSTED, f"{MOST} watch or ask, which is the limit")
        except TimeoutError:
            await context.abort(StatusCode.DEADLINE_EXCEEDED, "nothing was asked for a while")
        except ValueError:
            await context.abort(
                StatusCode.INVALID_ARGUMENT, f"expected a question of at most {LARGEST} bytes"
            )

    return told
