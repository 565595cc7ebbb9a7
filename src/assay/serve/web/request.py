"""One request on its way: who is asking, its headers and its query, and the host it is put to."""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import count
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from assay.auth.audit import note_refusal
from assay.errors import InvalidRequest, NotFound, Problem, Refusal, Unavailable
from assay.fep.run_header import KIND
from assay.fep.service import EvaluationService
from assay.ports import Principal, Run
from assay.ports.audit import Actor, acting
from assay.runs.executor import RunExecutor
from assay.serve.fep.events_feed import EvaluationFeeds
from assay.serve.fep.plan_cache import PlanCache
from assay.serve.web.admission import AdmissionControl
from assay.serve.web.keyed_lock import KeyedLock
from assay.serve.web.limits import ServerLimits
from assay.workers import pool

Receive = Callable[[], Awaitable[Any]]
Authenticate = Callable[[str], Awaitable[Principal]]
T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NAMED = re.compile(r"[A-Za-z0-9_./:-]{1,128}")
_WEIGHT = re.compile(r"q=[01](\.[0-9]{0,3})?")
MOST = 128  # characters of a name that are kept
MOST_PARAMETERS = 64  # of a query, and of one choice in an Accept
MOST_CHOICES = 64  # in an Accept
ANONYMOUS = Principal(tenant="", id="")
_HERE, _NUMBERS = f"req_{secrets.token_hex(6)}_", count()


def new_request_id() -> str:
    """Of a request that brought none."""
    return f"{_HERE}{next(_NUMBERS):x}"


class ClientDisconnected(Exception):
    """The client went away: there is nobody to answer."""


class Followed(Protocol):
    """Something whose followers are sent home."""

    def stop(self) -> None: ...


class ServerState:
    """What requests are put to: one process's."""

    def __init__(
        self, desk: RunExecutor, office: EvaluationService, authenticate: Authenticate, serving: ServerLimits
    ) -> None:
        self.desk, self.office, self.authenticate, self.serving = desk, office, authenticate, serving
        self.limits = office.services.limits
        self.clock = office.services.clock
        self.load = AdmissionControl(serving, desk)
        self.plans = PlanCache(office)
        self.feeds = EvaluationFeeds(office.store)
        self.turns = KeyedLock()
        self.large = asyncio.Semaphore(
            1
        )  # for what is decoded in a thread: two of them would keep the loop waiting
        self.stopping = asyncio.Event()
        self.openapi = b""
        self.surface: Followed | None = None  # of OpenWOP, where it is offered

    def stop(self) -> None:
        """Nobody waits any longer; the desk decides what becomes of the runs."""
        self.stopping.set()
        self.load.stopping = True
        self.feeds.close()
        if self.surface is not None:
            self.surface.stop()


def together(lines: Collection[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers by name. What is said more than once is a list (RFC 9110 §5.3), and so no key, no type and no number."""
    found = dict(lines)
    if len(found) != len(lines):
        values: dict[bytes, list[bytes]] = {}
        for name, value in lines:
            values.setdefault(name, []).append(value)
        found = {name: b", ".join(all) for name, all in values.items()}
    return found


def weights_of(accepted: bytes) -> dict[str, float]:
    """What an Accept or Accept-Encoding takes, and how gladly (RFC 9110 §12.4.2). A longer list is read no further."""
    weights: dict[str, float] = {}
    for one in accepted.decode("latin-1").split(",", MOST_CHOICES)[:MOST_CHOICES]:
        name, *parameters = (part.strip() for part in one.split(";", MOST_PARAMETERS))
        said = next((part for part in parameters if part.startswith("q=")), "q=1")
        weights[name] = float(said[2:]) if _WEIGHT.fullmatch(said) else 1.0
    return weights


class RequestContext:
    """What every transport's requests have."""

    __slots__ = ("headers", "host", "id", "named", "share", "who")

    def __init__(self, host: ServerState, headers: dict[bytes, bytes]) -> None:
        self.host, self.headers = host, headers
        self.share = host.load.share()
        self.who = ANONYMOUS
        self.named = ""  # the run it is about, once that is known
        given = self.header(b"x-request-id")
        self.id = given if given and len(given) <= 64 and NAME.fullmatch(given) else new_request_id()
        acting.set(Actor(request=self.id))

    def by(self, who: Principal) -> None:
        """Now it is known who is asking."""
        self.who = who
        acting.set(Actor(who.id[:MOST], self.id))
        pool.owner.set(who.tenant)

    async def note(self, refusal: Refusal, what: str = "") -> None:
        """That it was refused, if somebody we know is asking."""
        if self.who is not ANONYMOUS:
            await note_refusal(
                self.host.office.store, self.who, what if _NAMED.fullmatch(what) else "", refusal
            )

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1").strip()

    @property
    def tenant(self) -> str:
        return self.who.tenant

    async def run_named(self, said: str) -> Run:
        """What cannot be an id is as unknown as one that never was."""
        self.named = said
        if not NAME.fullmatch(said):
            raise NotFound(f"there is no run {said[:128]!r}")
        return await self.host.desk.get(said, self.tenant, KIND)

    async def unless_gone(self, what: Awaitable[T]) -> T:
        """Wait for something as long as there is somebody to tell, and this host goes on."""
        wanted = asyncio.ensure_future(what)
        gone = asyncio.ensure_future(self.gone())
        stopping = asyncio.ensure_future(self.host.stopping.wait())
        try:
            await asyncio.wait({wanted, gone, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if wanted.done():
                return wanted.result()
            if gone.done():
                raise ClientDisconnected
            raise Unavailable(
                "this host is about to stop; what was begun goes on when it is back", retry_after=5
            )
        finally:
            for task in (wanted, gone, stopping):
                task.cancel()

    async def aside(self, work: Callable[[], T]) -> T:
        """Something that is long, in a thread, one at a time."""
        async with self.host.large:
            return await asyncio.to_thread(work)

    async def gone(self) -> None:
        """Once the client is; a transport that cancels what nobody waits for never says so."""
        await asyncio.Event().wait()


class HttpRequest(RequestContext):
    """One over HTTP."""

    __slots__ = ("receive", "scope")

    def __init__(self, host: ServerState, scope: Mapping[str, Any], receive: Receive) -> None:
        super().__init__(host, together(scope["headers"]))
        self.scope, self.receive = scope, receive

    @property
    def base_url(self) -> str:
        """As the client called us."""
        host = self.header(b"host") or "127.0.0.1"
        return f"{self.scope.get('scheme', 'http')}://{host}"

    @property
    def wants_lines(self) -> bool:
        accepted = self.headers.get(b"accept", b"").lower()
        if b"application/x-ndjson" not in accepted:
            return False
        weights = weights_of(accepted)
        lines = weights.get("application/x-ndjson", 0.0)
        return lines > 0 and lines >= weights.get("application/json", 0.0)

    @property
    def zips(self) -> bool:
        """Whether the client takes gzip (RFC 9110 §12.5.3)."""
        accepted = self.headers.get(b"accept-encoding")
        if accepted is None:
            return False
        weights = weights_of(accepted.lower())
        return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0

    def query(self, *known: str) -> dict[str, str]:
        """The parameters, each at most once and none that is unknown."""
        if not self.scope["query_string"]:
            return {}
        query: bytes = self.scope["query_string"]
        if query.count(b"&") >= MOST_PARAMETERS:
            raise InvalidRequest(f"a query has more than {MOST_PARAMETERS} parameters")
        given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        problems: list[Problem] = []
        found: dict[str, str] = {}
        for name, value in given:
            if name not in known:
                there = ", ".join(known) or "none"
                problems.append(Problem(name[:100], f"no such parameter; there are: {there}"))
            elif name in found:
                problems.append(Problem(name, "given twice"))
            found[name] = value
        if problems:
            raise InvalidRequest(problems)
        return found

    @property
    def run_id(self) -> str:
        """The id in the path."""
        (said,) = self.scope["path_params"].values()
        return said

    async def run(self) -> Run:
        return await self.run_named(self.run_id)

    async def gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
