"""
The sign-in of the page at an OpenID provider: the authorization code flow of OpenID Connect, with PKCE (RFC 7636).

A sign-in that has begun is stored nowhere on the server. A cookie of the browser has one random secret; the state, the
nonce and the verifier of the code follow from it. In the end the page gets a one-time code.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from assay.auth import one_time_code
from assay.auth.claims import SignInRefused, principal_of
from assay.auth.keys import is_tenant
from assay.auth.oidc_settings import OidcSettings
from assay.ports import Clock, Store

if TYPE_CHECKING:
    from assay.auth.oidc_provider import OidcProvider  # needs the extra `guard`

LIFE = timedelta(minutes=10)  # of a sign-in, until the browser is back
AT_ONCE = 16  # codes that are redeemed at the same time, which anybody can ask for
MAX_CODE = 4_096  # characters
COOKIE = "assay_sign_in_"  # and the beginning of the state: several tabs may sign in at the same time
_DERIVED = re.compile(r"[A-Za-z0-9_-]{43}")
_COOKIE = re.compile(r"(?P<secret>[A-Za-z0-9_-]{43})(?:\.(?P<tenant>[A-Za-z0-9_-]{1,344}))?")


class Beginning(NamedTuple):
    """Where the browser goes, and the cookie that it comes back with."""

    address: str
    name: str
    value: str


class SignIn:
    """Signs people in at the provider of the settings."""

    def __init__(self, settings: OidcSettings, provider: "OidcProvider", store: Store, clock: Clock) -> None:
        self.settings, self._provider, self._store, self._clock = settings, provider, store, clock
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def begin(self, tenant: str = "") -> Beginning:
        """A sign-in of a new browser. `tenant`: the one that a person of several has chosen."""
        document = await self._provider.document()
        secret = secrets.token_urlsafe(32)
        state = _derive(secret, "state")
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect,
            "scope": self.settings.request,
            "state": state,
            "nonce": _derive(secret, "nonce"),
            "code_challenge": _encoded(hashlib.sha256(_derive(secret, "verifier").encode()).digest()),
            "code_challenge_method": "S256",
        }
        mark = "&" if "?" in document.authorization_endpoint else "?"
        address = f"{document.authorization_endpoint}{mark}{urlencode(query)}"
        chosen = f".{_encoded(tenant.encode())}" if is_tenant(tenant) else ""
        return Beginning(address, cookie_name(state), f"{secret}{chosen}")

    async def finish(self, answer: Mapping[str, str], cookies: Mapping[str, str]) -> str:
        """The one-time code of the page, for what the provider has sent the browser back with."""
        state = answer.get("state", "")
        cookie = _COOKIE.fullmatch(cookies.get(cookie_name(state), "")) if _DERIVED.fullmatch(state) else None
        if cookie is None or not hmac.compare_digest(_derive(cookie["secret"], "state"), state):
            raise SignInRefused("expired", "no sign-in of this browser has this state")
        chosen = _tenant_of(cookie["tenant"] or "")
        document = await self._provider.document()
        issuer = answer.get("iss", None if document.authorization_response_iss_parameter_supported else "")
        if issuer not in ("", document.issuer):
            raise SignInRefused("refused", "the answer is of another issuer (RFC 9207)")
        if "error" in answer:
            known = answer["error"] in ("access_denied", "login_required", "interaction_required")
            raise SignInRefused("denied" if known else "refused", "the provider answers with an error")
        code = answer.get("code", "")
        if not 0 < len(code) <= MAX_CODE:
            raise SignInRefused("refused", "the answer has no code")
        async with self._turns:
            verifier, nonce = _derive(cookie["secret"], "verifier"), _derive(cookie["secret"], "nonce")
            claims = await self._provider.redeem(code, verifier=verifier, nonce=nonce)
        principal = principal_of(claims, self.settings, chosen)
        life = timedelta(hours=self.settings.session_hours)
        created = await one_time_code.create_code(
            self._store, principal, self._clock.now(), life=life, browser=browser_of(cookie["secret"])
        )
        return created.reveal()

    async def end_address(self) -> str:
        """
        Where the browser ends its session at the provider (OpenID Connect RP-Initiated Logout 1.0); "": nowhere.

        The address names the client, and has no token.
        """
        if not self.settings.end_provider_session:
            return ""
        document = await self._provider.document()
        if not document.end_session_endpoint:
            return ""
        query = {"client_id": self.settings.client_id, "post_logout_redirect_uri": self.settings.page}
        mark = "&" if "?" in document.end_session_endpoint else "?"
        return f"{document.end_session_endpoint}{mark}{urlencode(query)}"


def cookie_name(state: str) -> str:
    return f"{COOKIE}{state[:16]}"


def browser_of(cookie: str) -> str:
    """What the one-time code has of the cookie, so that it works in this browser alone."""
    return _derive(cookie.partition(".")[0], "browser")


def _derive(secret: str, name: str) -> str:
    """A value that belongs to the secret and does not reveal it."""
    return _encoded(hmac.digest(secret.encode(), name.encode(), "sha256"))


def _tenant_of(part: str) -> str:
    """The tenant in a cookie, which a browser may have changed; "": the person has chosen none."""
    try:
        return base64.urlsafe_b64decode(f"{part}==").decode()
    except ValueError:
        raise SignInRefused("expired", "the cookie names no tenant") from None


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
