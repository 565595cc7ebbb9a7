"""Settings of the trusted token issuer: `[jwt]` (FEP 6.4)."""

import ipaddress
from urllib.parse import urlsplit

from msgspec import Struct

from assay.errors import UsageError

MAX_LEEWAY = 300.0


class JwtSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In the environment: `ASSAY_JWT_ISSUER` and so on. Without an issuer, only API keys are accepted."""

    issuer: str = ""  # must equal `iss`
    audience: str = ""  # one of `aud`
    jwks: str = ""  # a file or an https URL; http only for loopback
    tenant_claim: str = "tenant"
    scope_claim: str = "scope"
    leeway_seconds: float = 30.0  # allowed clock difference
    fresh_seconds: float = 300.0  # after which the key set is fetched again
    stale_seconds: float = 3_600.0  # how long the last key set is used if no new one can be fetched
    retry_seconds: float = 30.0  # minimum between two fetches


def validate(settings: JwtSettings) -> JwtSettings:
    """Refuse an incomplete or unsafe configuration."""
    if settings == JwtSettings():
        return settings
    for name in ("issuer", "audience", "jwks", "tenant_claim", "scope_claim"):
        if not getattr(settings, name):
            raise UsageError(
                f"settings: jwt.{name}: expected a value, because other settings of [jwt] are set"
            )
    if not 0 <= settings.leeway_seconds <= MAX_LEEWAY:
        raise UsageError(
            f"settings: jwt.leeway_seconds: expected 0 to {MAX_LEEWAY:g}, got {settings.leeway_seconds:g}"
        )
    for name in ("fresh_seconds", "stale_seconds", "retry_seconds"):
        if not getattr(settings, name) > 0:
            raise UsageError(
                f"settings: jwt.{name}: expected a number above 0, got {getattr(settings, name):g}"
            )
    if "://" in settings.jwks:
        check_address("settings: jwt.jwks", settings.jwks, "a file or an https address")
    return settings


def check_address(place: str, text: str, expected: str = "an https address") -> None:
    """What decides which callers are trusted must come over TLS; on this machine it need not."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        raise UsageError(f"{place}: expected {expected}") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{place}: expected an address without a name or a password in it")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise UsageError(f"{place}: expected {expected} of ASCII characters, without spaces")
    if parts.scheme == "https" and host:
        return
    if parts.scheme != "http" or not is_loopback(host):
        raise UsageError(f"{place}: expected {expected}, got {parts.scheme}://{host}")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
