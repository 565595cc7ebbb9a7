"""
Verifies JWTs of the one trusted issuer (FEP 6.4; RFC 7519, RFC 8725).

Before the signature is verified, only the key id of the token is used. The key determines the algorithm. Members that
point to a key (`jku`, `x5u`, `jwk`) are never used.
"""

import asyncio
import base64
import hashlib
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from assay.auth.jwt_settings import JwtSettings
from assay.auth.keys import SCOPES, is_tenant
from assay.concurrency.event_loop import run_guarded
from assay.errors import EnvironmentFailure, Refusal, Unauthenticated, Unavailable
from assay.ports import Principal
from assay.protocol.json_types import is_list, is_object

# The key set of an issuer (RFC 7517): parsed strictly, cached, and fetched again when it may have changed.

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


MAX_CHARACTERS = 8_192
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})

_FORMAT = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)


class Header(msgspec.Struct, frozen=True):
    """The members of a token's header that are read; others are ignored."""

    alg: str
    kid: str
    typ: str = "JWT"
    crit: Any = msgspec.UNSET
    b64: Any = msgspec.UNSET


class Token(NamedTuple):
    """A verified token: its principal and validity, in seconds since 1970 with the leeway included."""

    principal: Principal
    begins: float
    ends: float

    def admit(self, now: datetime) -> Principal:
        """Return the principal while the token is valid."""
        if now.timestamp() >= self.ends:
            raise Unauthenticated("key_expired")
        if now.timestamp() < self.begins:
            raise Unauthenticated
        return self.principal


class Tokens:
    """Verifies tokens of one issuer. The caller checks the validity at each use, with `Token.admit`."""

    def __init__(self, settings: JwtSettings, keys: KeySet) -> None:
        self._settings, self.keys = settings, keys

    async def read(self, text: str) -> Token:
        header = _header(text)
        key = await self.keys.find(header.kid, header.alg)
        if key is None:
            raise Unauthenticated
        return _token(_claims(text, key, header.alg, self._settings), self._settings)


def _header(text: str) -> Header:
    """Parse the header. A malformed token is refused before the keys are looked up."""
    match = _FORMAT.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        raise Unauthenticated
    try:
        header = _HEADER.decode(base64.urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4)))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        raise Unauthenticated from None
    extended = header.crit is not msgspec.UNSET or header.b64 is not msgspec.UNSET
    if header.alg not in ALGORITHMS or not header.kid or header.typ.lower() not in TYPES or extended:
        raise Unauthenticated
    return header


def _claims(text: str, key: jwt.PyJWK, algorithm: str, settings: JwtSettings) -> Mapping[str, Any]:
    try:
        return jwt.decode(
            text,
            key,
            algorithms=[algorithm],
            audience=settings.audience,
            issuer=settings.issuer,
            options={
                "require": ["exp", "iss", "aud", "sub"],
                "verify_exp": False,  # by this host's clock, at every use: Token.admit
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise Unauthenticated from None


def _token(claims: Mapping[str, Any], settings: JwtSettings) -> Token:
    tenant, subject = claims.get(settings.tenant_claim), claims["sub"]
    if not (isinstance(tenant, str) and is_tenant(tenant) and isinstance(subject, str) and subject):
        raise Unauthenticated
    begins = max((_moment(claims[name]) for name in ("nbf", "iat") if name in claims), default=-math.inf)
    principal = Principal(
        tenant=tenant, id=_opaque(settings.issuer, subject), scopes=_scopes(claims.get(settings.scope_claim))
    )
    return Token(
        principal, begins - settings.leeway_seconds, _moment(claims["exp"]) + settings.leeway_seconds
    )


def _moment(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise Unauthenticated
    return float(value)


def _scopes(claim: Any) -> frozenset[str]:
    """Read a space-separated text or a list. Unknown scopes are dropped: other services may use them."""
    if isinstance(claim, str):
        claim = claim.split(" ")
    return (
        frozenset(scope for scope in claim if isinstance(scope, str) and scope in SCOPES)
        if is_list(claim)
        else frozenset()
    )


def _opaque(issuer: str, subject: str) -> str:
    """A stable id that does not reveal the subject, which may be an e-mail address (openwop-contract §2.2)."""
    whole = "\0".join((issuer, subject)).encode("utf-8", "surrogatepass")
    return f"jwt_{hashlib.sha256(whole).hexdigest()[:16]}"


_HEADER = msgspec.json.Decoder(Header)
