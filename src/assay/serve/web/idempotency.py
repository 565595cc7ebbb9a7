"""
Idempotency-Key: the same key with the same request gives the same run, with another request 409 (openwop-contract §3.6).

What is kept of a key is written in the same transaction as what it started, so that there is never one without the other. Only what
came of a request is kept, not that it was refused.
"""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from assay.errors import Conflict, IdempotencyKeyReused, InvalidRequest, Problem
from assay.ports import PutDocument, Transaction
from assay.serve.web.request import RequestContext, ServerState
from assay.serve.web.responses import Headers

KIND = "idempotency"
LONGEST = 255
REPLAYED: Headers = ((b"openwop-idempotent-replay", b"true"),)
T = TypeVar("T")


class StoredResponse(Struct, frozen=True, omit_defaults=True):
    """What a key stood for, and what came of it: a run, or an answer as it went out."""

    digest: str
    run: str = ""
    answer: msgspec.Raw = msgspec.Raw(b"")


class Started(NamedTuple):
    """A run, by id, and whether an earlier request started it."""

    run: str
    replayed: bool


_decode = msgspec.json.Decoder(StoredResponse).decode
_encode = msgspec.json.Encoder().encode


class IdempotentRequest:
    """One request with its key. Without a key everything is done, and nothing is kept."""

    def __init__(self, call: RequestContext, operation: str, digest: Callable[[], str]) -> None:
        self._call, self._operation, self._make_digest = call, operation, digest
        self._made = ""
        self._given = call.header(b"idempotency-key")
        if self._given is not None and not (0 < len(self._given) <= LONGEST and self._given.isprintable()):
            raise InvalidRequest(
                Problem(
                    "Idempotency-Key", f"expected 1 to {LONGEST} printable characters, got {len(self._given)}"
                )
            )

    @property
    def keyed(self) -> bool:
        return self._given is not None

    def _digest(self) -> str:
        self._made = self._made or self._make_digest()
        return self._made

    def key(self, part: str = "") -> str:
        """Where it is kept: of the tenant, the operation and the key; and of a part of the request."""
        named = f"{self._operation}\n{self._given}"
        return f"{hashlib.sha256(named.encode('utf-8', 'replace')).hexdigest()}{part}"

    def put(self, kept: StoredResponse, part: str = "") -> PutDocument:
        return PutDocument(tenant=self._call.tenant, kind=KIND, key=self.key(part), data=_encode(kept))

    async def kept(self, digest: str, part: str = "") -> StoredResponse | None:
        document = await self._call.server.store.document(self._call.tenant, KIND, self.key(part))
        if document is None:
            return None
        kept = _decode(document.data)
        if kept.digest != digest:
            raise IdempotencyKeyReused(
                "this Idempotency-Key came with another request before: take a new one for a new request"
            )
        return kept

    async def start(
        self, run: str, begin: Callable[[list[PutDocument]], Awaitable[object]], part: str = ""
    ) -> Started:
        """Begin a run of this id, with what must be written along; or find the one that was begun before."""
        if not self.keyed:
            await begin([])
            return Started(run, replayed=False)
        digest = self._digest()

        async def start() -> str:
            await begin([self.put(StoredResponse(digest=digest, run=run), part)])
            return run

        async def old() -> str | None:
            kept = await self.kept(digest, part)
            return None if kept is None else kept.run

        return Started(*await self._once(start, old, part))

    async def made(
        self, make: Callable[[Callable[[T], list[PutDocument]]], Awaitable[T]], kind: type[T]
    ) -> tuple[T, bool]:
        """
        An answer that is small enough to be kept itself; and whether it is an old one.

        `make` writes what goes along with its answer in the transaction that makes it.
        """
        if not self.keyed:
            return await make(lambda _: []), False
        digest = self._digest()

        def along(answer: T) -> list[PutDocument]:
            return [self.put(StoredResponse(digest=digest, answer=msgspec.Raw(_encode(answer))))]

        async def old() -> T | None:
            kept = await self.kept(digest)
            return None if kept is None else msgspec.json.decode(kept.answer, type=kind)

        return await self._once(lambda: make(along), old)

    async def done(
        self,
        do: Callable[[list[PutDocument]], Awaitable[T]],
        again: Callable[[], Awaitable[T]],
        part: str = "",
    ) -> tuple[T, bool]:
        """
        Something that can be seen at a run, and that the same request does not do twice; and whether it was done before.

        `do` writes what it is given in the transaction in which it begins. `again` says how it stands, and goes on with what a
        crash cut off.
        """
        if not self.keyed:
            return await do([]), False
        digest = self._digest()

        async def old() -> T | None:
            return None if await self.kept(digest, part) is None else await again()

        return await self._once(lambda: do([self.put(StoredResponse(digest=digest), part)]), old, part)

    async def _once(
        self, do: Callable[[], Awaitable[T]], old: Callable[[], Awaitable[T | None]], part: str = ""
    ) -> tuple[T, bool]:
        async with self._call.server.locks.of((self._call.tenant, self.key(part))):
            if (before := await old()) is not None:
                return before, True
            try:
                return await do(), False
            except Conflict:  # another process may have had the same key at the same moment
                if (before := await old()) is None:
                    raise
                return before, True

    async def answered(
        self, make: Callable[[], Awaitable[T]], kind: type[T], final: Callable[[T], bool]
    ) -> tuple[T, bool]:
        """
        An answer of many parts, each of which is kept with what it made; it is kept itself, if it is final.

        Without it the parts are found by their own keys, and give the same answer.
        """
        if not self.keyed:
            return await make(), False
        digest = self._digest()
        async with self._call.server.locks.of((self._call.tenant, self.key())):
            if (kept := await self.kept(digest)) is not None:
                return msgspec.json.decode(kept.answer, type=kind), True
            answer = await make()
            if not final(answer):
                return answer, False
            try:
                put = self.put(StoredResponse(digest=digest, answer=msgspec.Raw(_encode(answer))))
                await self._call.server.store.commit(Transaction(documents=[put]))
            except Conflict:
                if (kept := await self.kept(digest)) is not None:
                    return msgspec.json.decode(kept.answer, type=kind), True
                raise
        return answer, False


async def sweep(server: ServerState) -> None:
    """Forget keys that are old enough."""
    before = server.clock.now() - timedelta(hours=max(24.0, server.serving.replay_hours))
    while await server.store.sweep(KIND, before=before):
        pass
