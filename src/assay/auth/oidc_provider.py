"""The OpenID provider at which the page signs in: its document, its keys, and the claims that a code stands for."""

import base64
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote_plus, urlencode

import msgspec

from assay.auth.claims import SignInRefused
from assay.auth.jwt_settings import JwtSettings, check_address
from assay.auth.oidc_settings import OidcSettings
from assay.auth.refreshed import Ages, Refreshed, Tick
from assay.auth.tokens import InvalidToken, KeySet, Tokens, validity_of
from assay.errors import EnvironmentFailure, Unauthenticated, UsageError
from assay.ports import Clock, Secret
from assay.protocol.json_types import is_list

AGES = Ages(fresh=300.0, stale=3_600.0, retry=5.0)
MAX_TOKEN = 65_536  # characters: a person may be in hundreds of groups
DOCUMENT = ".well-known/openid-configuration"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class HttpAnswer(Protocol):
    """An answer of the provider, with any status."""

    @property
    def status(self) -> int: ...

    @property
    def data(self) -> bytes: ...


Ask = Callable[[str, Mapping[str, str], bytes | None], Awaitable[HttpAnswer]]  # address, headers, form


class ProviderDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider says of itself (OpenID Connect Discovery 1.0). Other members are ignored."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    code_challenge_methods_supported: tuple[str, ...] = ("S256",)
    authorization_response_iss_parameter_supported: bool = False


class TokenAnswer(msgspec.Struct, frozen=True):
    """What the provider gives for a code. The access token is only shown to the provider itself."""

    id_token: str
    access_token: str = ""


class TokenRefusal(msgspec.Struct, frozen=True):
    error: str = ""


class OidcProvider:
    """Asks the provider of the settings. What it says is cached, and asked for again when it may have changed."""

    def __init__(
        self,
        settings: OidcSettings,
        secret: Secret | None,
        ask: Ask,
        clock: Clock,
        *,
        tick: Tick = time.monotonic,
    ) -> None:
        self._settings, self._secret, self._ask, self._clock = settings, secret, ask, clock
        self._document = Refreshed(
            "the document of the OpenID provider", self._fetch_document, AGES, tick=tick
        )
        trust = JwtSettings(
            issuer=settings.issuer,
            audience=settings.client_id,
            fresh_seconds=AGES.fresh,
            stale_seconds=AGES.stale,
            retry_seconds=AGES.retry,
        )
        self._tokens = Tokens(trust, KeySet(self._fetch_keys, trust, tick=tick), characters=MAX_TOKEN)

    async def open(self) -> None:
        """Fetch the document. A failure is raised, so that the start of the server can report it."""
        await self._document.open()

    async def document(self) -> ProviderDocument:
        return await self._document.get()

    async def redeem(self, code: str, *, verifier: str, nonce: str) -> Mapping[str, Any]:
        """The claims of the person that a code stands for. The code works once, with the verifier of its challenge."""
        tokens = await self._exchange(code, verifier)
        claims = await self._verified(tokens.id_token, nonce)
        missing = self._settings.needed_claims.difference(claims)
        document = await self.document()
        if missing and document.userinfo_endpoint and tokens.access_token:
            return {**await self._person(document, tokens.access_token, claims["sub"]), **claims}
        return claims

    async def _verified(self, text: str, nonce: str) -> Mapping[str, Any]:
        """The claims of an ID token for this client and this sign-in (OpenID Connect Core 1.0)."""
        try:
            claims = await self._tokens.claims(text)
            validity_of(claims, self._settings.leeway_seconds).check(self._clock.now())
        except InvalidToken as wrong:
            raise SignInRefused("refused", f"the ID token opens nothing: {wrong.why}") from None
        except Unauthenticated:
            raise SignInRefused("refused", "the ID token opens nothing: it has expired") from None
        claimed = claims.get("nonce")
        if not (isinstance(claimed, str) and hmac.compare_digest(claimed.encode(), nonce.encode())):
            raise SignInRefused("refused", "the ID token belongs to another sign-in: its nonce differs")
        audiences = claims["aud"] if is_list(claims["aud"]) else [claims["aud"]]
        party = claims.get("azp", None if len(audiences) > 1 else self._settings.client_id)
        if party != self._settings.client_id:
            raise SignInRefused("refused", "the ID token was made for another client: azp differs")
        return claims

    async def _exchange(self, code: str, verifier: str) -> TokenAnswer:
        document, id = await self.document(), self._settings.client_id
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._settings.redirect,
            "code_verifier": verifier,
        }
        headers = dict(FORM)
        if self._secret is None:
            form["client_id"] = id
        elif "client_secret_basic" in document.token_endpoint_auth_methods_supported:
            pair = f"{quote_plus(id)}:{quote_plus(self._secret.reveal())}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": id, "client_secret": self._secret.reveal()}
        answer = await self._ask(document.token_endpoint, headers, urlencode(form).encode())
        if answer.status == 200:
            return _decoded(answer.data, TokenAnswer, "the tokens")
        if answer.status >= 500:
            raise EnvironmentFailure(f"{document.token_endpoint}: answers {answer.status}")
        error = _decoded(answer.data, TokenRefusal, "the refusal").error
        if error == "invalid_grant":  # it was used, is too old, or belongs to another sign-in
            raise SignInRefused("expired", "the provider does not accept the code")
        known = error if error in ERRORS else f"status {answer.status}"
        raise SignInRefused("refused", f"the provider gives no tokens: {known}")

    async def _person(self, document: ProviderDocument, token: str, subject: str) -> Mapping[str, Any]:
        """The claims of the userinfo endpoint, where some providers say the groups of a person."""
        headers = {"Authorization": f"Bearer {token}"}
        answer = await self._ask(document.userinfo_endpoint, headers, None)
        if answer.status != 200:
            raise EnvironmentFailure(f"{document.userinfo_endpoint}: answers {answer.status}")
        claims = _decoded(answer.data, dict[str, Any], "the claims of the person")
        if claims.get("sub") != subject:
            raise SignInRefused("refused", "the userinfo endpoint names another subject than the ID token")
        return claims

    async def _fetch_document(self) -> ProviderDocument:
        address = f"{self._settings.issuer.removesuffix('/')}/{DOCUMENT}"
        data = await self._fetch(address)
        try:
            document = msgspec.json.decode(data, type=ProviderDocument)
        except (msgspec.MsgspecError, RecursionError):
            raise EnvironmentFailure(f"{address}: expected a document of OpenID Connect Discovery") from None
        if document.issuer != self._settings.issuer:
            raise EnvironmentFailure(
                f"{address}: expected the issuer {self._settings.issuer}, got {document.issuer[:200]!r}"
            )
        for name in ENDPOINTS:
            if text := getattr(document, name):
                try:
                    check_address(f"{address}: {name}", text)
                except UsageError as wrong:
                    raise EnvironmentFailure(str(wrong)) from None
        if "S256" not in document.code_challenge_methods_supported:
            raise EnvironmentFailure(f"{address}: expected a provider with PKCE and S256")
        return document

    async def _fetch_keys(self) -> bytes:
        return await self._fetch((await self.document()).jwks_uri)

    async def _fetch(self, address: str) -> bytes:
        answer = await self._ask(address, {}, None)
        if answer.status != 200:
            raise EnvironmentFailure(f"{address}: answers {answer.status}")
        return answer.data


ENDPOINTS = (
    "authorization_endpoint",
    "token_endpoint",
    "jwks_uri",
    "userinfo_endpoint",
    "end_session_endpoint",
)
ERRORS = frozenset({"invalid_request", "invalid_client", "unauthorized_client", "unsupported_grant_type"})


def _decoded(data: bytes, kind: type[Any], name: str) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        why = f"expected {name} in the form of OpenID Connect, got another"
        raise SignInRefused("refused", why) from None
