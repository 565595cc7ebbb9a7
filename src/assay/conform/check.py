"""A check of a host, what may come of it, and the host as checks see it."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from threading import Lock
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from assay.conform.http_client import Answer, HttpClient
from assay.conform.json_values import Document, is_object
from assay.conform.memory import Memory

T = TypeVar("T")
R = TypeVar("R")
Result = Literal["passed", "failed", "not_offered", "not_tried"]
WORDS: dict[Result, str] = {
    "passed": "passed",
    "failed": "failed",
    "not_offered": "not offered",
    "not_tried": "could not be tried",
}
ABSENT = (404, 405, 501)  # of a route that a host does not have
SHORTEST_KEY = 12  # characters, of a key that is searched for in answers
BUSY = 429  # the status of a host that takes the request later
PATIENCE = 30.0  # seconds that a run waits for a busy host, all requests together
MAX_RECEIVED = 64 * 2**20  # bytes of all answers of a run over HTTP; a whole host of ours sends 2 MB


class Failed(Exception):
    """The host breaks the rule."""


class NotOffered(Exception):
    """The host does not have, and does not claim to have, what the check is about."""


class NotTried(Exception):
    """Something is missing that the check needs, such as a second key."""


class Spent(NotTried):
    """The run has used up its time, or received all the bytes that it takes. No check after it is tried."""


class Outcome(NamedTuple):
    """What came of a check, and how long it took."""

    check: "Check"
    result: Result
    message: str = ""
    seconds: float = 0.0


class Check(NamedTuple):
    """
    A rule that can be seen from outside. `run` raises Failed, NotOffered or NotTried, or returns.

    `last`: it is about the answers that all others got, so it runs after them.
    """

    name: str
    reference: str
    rule: str
    sends: str
    expects: str
    run: "Callable[[Host], None]"
    last: bool = False


class RpcAnswer(NamedTuple):
    """What came of a call over gRPC: the name of its status, and the messages as FEP has them in JSON."""

    code: str
    details: str
    messages: list[Document]
    metadata: dict[str, str]  # at the end of the answer


class RpcClient(Protocol):
    """Calls of one gRPC address. A request is a document of FEP, or bytes that are sent as they are."""

    address: str

    def call(self, method: str, request: Document | bytes, metadata: Mapping[str, str]) -> RpcAnswer: ...


class Keys(NamedTuple):
    """
    The keys of a host. `main` makes everything, `other` is of another tenant, `reader` may only read runs, and
    `approver` answers the approvals that `main` asks for.
    """

    main: str
    other: str | None = None
    reader: str | None = None
    approver: str | None = None


class Budget:
    """What a run may take. Threads may share it."""

    def __init__(self) -> None:
        self.seconds = self.end = math.inf
        self.received = 0  # bytes
        self._waited = 0.0  # seconds, for a host that is busy; those of several threads at a time count once
        self._waits_until = 0.0
        self._lock = Lock()

    def wait(self, answer: Answer) -> bool:
        """Wait as long as a busy host asks for, at most 5 seconds. False: the run has waited enough."""
        asked = answer.headers.get("retry-after", "")
        seconds = min(5.0, max(0.5, float(asked) if asked.isdecimal() else 1.0))
        with self._lock:
            now = time.monotonic()
            until = max(self._waits_until, now + seconds)
            self._waited += until - max(self._waits_until, now)
            self._waits_until = until
            if self._waited > PATIENCE:
                return False
        time.sleep(seconds)
        return True

    def receive(self, size: int) -> None:
        """An answer of so many bytes has come."""
        with self._lock:
            self.received += size

    def check(self) -> None:
        """Spent: nothing is left."""
        if time.monotonic() > self.end:
            raise Spent(f"the run took more than {self.seconds:g} seconds")
        if self.received > MAX_RECEIVED:
            raise Spent(f"the host sent more than {MAX_RECEIVED} bytes")


class Host:
    """
    A host with keys for it, and what the checks have made there so far.

    It has an address of HTTP, one of gRPC, or both.
    """

    def __init__(
        self,
        client: HttpClient | None,
        keys: Keys,
        *,
        agent: str | None = None,
        suite: str | None = None,
        rpc: RpcClient | None = None,
        others: Sequence[HttpClient] = (),
    ) -> None:
        """`others` are more addresses of HTTP of the same host."""
        self._client, self._rpc, self._others = client, rpc, others
        self._keys, self._key = keys, keys.main
        self._agent, self.suite = agent, suite
        self._memory = Memory()
        self.made: list[str] = []  # addresses to delete at the end
        self._shown: list[str] = []  # requests whose answers had the key in them
        self._budget = Budget()

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """
        The answer to a request with the key, or with this one; "" is none. A body of bytes is sent as it is.

        NotTried: the host is busy. Spent: the run is over, and nothing was sent.
        """
        sent = dict(headers or {})
        if key != "":
            sent["Authorization"] = f"Bearer {self._key if key is None else key}"
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        answer = self._ask(method, path, data, sent)
        while answer.status == BUSY:
            if not self._budget.wait(answer):
                raise NotTried(f"{method} {path}: the host is busy{_message_of(answer)}")
            answer = self._ask(method, path, data, sent)
        if self._key and self._key.encode() in answer.body:
            self._shown.append(f"{method} {path}")
        return answer

    def _ask(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> Answer:
        self._budget.check()
        answer = self._http.send(method, path, data, headers)
        self._budget.receive(len(answer.body))
        return answer

    def call(self, method: str, request: Document | bytes, *, key: str | None = None) -> RpcAnswer:
        """The answer to a call over gRPC with the key, or with this one; "" is none."""
        if self._rpc is None:
            raise NotTried("it needs the address of gRPC: --grpc")
        self._budget.check()
        sent = {} if key == "" else {"authorization": f"Bearer {self._key if key is None else key}"}
        answer = self._rpc.call(method, request, sent)
        shown = [answer.details, *answer.metadata.values()]
        if self._key and any(self._key in text for text in shown):
            self._shown.append(method)
        return answer

    def expect_no_key(self) -> None:
        """
        Failed: an answer had the key in it.

        NotTried: the key is so short that an answer has it by chance.
        """
        if len(self._key) < SHORTEST_KEY:
            raise NotTried(f"it needs a key of at least {SHORTEST_KEY} characters: others occur by chance")
        if self._shown:
            raise Failed(f"the answer to {self._shown[0]} has the key in it")

    def limit(self, seconds: float) -> None:
        """From now on requests may be sent for so many seconds, and MAX_RECEIVED bytes may come."""
        self._budget.seconds, self._budget.end, self._budget.received = seconds, time.monotonic() + seconds, 0

    def reach(self) -> None:
        """
        Ask each address once; any answer will do.

        Unanswered: one does not answer. Spent: the run is over.
        """
        if self._client is not None:
            self._ask("GET", "/v1/health", None, {})  # that of a busy host will do too
        if self._rpc is not None:
            with suppress(ValueError):  # it answers with something else
                self.call("HealthCheck", {}, key="")

    @property
    def address(self) -> str:
        """The address of HTTP. NotTried: there is none."""
        return self._http.address

    @property
    def replicas(self) -> "list[Host]":
        """
        The host at each of its addresses. What is made at any of them is deleted at the end.

        NotOffered: it has one address.
        """
        if not self._others:
            raise NotOffered("one address was given; --replica names the others")
        return [self, *self.once("replicas", lambda: [self._at(one) for one in self._others])]

    def _at(self, client: HttpClient) -> "Host":
        """The same host at another address, where nothing is known yet."""
        other = copy(self)
        other._client, other._memory = client, Memory()
        return other

    @property
    def deletes(self) -> bool:
        """Whether there is a route that deletes: gRPC has none."""
        return self._client is not None

    @property
    def _http(self) -> HttpClient:
        if self._client is None:
            raise NotTried("it needs the address of HTTP: URL")
        return self._client

    @property
    def other_key(self) -> str:
        """The key of another tenant. NotTried: there is none."""
        return _given(self._keys.other, "the key of another tenant: --other-key")

    @property
    def reader_key(self) -> str:
        """A key of the tenant that may only read runs. NotTried: there is none."""
        return _given(self._keys.reader, "a key of this tenant that may only read runs: --reader-key")

    @property
    def approver_key(self) -> str:
        """The key that answers approvals: that of an approver, or the main one."""
        return self._keys.approver or self._key

    @property
    def agent(self) -> str:
        """The id of the agent to run. NotTried: there is none."""
        return _given(self._agent, "an agent of the host: --agent")

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` returned, or raised, when it was first called under this name. Others wait for it meanwhile."""
        return self._memory.once(name, make, (Failed, NotOffered, NotTried))


def _given(value: str | None, what: str) -> str:
    if value is None:
        raise NotTried(f"it needs {what}")
    return value


def expect_status(answer: Answer, statuses: int | tuple[int, ...], what: str) -> None:
    """Failed: the answer has another status."""
    wanted = (statuses,) if isinstance(statuses, int) else statuses
    if answer.status not in wanted:
        came = f"{answer.status}{_message_of(answer)}"
        raise Failed(f"{what}: expected {' or '.join(map(str, wanted))}, got {came}")


def refused_as(answer: Answer, statuses: int | tuple[int, ...], what: str) -> Document:
    """The error body of a refusal with one of these statuses. Failed: the answer is something else."""
    expect_status(answer, statuses, what)
    return expect_error_body(answer, what)


def expect(holds: Any, message: str) -> None:
    """Failed: it does not hold."""
    if not holds:
        raise Failed(message)


def document_of(answer: Answer, what: str) -> Document:
    """The object of an answer. Failed: it is none."""
    try:
        document = answer.document()
    except ValueError as wrong:
        raise Failed(f"{what}: expected JSON, got {wrong}") from None
    if not is_object(document):
        raise Failed(f"{what}: expected an object of JSON")
    return document


def expect_error_body(answer: Answer, what: str) -> Document:
    """Failed: the body is not that of an error."""
    body = document_of(answer, what)
    for name in ("error", "message"):
        if not isinstance(body.get(name), str) or not body[name]:
            raise Failed(f"{what}: expected an error with a text in {name}, got {sorted(body)}")
    if "details" in body and not is_object(body["details"]):
        raise Failed(f"{what}: expected an object in details")
    return body


def at_once(
    ask: Callable[[T], R], values: Iterable[T], most: int = 16, stop: Callable[[], None] | None = None
) -> list[R]:
    """
    What requests at the same time return, in the order of the values; at most so many are under way.

    `stop` is called before the others are waited for when one raises, or Ctrl-C comes.
    """
    found = list(values)
    with ThreadPoolExecutor(max(1, min(most, len(found)))) as pool:
        ended = False
        try:
            results = list(pool.map(ask, found))
            ended = True
        finally:
            if not ended and stop is not None:
                stop()
        return results


def _message_of(answer: Answer) -> str:
    try:
        body = answer.document()
    except ValueError:
        return ""
    message = body.get("message") if is_object(body) else None
    return f": {message}" if isinstance(message, str) else ""
