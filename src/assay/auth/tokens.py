"""
Verifies JWTs of the one trusted issuer (FEP 6.4; RFC 7519, RFC 8725).

Before the signature is verified, only the key id of the token is used. The key determines the algorithm. Members that
point to a key (`jku`, `x5u`, `jwk`) are never used.
"""

import base64
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

from assay.auth.claims import known_scopes, opaque_id
from assay.auth.jwt_settings import JwtSettings
from assay.auth.keys import is_tenant
from assay.auth.refreshed import Ages, Refreshed, Tick
from assay.errors import EnvironmentFailure, Unauthenticated
from assay.ports import Principal
from assay.protocol.json_types import is_list, is_object

# The key set of an issuer (RFC 7517): parsed strictly, cached, and fetched again when it may have changed.

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
    """The cached keys of one issuer. The settings say how long they are used."""

    def __init__(self, fetch: Fetch, settings: JwtSettings, *, tick: Tick = time.monotonic) -> None:
        async def fetch_keys() -> PublicKeys:
            return read_keys(await fetch())

        ages = Ages(settings.fresh_seconds, settings.stale_seconds, settings.retry_seconds)
        self.cached = Refreshed("the issuer's keys", fetch_keys, ages, tick=tick)

    async def find(self, id: str, algorithm: str) -> jwt.PyJWK | None:
        """Return a cached key at once. For an unknown one, fetch the set first, unless a fetch was just made."""
        keys = await self.cached.get(lambda keys: (id, algorithm) in keys)
        return keys.get((id, algorithm))


MAX_CHARACTERS = 8_192
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
MALFORMED = "it is malformed"
WHY: dict[type[Exception], str] = {
    jwt.InvalidSignatureError: "its signature is not valid",
    jwt.InvalidAudienceError: "it is for another audience",
    jwt.InvalidIssuerError: "it is of another issuer",
    jwt.MissingRequiredClaimError: "it lacks one of the claims exp, iss, aud and sub",
}

_FORMAT = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)


class Header(msgspec.Struct, frozen=True):
    """The members of a token's header that are read; others are ignored."""

    alg: str
    kid: str
    typ: str = "JWT"
    crit: Any = msgspec.UNSET
    b64: Any = msgspec.UNSET


class InvalidToken(Unauthenticated):
    """A token that opens nothing. `why` is for the log of the server: the client learns no more than without a key."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__()


class Validity(NamedTuple):
    """From when and until when a token is valid: seconds since 1970, with the leeway included."""

    begins: float
    ends: float

    def check(self, now: datetime) -> None:
        """Refuse a token whose time is over or has not come."""
        if now.timestamp() >= self.ends:
            raise Unauthenticated("key_expired")
        if now.timestamp() < self.begins:
            raise InvalidToken("it is not valid yet: the clocks differ")


class Token(NamedTuple):
    """A verified token."""

    principal: Principal
    validity: Validity

    def admit(self, now: datetime) -> Principal:
        """Return the principal while the token is valid."""
        self.validity.check(now)
        return self.principal


class Tokens:
    """Verifies tokens of one issuer. The caller checks the validity at each use, with `Token.admit`."""

    def __init__(self, settings: JwtSettings, keys: KeySet, *, characters: int = MAX_CHARACTERS) -> None:
        self._settings, self.keys, self._characters = settings, keys, characters

    async def read(self, text: str) -> Token:
        return _token(await self.claims(text), self._settings)

    async def claims(self, text: str) -> Mapping[str, Any]:
        """The claims of a token of this issuer, for this audience. The caller checks its times."""
        header = _header(text, self._characters)
        key = await self.keys.find(header.kid, header.alg)
        if key is None:
            raise InvalidToken("the issuer has no key with its id")
        return _claims(text, key, header.alg, self._settings)


def _header(text: str, characters: int) -> Header:
    """Parse the header. A malformed token is refused before the keys are looked up."""
    match = _FORMAT.fullmatch(text) if len(text) <= characters else None
    if match is None:
        raise InvalidToken(MALFORMED)
    try:
        header = _HEADER.decode(base64.urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4)))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        raise InvalidToken(MALFORMED) from None
    extended = header.crit is not msgspec.UNSET or header.b64 is not msgspec.UNSET
    if header.alg not in ALGORITHMS or not header.kid or header.typ.lower() not in TYPES or extended:
        raise InvalidToken("its header names another algorithm or type than those that are accepted")
    return header


def _claims(text: str, key: jwt.PyJWK, algorithm: str, settings: JwtSettings) -> Mapping[str, Any]:
    try:
        claims: dict[str, Any] = jwt.decode(
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
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as wrong:
        raise InvalidToken(WHY.get(type(wrong), MALFORMED)) from None
    if not (isinstance(claims["sub"], str) and claims["sub"]):
        raise InvalidToken("it names no subject")
    return claims


def _token(claims: Mapping[str, Any], settings: JwtSettings) -> Token:
    tenant = claims.get(settings.tenant_claim)
    if not (isinstance(tenant, str) and is_tenant(tenant)):
        raise InvalidToken("it names no tenant")
    principal = Principal(
        tenant=tenant,
        id=opaque_id(settings.issuer, claims["sub"]),
        scopes=known_scopes(claims.get(settings.scope_claim)),
    )
    return Token(principal, validity_of(claims, settings.leeway_seconds))


def validity_of(claims: Mapping[str, Any], leeway: float) -> Validity:
    """The times of a token. `leeway`: seconds that the clocks may differ."""
    begins = max((_moment(claims[name]) for name in ("nbf", "iat") if name in claims), default=-math.inf)
    return Validity(begins - leeway, _moment(claims["exp"]) + leeway)


def _moment(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise InvalidToken("one of its times is no time")
    return float(value)


_HEADER = msgspec.json.Decoder(Header)
