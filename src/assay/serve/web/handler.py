"""The door of a path: who may come in, by which method, and what goes out, whatever happens inside."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

from starlette.types import Message, Receive, Scope, Send

from assay.auth.keys import authorize
from assay.errors import InvalidRequest, MethodNotAllowed, NotFound, Problem, Refusal, Unauthenticated
from assay.serve.web.request import ClientDisconnected, HttpRequest, RequestContext, ServerState
from assay.serve.web.responses import HTML, TEXT, Response, Streaming, error_response, internal_error, log

Endpoint = Callable[[HttpRequest], Awaitable[Response | Streaming]]
Header = tuple[bytes, bytes]

SAFE: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"accept, accept-encoding"),
)
PAGE = tuple(header for header in SAFE if header[0] != b"content-security-policy")  # it has one of its own
STRICT: Header = (b"strict-transport-security", b"max-age=31536000")
PRIVATE: Header = (b"cache-control", b"private, no-store")
VERSION = "/v1/"  # every path below it wants a good key, but for those whose operation has no scope
SMALL = 32 * 1024  # bytes that are not worth packing: it takes as long as the rest of a request


class MethodSpec(NamedTuple):
    """One method of a path; no scope: it is open to everybody."""

    endpoint: Endpoint
    scope: str | None


class RouteHandler:
    """One path of the API: an ASGI application that says with which status it answered."""

    def __init__(self, server: ServerState, methods: Mapping[str, MethodSpec]) -> None:
        self._server, self._methods = server, dict(methods)
        self._open = any(admitted.scope is None for admitted in methods.values())
        if "GET" in methods:
            self._methods["HEAD"] = methods["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        call = HttpRequest(self._server, scope, receive)
        try:
            answer = await self._answer(call)
            if isinstance(answer, Response):
                return await _send(answer, call, send)
            if answer is None:
                return 0
            await answer(scope, receive, _with_headers(send, call))
            return 200
        finally:
            call.reservation.release()

    async def _answer(self, call: HttpRequest) -> Response | Streaming | None:
        """Whatever happens inside; None: there is nobody to tell."""
        try:
            call.reservation.reserve_request()
            answer = await self._asked(call)
            if not isinstance(answer, Response):
                call.reservation.reserve_stream()
            return answer
        except Refusal as refusal:
            if isinstance(refusal, Unserved):
                return error_response(refusal, call.id)
            given = call.scope.get("path_params", {})
            named = call.target or next(iter(given.values()), call.scope["path"])
            await call.audit_refusal(refusal, named)
            return error_response(refusal, call.id)
        except ClientDisconnected:
            return None
        except Exception as surprise:  # noqa: BLE001  # a bug of ours must not end in a traceback at the client's
            return internal_error(surprise, call.id)

    async def _asked(self, call: HttpRequest) -> Response | Streaming:
        method = call.scope["method"]
        admitted = self._methods.get(method)
        if admitted is None:
            if not self._open:
                await self._known(call)
            raise MethodNotAllowed(method, sorted(self._methods))
        if admitted.scope is None:
            return await admitted.endpoint(call)
        await self._known(call)
        if admitted.scope:  # none: any good key will do
            authorize(call.principal, admitted.scope)
        return await admitted.endpoint(call)

    async def _known(self, call: HttpRequest) -> None:
        """Who is asking; Unauthenticated without a good key."""
        call.set_principal(await self._server.authenticate(credential_of(call)))
        call.reservation.reserve_tenant_request(call.principal.tenant)


class NotFoundHandler(RouteHandler):
    """
    All paths that are not served. Below `/v1/` a good key is wanted first, as for every path that is not open (contract §2.1).

    `resources` are the first parts of the paths below `/v1/`: a path that begins with one lacks its version.
    """

    def __init__(self, server: ServerState, resources: Collection[str]) -> None:
        super().__init__(server, {})
        self._resources = frozenset(resources)

    async def _asked(self, call: HttpRequest) -> Response | Streaming:
        path: str = call.scope["path"]
        if path.startswith(VERSION):
            await self._known(call)
            if path.startswith(
                "/v1/packs"
            ):  # a registry would speak JSON, and there is none here (contract §11)
                return Response(b"there is no registry of packs here\n", 404, TEXT)
        elif resource_of(path) in self._resources:
            raise InvalidRequest(
                Problem("path", f"expected a path with its version, as {VERSION}{path[1:65]}")
            )
        raise Unserved


class Unserved(NotFound):
    """A path that is none of ours: nothing of a tenant's was asked for."""

    def __init__(self) -> None:
        super().__init__("there is nothing at this path; /v1/openapi.json lists what there is")


def resource_of(path: str) -> str:
    """The first part of a path, without a verb: `runs` of `/runs/x` and `/runs:bulk-cancel`."""
    return path[1:].partition("/")[0].partition(":")[0]


def credential_of(call: RequestContext) -> str:
    """`Authorization: Bearer …` or `X-API-Key: …`; both only if they are the same."""
    said, key = call.header(b"authorization"), call.header(b"x-api-key")
    if said is not None:
        scheme, _, token = said.partition(" ")
        if scheme.lower() != "bearer" or key not in (None, token.strip()):
            raise Unauthenticated
        key = token.strip()
    if not key:
        raise Unauthenticated
    return key


async def _send(answer: Response, call: HttpRequest, send: Send) -> int:
    body, status, media, own = answer
    headers = [*own, (b"x-request-id", call.id.encode()), *(PAGE if media is HTML else SAFE)]
    if call.scope["scheme"] == "https":
        headers.append(STRICT)
    if not any(name == b"cache-control" for name, _ in own):
        headers.append(PRIVATE)
    if body or status not in (204, 304):
        headers.append((b"content-type", media))
    head = call.scope["method"] == "HEAD"
    if isinstance(body, bytes):
        if len(body) >= SMALL and call.accepts_gzip:
            body = zlib.compress(body, 1, 31)
            headers.append((b"content-encoding", b"gzip"))
        if status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if head else body})
        return status
    packed = call.accepts_gzip
    if packed:
        headers.append((b"content-encoding", b"gzip"))
    start = {"type": "http.response.start", "status": status, "headers": headers}
    return await _stream(start, _packed(body) if packed else body, call, send, head=head)


async def _stream(
    start: Message, body: AsyncGenerator[bytes], call: HttpRequest, send: Send, *, head: bool
) -> int:
    """Piece by piece, for as long as the client takes them. The first is made before anything is said."""
    seconds = call.server.serving.send_seconds
    gone = asyncio.ensure_future(_gone(call.receive))
    try:
        async with aclosing(body) as pieces:
            try:
                first = await anext(pieces, b"")
            except Refusal as refusal:
                return await _send(error_response(refusal, call.id), call, send)
            await send(start)
            if not head:
                await send({"type": "http.response.body", "body": first, "more_body": True})
                async for piece in pieces:
                    if gone.done():
                        return start["status"]
                    async with asyncio.timeout(seconds):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        log.warning("request %s: the client takes nothing any more", call.id)
    except Refusal as trouble:  # too late for a status: the answer is cut off, which HTTP can tell
        log.error("request %s: cut off: %s", call.id, trouble)
    finally:
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone
    return start["status"]


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _packed(body: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    packer = zlib.compressobj(1, wbits=31)
    async with aclosing(body) as pieces:
        async for piece in pieces:
            if packed := packer.compress(piece):
                yield packed
    yield packer.flush()


def _with_headers(send: Send, call: HttpRequest) -> Send:
    async def outer(message: Message) -> None:
        if message["type"] == "http.response.start":
            more: list[Any] = [(b"x-request-id", call.id.encode()), *SAFE]
            if call.scope["scheme"] == "https":
                more.append(STRICT)
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return outer
