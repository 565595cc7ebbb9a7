"""The handler of an RPC: authenticates, admits and authorizes a call, runs its method, and answers whatever happens."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, NoReturn

from google.protobuf.message import DecodeError, Message
from grpc import (
    RpcMethodHandler,
    StatusCode,
    stream_stream_rpc_method_handler,
    stream_unary_rpc_method_handler,
)
from grpc.aio import EOF
from msgspec import Struct

from assay.auth.keys import authorize
from assay.concurrency.threads import off_loop
from assay.errors import InvalidRequest, Refusal, UsageError
from assay.ports.telemetry import telemetry
from assay.serve.grpc.call import Context, RpcContext, code_of, status_message, status_of, trailing
from assay.serve.grpc.request import invalid_message
from assay.serve.web.body_reader import body_too_slow, message_footprint
from assay.serve.web.handler import credential_of
from assay.serve.web.instrumentation import record_request
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.request import ServerState
from assay.serve.web.responses import error_body, internal_error_body

# Receives the message of a call: only after authentication, in time, and within the memory limit of its tenant
# (FEP-40).

SLOWEST = 128 * 1024  # bytes per second at which the largest message must arrive


class MessageReceiver:
    """
    gRPC buffers a message until it is complete, and only then hands it out.

    So no message is received without authentication, and the messages of a tenant wait for each other where together
    they could exceed its limit.
    """

    def __init__(self, serving: ServerLimits) -> None:
        self._idle_seconds = serving.body_seconds
        longest = serving.body_seconds + serving.max_body_bytes / SLOWEST
        self._seconds = min(longest, serving.max_body_seconds)
        limit = min(serving.max_held_bytes, serving.max_tenant_held_bytes)
        self._slots = max(1, limit // serving.max_body_bytes)
        self._semaphores: dict[str, asyncio.Semaphore] = {}
        self._waiting: Counter[str] = Counter()

    async def message(self, call: RpcContext) -> bytes:
        """The one message of a call, as bytes."""
        try:
            async with asyncio.timeout(self._seconds), self._slot(call.tenant):
                data = await call.context.read()
        except TimeoutError:
            raise body_too_slow(self._idle_seconds) from None
        if data is EOF:
            raise InvalidRequest("expected a message, got none")
        call.reservation.reserve_bytes(await off_loop(len(data), lambda: message_footprint(data)))
        return data

    @asynccontextmanager
    async def _slot(self, tenant: str) -> AsyncGenerator[None]:
        semaphore = self._semaphores.setdefault(tenant, asyncio.Semaphore(self._slots))
        self._waiting[tenant] += 1
        try:
            async with semaphore:
                yield
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant], self._semaphores[tenant]


Answer = Callable[[RpcContext, Any], Awaitable[bytes]]
Stream = Callable[[RpcContext, Any], AsyncGenerator[bytes]]


class Method(Struct, frozen=True, kw_only=True):
    """One RPC. A scope of None: it needs no key."""

    service: str
    name: str
    request: type[Message]
    raw: bool = False  # the method decodes the bytes itself
    scope: str | None
    answer: Answer | None = None
    stream: Stream | None = None

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


class RpcHandler:
    """
    One method, in the form that gRPC expects. Requests and responses are bytes.

    To gRPC the request is a stream of messages, and only one is read: so no message is received before authentication.
    """

    def __init__(self, server: ServerState, method: Method, receiver: MessageReceiver) -> None:
        self._server, self._method, self._receiver = server, method, receiver

    def handler(self) -> "RpcMethodHandler[Any, Any]":
        if self._method.stream is not None:
            return stream_stream_rpc_method_handler(self._stream_recorded)  # type: ignore[arg-type]
        return stream_unary_rpc_method_handler(self._answer_recorded)  # type: ignore[arg-type]

    async def _answer_recorded(self, _: Any, context: Context) -> bytes:
        with self._record(context):
            return await self._answer(context)

    async def _stream_recorded(self, _: Any, context: Context) -> AsyncGenerator[bytes]:
        with self._record(context):
            async with aclosing(self._stream(context)) as pieces:
                async for piece in pieces:
                    yield piece

    @contextmanager
    def _record(self, context: Context) -> Generator[None]:
        """Record metrics, a span and an access-log line, by the name of the method."""
        began, method = time.perf_counter(), self._method
        attributes = {"rpc.system": "grpc", "rpc.service": method.service, "rpc.method": method.name}
        metadata = dict(context.invocation_metadata() or ()) if telemetry.tracer else {}
        with telemetry.span(
            method.path[1:], attributes, {"traceparent": str(metadata.get("traceparent", ""))}
        ):
            try:
                yield
            finally:
                record_request("grpc", method.path, code_of(context), time.perf_counter() - began)

    async def _answer(self, context: Context) -> bytes:
        call = RpcContext(self._server, context)
        assert self._method.answer is not None
        try:
            return await self._method.answer(call, await self._admit(call))
        except Exception as why:  # noqa: BLE001  # a bug must not send a traceback to the client
            trouble = why
        finally:
            call.reservation.release()
        return await _refuse(call, self._method, trouble)

    async def _stream(self, context: Context) -> AsyncGenerator[bytes]:
        call = RpcContext(self._server, context)
        assert self._method.stream is not None
        try:
            async with aclosing(self._method.stream(call, await self._admit(call))) as pieces:
                async for piece in pieces:
                    yield piece
            return
        except Exception as why:  # noqa: BLE001  # the same
            trouble = why
        finally:
            call.reservation.release()
        await _refuse(call, self._method, trouble)

    async def _admit(self, call: RpcContext) -> Message | bytes:
        """Admit a call in the order of REST: limits, key, limits of the tenant, scope; then read the message."""
        call.add_trailers()
        call.reservation.reserve_request()
        if self._method.scope is None:
            return self._method.request()  # what a stranger says is not listened to
        call.set_principal(await self._server.authenticate(credential_of(call)))
        call.reservation.reserve_tenant_request(call.principal.tenant)
        authorize(call.principal, self._method.scope)
        data = await self._receiver.message(call)
        if self._method.raw:
            return data
        read = self._method.request.FromString
        try:
            message: Any = await off_loop(len(data), lambda: read(data))
        except DecodeError as wrong:
            raise invalid_message(self._method.request, wrong) from None
        call.target = getattr(message, "evaluation_id", "") or getattr(message, "operation_id", "")
        return message


async def _refuse(call: RpcContext, method: Method, error: Exception) -> NoReturn:
    """A status, REST's body in the details, and the number of the request."""
    refusal = error if isinstance(error, Refusal) else None
    if refusal is not None:
        await call.audit_refusal(refusal, call.target or method.path)
    code = StatusCode.INTERNAL if refusal is None else status_of(refusal)
    if refusal is None or isinstance(refusal, UsageError):
        body = internal_error_body(error, call.id)
    else:
        body = error_body(refusal, call.id)
    call.add_trailers(*trailing(code, body, refusal))
    await call.context.abort(code, status_message(body), call.trailers)
