"""The sign-in of the page at an OpenID provider: the browser goes there, and comes back with a one-time code."""

import logging
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct

from assay.auth.claims import ChooseTenant, SignInRefused
from assay.auth.sign_in import COOKIE, LIFE, SignIn, browser_of, cookie_name
from assay.errors import EnvironmentFailure, NotFound, Unavailable
from assay.serve.web.request import MAX_PARAMETERS, HttpRequest
from assay.serve.web.responses import TEXT, Response, answer

log = logging.getLogger("assay.auth")
DONE, FAILED = "signed-in", "sign-in"  # addresses of the page, in the fragment
SECURE = "__Host-"  # browsers take a cookie of this name from this host alone, over TLS
MAX_COOKIES = 16
BROWSER = ("expired", "denied")  # problems that a browser makes: anybody could fill the log with them
_NAME = re.compile(rf"{COOKIE}[A-Za-z0-9_-]{{16}}")


class SignInProvider(Struct, frozen=True):
    """The OpenID provider at which the page signs in. `address` begins a sign-in."""

    label: str
    address: str


class SignInOffer(Struct, frozen=True):
    """How the page signs in beside an API key. Without a provider there is no other way."""

    provider: SignInProvider | None = None


TYPES: tuple[Any, ...] = (SignInOffer, SignInProvider)


class SignInState:
    """The sign-in of this server. `offered` is None if the settings name no provider."""

    def __init__(self, offered: SignIn | None) -> None:
        self.offered = offered

    @property
    def sign_in(self) -> SignIn:
        if self.offered is None:
            raise NotFound("this server has no sign-in at an OpenID provider; the setting oidc names one")
        return self.offered

    def stop(self) -> None:
        """Nothing is open."""

    def browsers(self, call: HttpRequest) -> dict[str, str]:
        """The secrets that the browser has of sign-ins that it began, with the names of their cookies."""
        if self.offered is None:
            return {}
        return {browser_of(value): name for name, value in self.cookies(call).items()}

    def cookies(self, call: HttpRequest) -> dict[str, str]:
        """
        The cookies of sign-ins, by their names without a prefix.

        Over TLS only those with the prefix count: any other host of the same domain can plant the others, and sign the
        person in as somebody else.
        """
        pairs = (pair.strip(" ").partition("=") for pair in (call.header(b"cookie") or "").split(";"))
        ours = (
            (name.removeprefix(self._prefix), value)
            for name, _, value in pairs
            if name.startswith(self._prefix) and _NAME.fullmatch(name.removeprefix(self._prefix))
        )
        return dict(islice(ours, MAX_COOKIES))

    @property
    def _prefix(self) -> str:
        return SECURE if self.sign_in.settings.page.startswith("https:") else ""

    def cookie(self, name: str, value: str, seconds: int) -> tuple[bytes, bytes]:
        """A header that sets a cookie for this host, out of reach of scripts; 0 seconds: it removes the cookie."""
        more = "; Secure" if self._prefix else ""
        text = f"{self._prefix}{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{more}"
        return b"set-cookie", text.encode("ascii")

    def to_page(
        self, path: str, params: Mapping[str, str | list[str]], *headers: tuple[bytes, bytes]
    ) -> Response:
        """Send the browser to the page, with parameters that it does not send on: they are in the fragment."""
        address = f"{self.sign_in.settings.page}#/{path}?{urlencode(params, doseq=True)}"
        return _redirect(address, *headers)


async def show_offer(call: HttpRequest) -> Response:
    call.query()
    offered = call.server.resource(SignInState).offered
    if offered is None:
        return answer(SignInOffer())
    settings = offered.settings
    return answer(SignInOffer(SignInProvider(settings.label, f"{settings.page}sign-in")))


async def begin_sign_in(call: HttpRequest) -> Response:
    """Send the browser to the provider."""
    state = call.server.resource(SignInState)
    sign_in, tenant = state.sign_in, call.query("tenant").get("tenant", "")
    try:
        pending = await sign_in.begin(tenant)
    except (Unavailable, EnvironmentFailure) as away:
        log.warning("sign-in: %s", away)
        return state.to_page(FAILED, {"problem": "away"})
    return _redirect(pending.address, state.cookie(pending.name, pending.value, int(LIFE.total_seconds())))


async def finish_sign_in(call: HttpRequest) -> Response:
    """The browser is back from the provider. Whatever has happened, it goes on to the page, and to nowhere else."""
    state = call.server.resource(SignInState)
    sign_in, params, cookies = state.sign_in, _parameters(call), state.cookies(call)
    name = cookie_name(params.get("state", ""))
    over = (state.cookie(name, "", 0),) if name in cookies else ()
    try:
        code = await sign_in.finish(params, cookies)
    except ChooseTenant as choice:
        return state.to_page(FAILED, {"tenant": choice.tenants}, *over)
    except SignInRefused as refused:
        log.log(logging.INFO if refused.problem in BROWSER else logging.WARNING, "sign-in: %s", refused)
        return state.to_page(FAILED, {"problem": refused.problem}, *over)
    except (Unavailable, EnvironmentFailure) as away:
        log.warning("sign-in: %s", away)
        return state.to_page(FAILED, {"problem": "away"}, *over)
    return state.to_page(DONE, {"code": code})  # the cookie stays until the page has exchanged the code


async def end_at_provider(sign_in: SignIn) -> str:
    """Where the session at the provider ends. A provider that is away holds nobody up: the session here has ended."""
    try:
        return await sign_in.end_address()
    except (Unavailable, EnvironmentFailure) as away:
        log.warning("sign-out: %s", away)
        return ""


def _parameters(call: HttpRequest) -> dict[str, str]:
    """The parameters of the answer. A provider may send more than we know, and none of them twice."""
    query: bytes = call.scope["query_string"]
    pairs = (
        parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        if query.count(b"&") < MAX_PARAMETERS
        else []
    )
    params = dict(pairs)
    return params if len(params) == len(pairs) else {}


def _redirect(address: str, *headers: tuple[bytes, bytes]) -> Response:
    return Response(b"", 303, TEXT, ((b"location", address.encode("ascii")), *headers))
