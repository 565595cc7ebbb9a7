"""
The one-time code that opens a session of the page.

The command `assay view`, and the sign-in at an OpenID provider, put a code into the fragment of an address. The page
exchanges it once for the key of a session. The store has only the SHA-256 of codes.
"""

import hmac
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from assay.auth.page_sessions import LIFE, PREFIX, SESSION, Session, digest_of
from assay.errors import Conflict, NotFound, Unauthenticated
from assay.ports import DeleteDocument, Principal, PutDocument, Secret, Store, Transaction
from assay.ports.audit import audit_entry

CODE = "session-code"  # a kind of documents of the host's own tenant, ""
CODE_PREFIX = "assay_code_"
CODE_LIFE = timedelta(minutes=5)  # long enough to copy an address by hand


class _Code(msgspec.Struct, frozen=True, kw_only=True):
    expires: datetime
    session: Session
    browser: str = ""  # the only one that may exchange it; "": any


class OpenedSession(NamedTuple):
    session: Session
    text: Secret
    browser: str = ""  # the secret that it took


async def create_code(
    store: Store,
    principal: Principal,
    now: datetime,
    *,
    key: str = "",
    life: timedelta = LIFE,
    browser: str = "",
) -> Secret:
    """
    Create a code for a session of this principal. It is returned once and works once, within `CODE_LIFE`.

    `browser`: a secret of the browser in which the person signed in at an OpenID provider.
    """
    text = f"{CODE_PREFIX}{secrets.token_urlsafe(32)}"
    session = Session(
        tenant=principal.tenant,
        opener=principal.id,
        scopes=principal.scopes,
        expires=now + life,
        key=key,
        at_provider=bool(browser),
    )
    record = _Code(expires=now + CODE_LIFE, session=session, browser=digest_of(browser) if browser else "")
    put = PutDocument(tenant="", kind=CODE, key=digest_of(text), data=msgspec.json.encode(record))
    await store.sweep(CODE, before=now - CODE_LIFE)
    await store.sweep(SESSION, before=now - LIFE)
    await store.commit(Transaction(documents=[put]))
    return Secret(text)


async def exchange(
    store: Store, code: str, now: datetime, *, browsers: Collection[str] = ()
) -> OpenedSession:
    """
    Exchange a code for a session. Of two calls with the same code, one is refused.

    `browsers`: the secrets that this browser has. A code of one browser is refused in another, and stays valid.
    """
    found = await store.document("", CODE, digest_of(code)) if code.startswith(CODE_PREFIX) else None
    if found is None:
        raise Unauthenticated("code_refused")
    record = _CODES.decode(found.data)
    browser = next((one for one in browsers if hmac.compare_digest(record.browser, digest_of(one))), "")
    if record.expires <= now or (record.browser and not browser):
        raise Unauthenticated("code_refused")
    text, session = f"{PREFIX}{secrets.token_urlsafe(32)}", record.session
    changes = [
        DeleteDocument(tenant="", kind=CODE, key=found.key, version=found.version),
        PutDocument(tenant="", kind=SESSION, key=digest_of(text), data=msgspec.json.encode(session)),
    ]
    entry = audit_entry(session.tenant, "session.open", session.opener)
    entry = msgspec.structs.replace(entry, who=session.opener)  # the request brings no key
    try:
        await store.commit(Transaction(documents=changes, lines=[entry]))
    except (Conflict, NotFound):  # another call used it meanwhile
        raise Unauthenticated("code_refused") from None
    return OpenedSession(session, Secret(text), browser)


_CODES = msgspec.json.Decoder(_Code)
