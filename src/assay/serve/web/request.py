"""One request: its principal, headers and query, and the state of the server that answers it."""

import asyncio
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import count
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from assay.auth.audit import audit_read, note_refusal
from assay.concurrency.event_loop import KeyedLock
from assay.concurrency.workers import batch
from assay.errors import EnvironmentFailure, InvalidRequest, NotFound, Problem, Refusal, Unavailable
from assay.ports import Clock, Limits, Principal, Run, Store, store_patience
from assay.ports.audit import AuditActor, acting
from assay.runs.executor import RunExecutor
from assay.serve.web.admission import AdmissionControl
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.worker_group import WorkerMember

Receive = Callable[[], Awaitable[Any]]
Authenticate = Callable[[str], Awaitable[Principal]]
T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_AUDITABLE = re.compile(r"[A-Za-z0-9_./:-]{1,128}")
_WEIGHT = re.compile(r"q=[01](\.[0-9]{0,3})?")
MAX_PRINCIPAL = 128  # characters of a principal's id that are recorded
MAX_PARAMETERS = 64  # in a query, and in one choice of an Accept header
MAX_CHOICES = 64  # in an Accept header
STORE_SECONDS = 2.5  # that a request waits for a database that does not answer; then it is 503
ANONYMOUS = Principal(tenant="", id="")
_COUNTER = count()
_process = ""


def _name_process() -> None:
    """The part of request ids that no other process has; a forked process gets its own."""
    global _process  # noqa: PLW0603
    _process = f"req_{secrets.token_hex(6)}_"


_name_process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_name_process)


def new_request_id() -> str:
    """The id of a request that brought none."""
    return f"{_process}{next(_COUNTER):x}"


class ClientDisconnected(Exception):
    """The client closed its connection: the request gets no answer."""


class Resource(Protocol):
    """State that a package of routes keeps on the server, such as event feeds."""

    def stop(self) -> None:
        """End the open streams; the server is about to stop."""
        ...


R = TypeVar("R", bound=Resource)


class ServerState:
    """What all requests of one process share. It knows no kind of run: packages of routes attach their own state."""

    def __init__(
        self,
        executor: RunExecutor,
        authenticate: Authenticate,
        serving: ServerLimits,
        *,
        limits: Limits,
        clock: Clock,
        member: WorkerMember | None = None,
    ) -> None:
        """`member`: this process is one of several workers of the server."""
        self.executor, self.authenticate, self.serving, self.member = executor, authenticate, serving, member
        self.store, self.limits, self.clock = executor.store, limits, clock
        self.admission = AdmissionControl(serving, executor, member)
        self.locks = KeyedLock()
        self.stopping = asyncio.Event()
        self.openapi = b""
        self.probe = StoreProbe(executor.store)
        self._resources: dict[type[Any], Resource] = {}

    def attach(self, resource: Resource) -> None:
        self._resources[type(resource)] = resource

    def resource(self, kind: type[R]) -> R:
        """The attached state of this type; NotFound if this server does not have its routes."""
        resource = self._resources.get(kind)
        if not isinstance(resource, kind):
            raise NotFound(f"this server has no {kind.__name__}")
        return resource

    def stop(self) -> None:
        """End all waits and streams. What becomes of the runs is the executor's decision."""
        self.stopping.set()
        self.admission.stopping = True
        for resource in self._resources.values():
            resource.stop()


def headers_by_name(lines: Collection[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """
    Headers by name; the values of a repeated header are joined with commas (RFC 9110 §5.3).

    A joined value is not a valid API key, content type or number, so a repeated header of that sort is refused later.
    """
    headers = dict(lines)
    if len(headers) != len(lines):
        values: dict[bytes, list[bytes]] = {}
        for name, value in lines:
            values.setdefault(name, []).append(value)
        headers = {name: b", ".join(all) for name, all in values.items()}
    return headers


def weights_of(header: bytes) -> dict[str, float]:
    """The choices of an Accept or Accept-Encoding header with their weights (RFC 9110 §12.4.2), up to `MAX_CHOICES`."""
    weights: dict[str, float] = {}
    for choice in header.decode("latin-1").split(",", MAX_CHOICES)[:MAX_CHOICES]:
        name, *parameters = (part.strip() for part in choice.split(";", MAX_PARAMETERS))
        weight = next((part for part in parameters if part.startswith("q=")), "q=1")
        weights[name] = float(weight[2:]) if _WEIGHT.fullmatch(weight) else 1.0
    return weights


class RequestContext:
    """What a request has over any transport."""

    __slots__ = ("headers", "id", "principal", "reservation", "server", "target")

    def __init__(self, server: ServerState, headers: dict[bytes, bytes]) -> None:
        self.server, self.headers = server, headers
        self.reservation = server.admission.reservation()
        self.principal = ANONYMOUS
        self.target = ""  # the id of the run that the request names
        id = self.header(b"x-request-id")
        self.id = id if id and len(id) <= 64 and NAME.fullmatch(id) else new_request_id()
        acting.set(AuditActor(request=self.id))
        store_patience.set(STORE_SECONDS)

    def set_principal(self, principal: Principal) -> None:
        """Authentication succeeded: audit entries, log lines and worker processes now belong to this principal."""
        self.principal = principal
        acting.set(AuditActor(principal.id[:MAX_PRINCIPAL], self.id))
        batch.owner.set(principal.tenant)

    async def audit_read(self, run: Run, *, content: bool = True) -> None:
        """Record that this request reads a run, before any of it is sent. Erased content is refused."""
        await audit_read(self.server.store, run, content=content)

    async def audit_refusal(self, refusal: Refusal, target: str = "") -> None:
        """Record that an authenticated request was refused."""
        if self.principal is not ANONYMOUS:
            subject = target if _AUDITABLE.fullmatch(target) else ""
            await note_refusal(self.server.store, self.principal, subject, refusal)

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1").strip()

    @property
    def tenant(self) -> str:
        return self.principal.tenant

    async def until_disconnect(self, awaitable: Awaitable[T]) -> T:
        """Wait for `awaitable`; stop waiting when the client disconnects or the server stops."""
        task = asyncio.ensure_future(awaitable)
        disconnected = asyncio.ensure_future(self.wait_for_disconnect())
        stopping = asyncio.ensure_future(self.server.stopping.wait())
        try:
            await asyncio.wait({task, disconnected, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if disconnected.done():
                raise ClientDisconnected
            raise Unavailable("the server is stopping; the run continues when it is back", retry_after=5)
        finally:
            for future in (task, disconnected, stopping):
                future.cancel()

    async def wait_for_disconnect(self) -> None:
        """Return when the client has disconnected. A transport that cancels the task instead never returns."""
        await asyncio.Event().wait()


class HttpRequest(RequestContext):
    """A request over HTTP."""

    __slots__ = ("receive", "scope")

    def __init__(self, server: ServerState, scope: Mapping[str, Any], receive: Receive) -> None:
        super().__init__(server, headers_by_name(scope["headers"]))
        self.scope, self.receive = scope, receive

    @property
    def base_url(self) -> str:
        """The URL of this server, as the client addressed it."""
        host = self.header(b"host") or "127.0.0.1"
        return f"{self.scope.get('scheme', 'http')}://{host}"

    @property
    def accepts_ndjson(self) -> bool:
        accept = self.headers.get(b"accept", b"").lower()
        if b"application/x-ndjson" not in accept:
            return False
        weights = weights_of(accept)
        lines = weights.get("application/x-ndjson", 0.0)
        return lines > 0 and lines >= weights.get("application/json", 0.0)

    @property
    def accepts_gzip(self) -> bool:
        """Whether the client accepts gzip (RFC 9110 §12.5.3)."""
        accept = self.headers.get(b"accept-encoding")
        if accept is None:
            return False
        weights = weights_of(accept.lower())
        return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0

    def query(self, *names: str) -> dict[str, str]:
        """The query parameters. A name not in `names`, or given twice, is refused."""
        if not self.scope["query_string"]:
            return {}
        query: bytes = self.scope["query_string"]
        if query.count(b"&") >= MAX_PARAMETERS:
            raise InvalidRequest(f"a query has more than {MAX_PARAMETERS} parameters")
        problems: list[Problem] = []
        params: dict[str, str] = {}
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name not in names:
                there = ", ".join(names) or "none"
                problems.append(Problem(name[:100], f"unknown parameter; expected one of: {there}"))
            elif name in params:
                problems.append(Problem(name, "given twice"))
            params[name] = value
        if problems:
            raise InvalidRequest(problems)
        return params

    @property
    def run_id(self) -> str:
        """The id in the path."""
        (id,) = self.scope["path_params"].values()
        return id

    async def wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


# Conditional requests: If-None-Match (RFC 9110 §13.1.2).

WEAK = b"W/"


def matches(call: HttpRequest, tag: bytes) -> bool:
    """Whether the client already has what this entity tag stands for. The comparison is weak."""
    header = call.headers.get(b"if-none-match", b"")
    return header.strip() == b"*" or tag.removeprefix(WEAK) in [
        part.strip().removeprefix(WEAK) for part in header.split(b",")
    ]


# Whether the store of a server answers. Probes need no key, so the answer is shared for a second.

SECONDS = 1.0  # that an answer is valid


class StoreProbe:
    """Asks the store at most once a second, however many probes come."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._until = 0.0
        self._unavailable: str | None = None

    async def check(self) -> None:
        """Raise Unavailable if the store does not answer."""
        if time.monotonic() >= self._until:  # callers at the same time share one question to the store
            try:
                await self._store.ping()
                self._unavailable = None
            except EnvironmentFailure as failure:
                self._unavailable = str(failure)
            self._until = time.monotonic() + SECONDS
        if self._unavailable is not None:
            raise Unavailable(self._unavailable, retry_after=2, reason="database")
