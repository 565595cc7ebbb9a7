"""The sign-in of the page: the identity of a key, a one-time code, and the session that the code is exchanged for."""

from datetime import datetime
from typing import Any

import msgspec

from assay.auth import keys, one_time_code, page_sessions
from assay.errors import InvalidRequest, Problem
from assay.serve.fep.request_parser import read_json
from assay.serve.page.sign_in_routes import SignInState, end_at_provider
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import credential_of
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer
from assay.version import __version__


class CodeExchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A one-time code of `session:code`."""

    code: str


class SessionCode(msgspec.Struct, frozen=True, rename="camel"):
    """A one-time code, for the fragment of the address of the page."""

    code: str
    expires_at: datetime


class SessionKey(msgspec.Struct, frozen=True, rename="camel"):
    """The key of a session. It is sent like an API key."""

    key: str
    expires_at: datetime


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """What a key may do. `session`: it is the key of a session of the page."""

    tenant: str
    scopes: list[str]
    session: bool
    version: str


class SessionEnd(msgspec.Struct, frozen=True):
    """Whether a session ended. False: the key is not that of a session. `next`: where it ends at its provider too."""

    ended: bool
    next: str = ""


TYPES: tuple[Any, ...] = (CodeExchange, SessionCode, SessionKey, SessionEnd, Identity)
_decode = msgspec.json.Decoder(CodeExchange).decode


async def show_identity(call: HttpRequest) -> Response:
    call.query()
    principal = call.principal
    session = credential_of(call).startswith(page_sessions.PREFIX)
    return answer(Identity(principal.tenant, sorted(principal.scopes), session, __version__))


async def create_code(call: HttpRequest) -> Response:
    """A code for a session with the tenant and the scopes of this key. The session ends with the key."""
    call.query()
    server, now = call.server, call.server.clock.now()
    key, life = "", page_sessions.TOKEN_LIFE
    text = credential_of(call)
    if text.startswith(page_sessions.PREFIX):
        raise InvalidRequest(Problem("", "expected an API key or a token; a session opens no other"))
    if "." not in text:
        opener = await keys.find(server.store, keys.parse(text))
        key, life = opener.id, page_sessions.LIFE
        if opener.expires is not None:
            life = min(life, opener.expires - now)
    code = await one_time_code.create_code(server.store, call.principal, now, key=key, life=life)
    return answer(SessionCode(code.reveal(), now + one_time_code.CODE_LIFE), 201)


async def create_session(call: HttpRequest) -> Response:
    """Exchange a code. No key is needed: the code is one. A code of a provider needs the cookie of its browser too."""
    call.query()
    body_format(call)
    code = (await read_json(call, _decode, await read_document(call))).code
    state = call.server.resource(SignInState)
    browsers = state.browsers(call)
    opened = await one_time_code.exchange(
        call.server.store, code, call.server.clock.now(), browsers=browsers.keys()
    )
    headers = (state.cookie(browsers[opened.browser], "", 0),) if opened.browser else ()
    return answer(SessionKey(opened.text.reveal(), opened.session.expires), 201, headers)


async def end_session(call: HttpRequest) -> Response:
    """End the session of this key. An API key or a token is not a session, and stays as it is."""
    call.query()
    ended = await page_sessions.end(call.server.store, credential_of(call))
    sign_in = call.server.resource(SignInState).offered
    next = (
        await end_at_provider(sign_in)
        if sign_in is not None and ended is not None and ended.at_provider
        else ""
    )
    return answer(SessionEnd(ended is not None, next))
