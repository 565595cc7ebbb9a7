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

from assay.errors import Conflict, InvalidRequest, KeyReused, Problem
from assay.ports import Batch, Put
from assay.serve.rest.answers import Headers
from assay.serve.rest.call import Asking, Host

KIND = "idempotency"
LONGEST = 255
REPLAYED: Headers = ((b"openwop-idempotent-replay", b"true"),)
T = TypeVar("T")


class Kept(Struct, frozen=True, omit_defaults=True):
    """What a key stood for, and what came of it: a run, or an answer as it went out."""

    digest: str
    run: str = ""
    answer: msgspec.Raw = msgspec.Raw(b"")


class Started(NamedTuple):
    """A run, by id, and whether an earlier request started it."""

    run: str
    replayed: bool


_decode = msgspec.json.Decoder(Kept).decode
_encode = msgspec.json.Encoder().encode


class Once:
    """One request with its key. Without a key everything is done, and nothing is kept."""

    def __init__(self, call: Asking, operation: str, digest: Callable[[], str]) -> None:
        self._call, self._operation, self._make_digest = call, operation, digest
        self._made = ""
        self._given = call.header(b"idempotency-key")
        if self._given is not None and not (0 < len(self._given) <= LONGEST and self._given.isprintable()):
            raise InvalidRequest(
                Problem(
                    "Idempotency-Key", f"wanted 1 to {LONGEST} printable characters, got {len(self._given)}"
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

    def put(self, kept: Kept, part: str = "") -> Put:
        return Put(tenant=self._call.tenant, kind=KIND, key=self.key(part), data=_encode(kept))

    async def kept(self, digest: str, part: str = "") -> Kept | None:
        document = await self._call.host.office.store.document(self._call.tenant, KIND, self.key(part))
        if document is None:
            return None
        kept = _decode(document.data)
        if kept.digest != digest:
            raise KeyReused(
                "this Idempotency-Key came with another request before: take a new one for a new request"
            )
        return kept

    async def start(
        self, run: str, begin: Callable[[list[Put]], Awaitable[object]], part: str = ""
    ) -> Started:
        """Begin a run of this id, with what must be written along; or find the one that was begun before."""
        if not self.keyed:
            await begin([])
            return Started(run, replayed=False)
        digest = self._digest()
        async with self._call.host.turns.of((self._call.tenant, self.key(part))):
            if (kept := await self.kept(digest, part)) is not None:
                return Started(kept.run, replayed=True)
            try:
                await begin([self.put(Kept(digest=digest, run=run), part)])
            except Conflict as conflict:  # another process had the same key at the same moment
                if conflict.what != "exists" or (kept := await self.kept(digest, part)) is None:
                    raise
                return Started(kept.run, replayed=True)
        return Started(run, replayed=False)

    async def answered(
        self, make: Callable[[], Awaitable[T]], kind: type[T], final: Callable[[T], bool]
    ) -> tuple[T, bool]:
        """An answer that is small enough to be kept itself, if it is final; and whether it is an old one."""
        if not self.keyed:
            return await make(), False
        digest = self._digest()
        async with self._call.host.turns.of((self._call.tenant, self.key())):
            if (kept := await self.kept(digest)) is not None:
                return msgspec.json.decode(kept.answer, type=kind), True
            answer = await make()
            if not final(answer):
                return answer, False
            try:
                put = self.put(Kept(digest=digest, answer=msgspec.Raw(_encode(answer))))
                await self._call.host.office.store.commit(Batch(documents=[put]))
            except Conflict:
                if (kept := await self.kept(digest)) is not None:
                    return msgspec.json.decode(kept.answer, type=kind), True
                raise
        return answer, False


async def sweep(host: Host) -> None:
    """Forget keys that are old enough."""
    before = host.clock.now() - timedelta(hours=max(24.0, host.serving.replay_hours))
    while await host.office.store.sweep(KIND, before=before):
        pass
