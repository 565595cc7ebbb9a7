"""
Verifies JWTs of the one trusted issuer (FEP 6.4; RFC 7519, RFC 8725).

Before the signature is verified, only the key id of the token is used. The key determines the algorithm. Members that
point to a key (`jku`, `x5u`, `jwk`) are never used.
"""

import base64
import hashlib
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import jwt
import msgspec

from assay.auth.jwks import ALGORITHMS, KeySet
from assay.auth.jwt_settings import JwtSettings
from assay.auth.keys import is_tenant
from assay.auth.scopes import SCOPES
from assay.errors import Unauthenticated
from assay.ports import Principal
from assay.protocol.json_types import is_list

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
