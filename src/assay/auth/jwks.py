"""The key set of an issuer (RFC 7517): parsed strictly, cached, and fetched again when it may have changed."""

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
from assay.concurrency.event_loop import run_guarded
from assay.errors import EnvironmentFailure, Refusal, Unavailable
from assay.protocol.json_types import is_list, is_object

log = logging.getLogger("assay.auth")

Fetch = Callable[[], Awaitable[bytes]]
PublicKeys = Mapping[tuple[str, str], jwt.PyJWK]  # by key id and algorithm

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
)  # private members, which a key set should not have, are not read


class Jwk(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a set."""

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


def read_keys(data: bytes) -> PublicKeys:
    """
    Parse the public signature keys, each for the one algorithm of its kind. Other keys are ignored.

    Two keys of the same id and kind are both ignored, because the id is ambiguous.
    """
    try:
        document: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise EnvironmentFailure("the key set is not JSON") from None
    items = document.get("keys") if is_object(document) else None
    if not is_list(items) or len(items) > MAX_KEYS:
        raise EnvironmentFailure(f'expected a key set, {{"keys": […]}} of at most {MAX_KEYS}')
    pairs = [pair for pair in map(_key, items) if pair is not None]
    counts = Counter(id for id, _ in pairs)
    keys = {id: key for id, key in pairs if counts[id] == 1}
    if not keys:
        raise EnvironmentFailure(f"the key set holds no key with an id for {', '.join(sorted(ALGORITHMS))}")
    return keys


def _key(item: Any) -> tuple[tuple[str, str], jwt.PyJWK] | None:
    try:
        jwk = msgspec.convert(item, Jwk)
        algorithm = KINDS[jwk.kty, jwk.crv]
        key = jwt.PyJWK({name: part for name in PUBLIC if (part := getattr(jwk, name))}, algorithm)
    except (msgspec.ValidationError, jwt.PyJWTError, KeyError, TypeError, ValueError):
        return None
    fits = jwk.kid and jwk.alg in (None, algorithm) and jwk.use == "sig" and "verify" in jwk.key_ops
    short = isinstance(key.key, RSAPublicKey) and key.key.key_size < MIN_BITS
    return ((jwk.kid, algorithm), key) if fits and not short else None


class KeySet:
    """The cached keys of one issuer. At most one fetch runs at a time, and at most one in `retry_seconds`."""

    def __init__(
        self, fetch: Fetch, settings: JwtSettings, *, tick: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch, self._settings, self._tick = fetch, settings, tick
        self._keys: PublicKeys = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Fetch the keys. A failure is raised, so that the start of the server can report it."""
        self._tried_at = began = self._tick()
        self._keys, self._fetched_at = read_keys(await self._fetch()), began

    async def find(self, id: str, algorithm: str) -> jwt.PyJWK | None:
        """Return a cached key at once. For an unknown one, fetch the set first, unless a fetch was just made."""
        age = self._tick() - self._fetched_at
        if age < self._settings.stale_seconds and (key := self._keys.get((id, algorithm))) is not None:
            if age >= self._settings.fresh_seconds:
                self._renew()
            return key
        if (fetching := self._renew()) is not None:
            await asyncio.wait([fetching])
        if self._tick() - self._fetched_at >= self._settings.stale_seconds:
            raise Unavailable("the issuer's keys cannot be fetched", retry_after=self._settings.retry_seconds)
        return self._keys.get((id, algorithm))

    def _renew(self) -> asyncio.Task[None] | None:
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        if self._tick() - self._tried_at < self._settings.retry_seconds:
            return None
        self._tried_at = self._tick()
        self._fetching = asyncio.create_task(self._refetch())
        return self._fetching

    async def _refetch(self) -> None:
        trouble = await run_guarded("issuer keys", self.open(), Refusal)
        if isinstance(trouble, Refusal):  # the cached set stays valid until `stale_seconds`
            log.warning("the issuer's keys: %s", trouble)
