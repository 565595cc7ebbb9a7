"""Unauthenticated services (health, reflection), with limits on concurrency, message size and idle time."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format
from grpc import (
    HandlerCallDetails,
    RpcMethodHandler,
    StatusCode,
    stream_stream_rpc_method_handler,
    stream_unary_rpc_method_handler,
)
from grpc.aio import EOF, ServerInterceptor
from grpc_reflection.v1alpha import reflection, reflection_pb2

from assay.serve.grpc.call import Context

MAX_STREAMS = 64  # open at the same time: health watches and reflection streams
LARGEST = 4 * 1024  # bytes of a request: the name of a service or a symbol


class TooManyStreams(Exception):
    """The limit of open streams is reached."""


class BoundedPublicServices(ServerInterceptor):
    """Wraps the methods of gRPC's own services. A request must arrive within `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._streams = seconds, 0

    async def intercept_service(
        self, continuation: Callable[[HandlerCallDetails], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        handler = await continuation(handler_call_details)
        ours = handler is None or not handler_call_details.method.startswith("/grpc.")
        return handler if ours else self._limit_handler(handler)

    def _limit_handler(self, handler: Any) -> "RpcMethodHandler[Any, Any]":
        decode, encode = handler.request_deserializer, handler.response_serializer

        async def unary(_: Any, context: Context) -> Any:
            return await handler.unary_unary(decode(await self._receive(context) or b""), context)

        async def watch(_: Any, context: Context) -> None:
            request = decode(await self._receive(context) or b"")
            with self._stream():
                await handler.unary_stream(request, context)

        async def stream(_: Any, context: Context) -> None:
            with self._stream():
                async for answer in handler.stream_stream(self._requests(context, decode), context):
                    await context.write(answer)

        if handler.request_streaming:
            return stream_stream_rpc_method_handler(_with_status(stream), None, encode)
        if handler.response_streaming:
            return stream_stream_rpc_method_handler(_with_status(watch), None, encode)
        return stream_unary_rpc_method_handler(_with_status(unary), None, encode)

    @contextmanager
    def _stream(self) -> Generator[None]:
        if self._streams >= MAX_STREAMS:
            raise TooManyStreams
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    async def _receive(self, context: Context) -> bytes | None:
        """One message, in time and of limited size. gRPC itself would wait forever for any size."""
        async with asyncio.timeout(self._seconds):
            data: Any = await context.read()
        if data is EOF:
            return None
        if len(data) > LARGEST:
            raise ValueError
        return data

    async def _requests(self, context: Context, decode: Callable[[bytes], Any]) -> AsyncGenerator[Any]:
        while (data := await self._receive(context)) is not None:
            yield decode(data)


def _with_status(method: Callable[[Any, Context], Awaitable[Any]]) -> Any:
    """Turn the exceptions of this file into gRPC statuses."""

    async def handle(requests: AsyncIterator[Any], context: Context) -> Any:
        try:
            return await method(requests, context)
        except TooManyStreams:
            await context.abort(
                StatusCode.RESOURCE_EXHAUSTED, f"{MAX_STREAMS} streams are open, which is the limit"
            )
        except TimeoutError:
            await context.abort(StatusCode.DEADLINE_EXCEEDED, "no message was received in time")
        except ValueError:
            await context.abort(StatusCode.INVALID_ARGUMENT, f"expected a message of at most {LARGEST} bytes")

    return handle


# Reflection in both versions: v1, which newer clients use, has the messages of v1alpha in another package.

ALPHA = reflection.SERVICE_NAME
V1 = "grpc.reflection.v1.ServerReflection"
_FILE = "grpc/reflection/v1/reflection.proto"


def enable_reflection(services: Sequence[str], server: grpc.aio.Server) -> None:
    """Serve both versions. Each describes these services and both reflection services."""
    names = (*services, ALPHA, V1)
    _describe_v1()
    reflection.enable_server_reflection(names, server)
    servicer: Any = reflection.aio.ReflectionServicer(names)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(V1, {"ServerReflectionInfo": handler})]
    )


def _describe_v1() -> None:
    """Register the v1 file, so that a client can also reflect on the reflection service."""
    pool = descriptor_pool.Default()
    try:
        pool.FindFileByName(_FILE)
    except KeyError:
        alpha = descriptor_pb2.FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb)
        text = json_format.MessageToJson(alpha).replace("reflection/v1alpha", "reflection/v1")
        text = text.replace("reflection.v1alpha", "reflection.v1")
        pool.Add(json_format.Parse(text, descriptor_pb2.FileDescriptorProto()))  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
