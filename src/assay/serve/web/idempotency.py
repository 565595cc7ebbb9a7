"""
Idempotency-Key: the same key with the same request returns the same run; with another request, 409 (openwop-contract
§3.6).

The key is stored in the same transaction as the effect of its request, so neither exists without the other. A refusal
is not stored.
"""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from assay.errors import Conflict, IdempotencyKeyReused, InvalidRequest, Problem
from assay.ports import PutDocument, Transaction
from assay.runs.erasure import IDEMPOTENCY as KIND
from assay.serve.web.request import RequestContext, ServerState
from assay.serve.web.responses import Headers

MAX_LENGTH = 255
REPLAYED: Headers = ((b"openwop-idempotent-replay", b"true"),)
T = TypeVar("T")


class StoredResponse(Struct, frozen=True, omit_defaults=True):
    """The digest of the request that used a key, and its effect: a run, or the response as it was sent."""

    digest: str
    run: str = ""
    answer: msgspec.Raw = msgspec.Raw(b"")


class IdempotentStart(NamedTuple):
    """The id of a run, and whether an earlier request started it."""

    run: str
    replayed: bool


_decode = msgspec.json.Decoder(StoredResponse).decode
_encode = msgspec.json.Encoder().encode


class IdempotentRequest:
    """A request with its key. Without a key every method does its work and stores nothing."""

    def __init__(self, call: RequestContext, operation: str, digest: Callable[[], str]) -> None:
        self._call, self._operation, self._make_digest = call, operation, digest
        self._digest_value = ""
        self._key = call.header(b"idempotency-key")
        if self._key is not None and not (0 < len(self._key) <= MAX_LENGTH and self._key.isprintable()):
            raise InvalidRequest(
                Problem(
                    "Idempotency-Key",
                    f"expected 1 to {MAX_LENGTH} printable characters, got {len(self._key)}",
                )
            )

    @property
    def has_key(self) -> bool:
        return self._key is not None

    def _digest(self) -> str:
        self._digest_value = self._digest_value or self._make_digest()
        return self._digest_value

    def key(self, part: str = "") -> str:
        """The document key: of the operation and the client's key, and of a part of the request."""
        name = f"{self._operation}\n{self._key}"
        return f"{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()}{part}"

    def put(self, response: StoredResponse, part: str = "") -> PutDocument:
        return PutDocument(tenant=self._call.tenant, kind=KIND, key=self.key(part), data=_encode(response))

    async def stored_response(self, digest: str, part: str = "") -> StoredResponse | None:
        document = await self._call.server.store.document(self._call.tenant, KIND, self.key(part))
        if document is None:
            return None
        stored = _decode(document.data)
        if stored.digest != digest:
            raise IdempotencyKeyReused(
                "this Idempotency-Key was used with another request; use a new key for a new request"
            )
        return stored

    async def start(
        self, run: str, begin: Callable[[list[PutDocument]], Awaitable[object]], part: str = ""
    ) -> IdempotentStart:
        """Start a run with this id, or find an earlier request's. `begin` gets the documents to write with it."""
        if not self.has_key:
            await begin([])
            return IdempotentStart(run, replayed=False)
        digest = self._digest()

        async def start() -> str:
            await begin([self.put(StoredResponse(digest=digest, run=run), part)])
            return run

        async def old() -> str | None:
            stored = await self.stored_response(digest, part)
            return None if stored is None else stored.run

        return IdempotentStart(*await self._run_once(start, old, part))

    async def create(
        self, make: Callable[[Callable[[T], list[PutDocument]]], Awaitable[T]], kind: type[T]
    ) -> tuple[T, bool]:
        """
        A response small enough to be stored itself; and whether an earlier request made it.

        `make` gets a function from its response to the documents that it must write in the same transaction.
        """
        if not self.has_key:
            return await make(lambda _: []), False
        digest = self._digest()

        def documents(answer: T) -> list[PutDocument]:
            return [self.put(StoredResponse(digest=digest, answer=msgspec.Raw(_encode(answer))))]

        async def old() -> T | None:
            stored = await self.stored_response(digest)
            return None if stored is None else msgspec.json.decode(stored.answer, type=kind)

        return await self._run_once(lambda: make(documents), old)

    async def perform(
        self,
        action: Callable[[list[PutDocument]], Awaitable[T]],
        replay: Callable[[], Awaitable[T]],
        part: str = "",
    ) -> tuple[T, bool]:
        """
        An effect on a run that the same request has only once; and whether an earlier request had it.

        `action` writes the given documents in its first transaction. `replay` returns the present state, and continues
        what a crash interrupted.
        """
        if not self.has_key:
            return await action([]), False
        digest = self._digest()

        async def old() -> T | None:
            return None if await self.stored_response(digest, part) is None else await replay()

        return await self._run_once(
            lambda: action([self.put(StoredResponse(digest=digest), part)]), old, part
        )

    async def _run_once(
        self, action: Callable[[], Awaitable[T]], old: Callable[[], Awaitable[T | None]], part: str = ""
    ) -> tuple[T, bool]:
        async with self._call.server.locks.hold((self._call.tenant, self.key(part))):
            if (before := await old()) is not None:
                return before, True
            try:
                return await action(), False
            except Conflict:  # another process may have had the same key at the same moment
                if (before := await old()) is None:
                    raise
                return before, True

    async def collect(
        self, make: Callable[[], Awaitable[T]], kind: type[T], final: Callable[[T], bool]
    ) -> tuple[T, bool]:
        """
        A response of many parts, each stored with its own effect. The response itself is stored if it is `final`.

        Without it the parts are found by their own keys and give the same response.
        """
        if not self.has_key:
            return await make(), False
        digest = self._digest()
        async with self._call.server.locks.hold((self._call.tenant, self.key())):
            if (stored := await self.stored_response(digest)) is not None:
                return msgspec.json.decode(stored.answer, type=kind), True
            answer = await make()
            if not final(answer):
                return answer, False
            try:
                put = self.put(StoredResponse(digest=digest, answer=msgspec.Raw(_encode(answer))))
                await self._call.server.store.commit(Transaction(documents=[put]))
            except Conflict:
                if (stored := await self.stored_response(digest)) is not None:
                    return msgspec.json.decode(stored.answer, type=kind), True
                raise
        return answer, False


async def sweep(server: ServerState) -> None:
    """Delete the keys older than `replay_hours`."""
    before = server.clock.now() - timedelta(hours=max(24.0, server.serving.replay_hours))
    while await server.store.sweep(KIND, before=before):
        pass
