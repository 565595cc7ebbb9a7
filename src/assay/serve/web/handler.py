"""The handler of a path: authenticates, admits, authorizes, calls the endpoint, and responds whatever happens."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from starlette.types import Message, Receive, Scope, Send

from assay.auth.keys import authorize
from assay.errors import InvalidRequest, MethodNotAllowed, NotFound, Problem, Refusal, Unauthenticated
from assay.errors.door import enter
from assay.serve.web.event_stream import EventStream
from assay.serve.web.request import ClientDisconnected, HttpRequest, RequestContext, ServerState
from assay.serve.web.responses import HTML, TEXT, Response, error_response, internal_error, log

Endpoint = Callable[[HttpRequest], Awaitable[Response | EventStream]]
Header = tuple[bytes, bytes]

SAFE: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"accept, accept-encoding"),
)
PAGE = tuple(header for header in SAFE if header[0] != b"content-security-policy")  # the page sends its own
STRICT: Header = (b"strict-transport-security", b"max-age=31536000")
PRIVATE: Header = (b"cache-control", b"private, no-store")
GZIP: Header = (b"content-encoding", b"gzip")
VERSION = "/v1/"  # every path below it needs a valid key, except for routes without a scope
REGISTRY = "/v1/packs"  # the path of a public registry of packs, which this server is not
SLICE = 64 * 1024  # bytes of a stream that a connection gets at once
SMALL = 32 * 1024  # bytes; compressing a smaller body takes as long as the rest of the request


class MethodSpec(NamedTuple):
    """One method of a path. A scope of None: it needs no key."""

    endpoint: Endpoint
    scope: str | None


class RouteHandler:
    """One path of the API: an ASGI application that returns the status it answered with."""

    def __init__(self, server: ServerState, methods: Mapping[str, MethodSpec]) -> None:
        self._server, self._methods = server, dict(methods)
        self._open = any(spec.scope is None for spec in methods.values())
        if "GET" in methods:
            self._methods["HEAD"] = methods["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        enter("request")
        call = HttpRequest(self._server, scope, receive)
        try:
            answer = await self._answer(call)
            if isinstance(answer, Response):
                if isinstance(answer.body, bytes):
                    call.reservation.release_body()
                return await _send(answer, call, send)
            if answer is None:
                return 0
            await answer(scope, receive, _stream_send(send, call))
            return 200
        finally:
            call.reservation.release()

    async def _answer(self, call: HttpRequest) -> Response | EventStream | None:
        """The response, also if the endpoint fails. None: the client has disconnected."""
        try:
            call.reservation.reserve_request()
            answer = await self._dispatch(call)
            if not isinstance(answer, Response):
                call.reservation.reserve_stream()
            return answer
        except Refusal as refusal:
            if isinstance(refusal, RouteNotFound):
                return error_response(refusal, call.id)
            params = call.scope.get("path_params", {})
            target = call.target or next(iter(params.values()), call.scope["path"])
            await call.audit_refusal(refusal, target)
            return error_response(refusal, call.id)
        except ClientDisconnected:
            return None
        except Exception as surprise:  # noqa: BLE001  # a bug must not send a traceback to the client
            return internal_error(surprise, call.id)

    async def _dispatch(self, call: HttpRequest) -> Response | EventStream:
        method = call.scope["method"]
        spec = self._methods.get(method)
        if spec is None:
            if not self._open:
                await self._authenticate(call)
            raise MethodNotAllowed(method, sorted(self._methods))
        if spec.scope is None:
            return await spec.endpoint(call)
        await self._authenticate(call)
        if spec.scope:  # "": any valid key will do
            authorize(call.principal, spec.scope)
        return await spec.endpoint(call)

    async def _authenticate(self, call: HttpRequest) -> None:
        """Set the principal of the request. Raises Unauthenticated without a valid key."""
        call.set_principal(await self._server.authenticate(credential_of(call)))
        call.reservation.reserve_tenant_request(call.principal.tenant)


class NotFoundHandler(RouteHandler):
    """
    Answers all paths that have no route.

    Below `/v1/` it needs a valid key first, as most routes do (openwop-contract §2.1); except `/v1/packs`.

    `resources` are the first segments of the paths below `/v1/`: a path that begins with one lacks its version.
    """

    def __init__(self, server: ServerState, resources: Collection[str]) -> None:
        super().__init__(server, {})
        self._resources = frozenset(resources)

    async def _dispatch(self, call: HttpRequest) -> Response | EventStream:
        path: str = call.scope["path"]
        if path == REGISTRY or path.startswith(f"{REGISTRY}/"):
            # clients take a JSON answer for a public registry of packs, also one that asks for a key
            # (openwop-contract §11)
            return Response(b"this server has no pack registry\n", 404, TEXT)
        if path.startswith(VERSION):
            await self._authenticate(call)
        elif resource_of(path) in self._resources:
            raise InvalidRequest(
                Problem("path", f"expected a path with its version, such as {VERSION}{path[1:65]}")
            )
        raise RouteNotFound


class RouteNotFound(NotFound):
    """A path without a route. It names nothing of a tenant, so it is not audited."""

    def __init__(self) -> None:
        super().__init__("no route has this path; /v1/openapi.json lists all routes")


def resource_of(path: str) -> str:
    """The first segment of a path, without a verb: `runs` of `/runs/x` and `/runs:bulk-cancel`."""
    return path[1:].partition("/")[0].partition(":")[0]


def credential_of(call: RequestContext) -> str:
    """The key in `Authorization: Bearer …` or `X-API-Key: …`. If both are sent, they must be equal."""
    header, key = call.header(b"authorization"), call.header(b"x-api-key")
    if header is not None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or key not in (None, token.strip()):
            raise Unauthenticated
        key = token.strip()
    if not key:
        raise Unauthenticated
    return key


async def _send(answer: Response, call: HttpRequest, send: Send) -> int:
    body, status, media, own = answer
    first = (*own, (b"x-request-id", call.id.encode()))
    names = [name for name, _ in own]
    headers = PAGE if media is HTML else SAFE
    if call.scope["scheme"] == "https":
        headers += (STRICT,)
    if b"cache-control" not in names:
        headers += (PRIVATE,)
    if body or status not in (204, 304):
        headers += ((b"content-type", media),)
    head = call.scope["method"] == "HEAD"
    if isinstance(body, bytes):
        if len(body) >= SMALL and call.accepts_gzip and b"content-encoding" not in names:
            body = zlib.compress(body, 1, 31)
            headers += (GZIP,)
        if status not in (204, 304):
            headers += ((b"content-length", b"%d" % len(body)),)
        await send({"type": "http.response.start", "status": status, "headers": [*first, *headers]})
        await send({"type": "http.response.body", "body": b"" if head else body})
        return status
    gzip = call.accepts_gzip
    if gzip:
        headers += (GZIP,)
    start = {"type": "http.response.start", "status": status, "headers": [*first, *headers]}
    return await _stream(start, _gzip(body) if gzip else body, call, send, head_only=head)


async def _stream(
    start: Message, body: AsyncGenerator[bytes], call: HttpRequest, send: Send, *, head_only: bool
) -> int:
    """Send chunk by chunk, while the client reads. The first chunk is made before the status, and may change it."""
    seconds = call.server.serving.send_seconds
    disconnected = asyncio.ensure_future(_wait_for_disconnect(call.receive))
    try:
        async with aclosing(body) as chunks:
            try:
                first = await anext(chunks, b"")
            except Refusal as refusal:
                return await _send(error_response(refusal, call.id), call, send)
            await send(start)
            if not head_only:
                await send({"type": "http.response.body", "body": first, "more_body": True})
                async for chunk in chunks:
                    if disconnected.done():
                        return start["status"]
                    async with asyncio.timeout(seconds):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        log.warning("request %s: the client stopped reading the response", call.id)
    except Refusal as trouble:  # too late for a status: the response is truncated, which HTTP clients detect
        log.error("request %s: response truncated: %s", call.id, trouble)
    finally:
        disconnected.cancel()
        with suppress(asyncio.CancelledError):
            await disconnected
    return start["status"]


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _gzip(body: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    compressor = zlib.compressobj(1, wbits=31)
    async with aclosing(body) as chunks:
        async for chunk in chunks:
            if compressed := compressor.compress(chunk):
                yield compressed
    yield compressor.flush()


def _stream_send(send: Send, call: HttpRequest) -> Send:
    """
    Send a stream with the headers of every response, and a long frame in slices.

    The connection waits for its client after each slice, so a client that does not read holds little memory.
    """
    turn = asyncio.Lock()  # a keep-alive comes before or after a frame, not inside it

    async def outer(message: Message) -> None:
        if message["type"] == "http.response.start":
            more: list[Any] = [(b"x-request-id", call.id.encode()), *SAFE]
            if call.scope["scheme"] == "https":
                more.append(STRICT)
            message = {**message, "headers": [*message["headers"], *more]}
        body = message.get("body", b"")
        async with turn:
            for at in range(0, max(1, len(body)), SLICE):
                if len(body) > SLICE:
                    more_body = at + SLICE < len(body) or message.get("more_body", False)
                    message = {**message, "body": body[at : at + SLICE], "more_body": more_body}
                await send(message)

    return outer


# A route as data: the server, its OpenAPI document and its tests are made of it.


class Parameter(Struct, frozen=True):
    name: str
    schema: dict[str, Any]
    description: str
    location: Literal["query", "header"] = "query"


class ResponseSpec(Struct, frozen=True):
    """One response of a route. `schema` names a schema of the OpenAPI document; \"\": it has none."""

    description: str
    schema: str = ""
    lines: str = ""  # the schema of each line, if the response is also available as application/x-ndjson
    media: str = "application/json"
    headers: tuple[str, ...] = ()
    stream: bool = False  # it is also available as text/event-stream


class RouteSpec(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    endpoint: Endpoint
    scope: str | None  # None: no key is needed; "": any valid key
    id: str
    summary: str
    body: str = ""  # the schema of the request body
    media: str = ""  # the content type of a body that is not JSON
    lines: bool = False  # the body may be NDJSON
    optional: bool = False  # the body may be missing
    hidden: bool = False  # not in the OpenAPI document: a file for a browser
    responses: dict[int, ResponseSpec]
    errors: tuple[int, ...] = ()  # besides those that every such route has
    parameters: tuple[Parameter, ...] = ()


TOKEN = Parameter("page_token", {"type": "string"}, "The `next_page_token` of the page before.")
SIZE = Parameter(
    "page_size",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
    "The largest number of items to return.",
)
LIMIT = Parameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
    "The largest number of items to return.",
)
ARGUMENTS = Parameter(
    "resolved_arguments",
    {"type": "boolean", "default": True},
    "Whether results include the resolved arguments of each check.",
)
ONCE = Parameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
    "The same key with the same request returns the first response again; with another request, 409.",
    "header",
)
MOMENT = {"type": "string", "format": "date-time"}
