"""The keys of an issuer (RFC 7517): read strictly, remembered, fetched again when they may have changed."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from assay.auth.jwt_settings import JwtSettings
from assay.errors import EnvironmentFailure, Refusal, Unavailable
from assay.ports.supervise import guarded
from assay.protocol.json_types import is_list, is_object

log = logging.getLogger("assay.auth")

Fetch = Callable[[], Awaitable[bytes]]
Found = Mapping[tuple[str, str], jwt.PyJWK]  # by key id and algorithm

MIN_BITS = 2048
MAX_KEYS = 100
KINDS: dict[tuple[str, str | None], str] = {
    ("RSA", None): "RS256",
    ("EC", "P-256"): "ES256",
    ("OKP", "Ed25519"): "EdDSA",
}
ALGORITHMS = frozenset(KINDS.values())
PUBLIC = (
    "kty",
    "crv",
    "n",
    "e",
    "x",
    "y",
)  # what is private in a set that should not hold it is not even read


class Jwk(msgspec.Struct, frozen=True, kw_only=True):
    """One key as the set has it."""

    kty: str
    kid: str
    crv: str | None = None
    alg: str | None = None
    use: str = "sig"
    key_ops: tuple[str, ...] = ("verify",)
    n: str | None = None
    e: str | None = None
    x: str | None = None
    y: str | None = None


def read_keys(data: bytes) -> Found:
    """
    The public keys for signatures, each for the one algorithm of its kind. What else is in the set is left aside.

    Two keys of one id and kind are left aside both: nobody can say which of them was meant.
    """
    try:
        told: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise EnvironmentFailure("the key set is not JSON") from None
    listed = told.get("keys") if is_object(told) else None
    if not is_list(listed) or len(listed) > MAX_KEYS:
        raise EnvironmentFailure(f'expected a key set, {{"keys": […]}} of at most {MAX_KEYS}')
    read = [one for one in map(_key, listed) if one is not None]
    often = Counter(place for place, _ in read)
    found = {place: key for place, key in read if often[place] == 1}
    if not found:
        raise EnvironmentFailure(f"the key set holds no key with an id for {', '.join(sorted(ALGORITHMS))}")
    return found


def _key(told: Any) -> tuple[tuple[str, str], jwt.PyJWK] | None:
    try:
        read = msgspec.convert(told, Jwk)
        algorithm = KINDS[read.kty, read.crv]
        key = jwt.PyJWK({name: part for name in PUBLIC if (part := getattr(read, name))}, algorithm)
    except (msgspec.ValidationError, jwt.PyJWTError, KeyError, TypeError, ValueError):
        return None
    fits = read.kid and read.alg in (None, algorithm) and read.use == "sig" and "verify" in read.key_ops
    short = isinstance(key.key, RSAPublicKey) and key.key.key_size < MIN_BITS
    return ((read.kid, algorithm), key) if fits and not short else None


class KeySet:
    """One issuer's. Whatever is asked for, it is fetched at most once in `retry_seconds`, and by one at a time."""

    def __init__(
        self, fetch: Fetch, trust: JwtSettings, *, tick: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch, self._trust, self._tick = fetch, trust, tick
        self._found: Found = {}
        self._since = self._tried = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """The first look: a fault is raised, that it may be said where somebody reads it."""
        self._tried = began = self._tick()
        self._found, self._since = read_keys(await self._fetch()), began

    async def find(self, id: str, algorithm: str) -> jwt.PyJWK | None:
        """A key that is known is given at once; for one that is not the set is fetched, unless it just was."""
        age = self._tick() - self._since
        if age < self._trust.stale_seconds and (key := self._found.get((id, algorithm))) is not None:
            if age >= self._trust.fresh_seconds:
                self._renew()
            return key
        if (fetching := self._renew()) is not None:
            await asyncio.wait([fetching])
        if self._tick() - self._since >= self._trust.stale_seconds:
            raise Unavailable("the issuer's keys cannot be had", retry_after=self._trust.retry_seconds)
        return self._found.get((id, algorithm))

    def _renew(self) -> asyncio.Task[None] | None:
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        if self._tick() - self._tried < self._trust.retry_seconds:
            return None
        self._tried = self._tick()
        self._fetching = asyncio.create_task(self._again())
        return self._fetching

    async def _again(self) -> None:
        trouble = await guarded("issuer keys", self.open(), Refusal)
        if isinstance(trouble, Refusal):  # the last good set will do for a while
            log.warning("the issuer's keys: %s", trouble)
