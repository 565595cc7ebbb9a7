"""
Tokens beside keys: a JWT of the one issuer that is trusted (FEP 6.4; RFC 7519, RFC 8725).

A token says which key it claims to be signed with, and nothing else that is believed before the signature holds: not its
algorithm, which is the key's, and never where a key might be had (`jku`, `x5u`, `jwk`).
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

_SHAPE = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)


class Header(msgspec.Struct, frozen=True):
    """What is read of it; of what else it says nothing is looked at."""

    alg: str
    kid: str
    typ: str = "JWT"
    crit: Any = msgspec.UNSET
    b64: Any = msgspec.UNSET


class Token(NamedTuple):
    """What a good signature stands for, and from when to when, in seconds since 1970 with the leeway in them."""

    principal: Principal
    begins: float
    ends: float

    def admitted(self, now: datetime) -> Principal:
        if now.timestamp() >= self.ends:
            raise Unauthenticated("key_expired")
        if now.timestamp() < self.begins:
            raise Unauthenticated
        return self.principal


class Tokens:
    """Reads tokens of one issuer. Whether it is time for one is asked each time, of the token."""

    def __init__(self, trust: JwtSettings, keys: KeySet) -> None:
        self._trust, self.keys = trust, keys

    async def read(self, text: str) -> Token:
        header = _header(text)
        key = await self.keys.find(header.kid, header.alg)
        if key is None:
            raise Unauthenticated
        return _token(_claims(text, key, header.alg, self._trust), self._trust)


def _header(text: str) -> Header:
    """Only what could be good costs a look at the keys."""
    shaped = _SHAPE.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if shaped is None:
        raise Unauthenticated
    try:
        header = _HEADER.decode(base64.urlsafe_b64decode(shaped[1] + "=" * (-len(shaped[1]) % 4)))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        raise Unauthenticated from None
    extended = header.crit is not msgspec.UNSET or header.b64 is not msgspec.UNSET
    if header.alg not in ALGORITHMS or not header.kid or header.typ.lower() not in TYPES or extended:
        raise Unauthenticated
    return header


def _claims(text: str, key: jwt.PyJWK, algorithm: str, trust: JwtSettings) -> Mapping[str, Any]:
    try:
        return jwt.decode(
            text,
            key,
            algorithms=[algorithm],
            audience=trust.audience,
            issuer=trust.issuer,
            options={
                "require": ["exp", "iss", "aud", "sub"],
                "verify_exp": False,  # by our own clock, at every use: Token.admitted
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise Unauthenticated from None


def _token(claims: Mapping[str, Any], trust: JwtSettings) -> Token:
    tenant, subject = claims.get(trust.tenant_claim), claims["sub"]
    if not (isinstance(tenant, str) and is_tenant(tenant) and isinstance(subject, str) and subject):
        raise Unauthenticated
    begins = max((_moment(claims[name]) for name in ("nbf", "iat") if name in claims), default=-math.inf)
    who = Principal(
        tenant=tenant, id=_opaque(trust.issuer, subject), scopes=_scopes(claims.get(trust.scope_claim))
    )
    return Token(who, begins - trust.leeway_seconds, _moment(claims["exp"]) + trust.leeway_seconds)


def _moment(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise Unauthenticated
    return float(value)


def _scopes(told: Any) -> frozenset[str]:
    """A text with spaces between, or a list. What is none of ours is somebody else's business."""
    if isinstance(told, str):
        told = told.split(" ")
    return (
        frozenset(one for one in told if isinstance(one, str) and one in SCOPES)
        if is_list(told)
        else frozenset()
    )


def _opaque(issuer: str, subject: str) -> str:
    """A name that is always the same and says nothing (contract §2.2): a subject may be an e-mail address."""
    whole = "\0".join((issuer, subject)).encode("utf-8", "surrogatepass")
    return f"jwt_{hashlib.sha256(whole).hexdigest()[:16]}"


_HEADER = msgspec.json.Decoder(Header)
