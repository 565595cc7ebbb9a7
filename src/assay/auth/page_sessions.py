"""
Sessions of the page: a one-time code, and the key of short life that it is exchanged for.

The command `assay view`, and the sign-in at an OpenID provider, put a code into the fragment of an address. The page
exchanges it once. The store has only the SHA-256 of codes and of session keys. A session acts for the key that opened
it, has the same scopes, and ends when that key is revoked. A person who signed in at the provider has no key.
"""

import hashlib
import hmac
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from assay.auth import keys
from assay.errors import Conflict, NotFound, Unauthenticated
from assay.ports import DeleteDocument, Principal, PutDocument, Secret, Store, Transaction
from assay.ports.audit import audit_entry

CODE, SESSION = "session-code", "session"  # kinds of documents of the host's own tenant, ""
CODE_PREFIX, PREFIX = "assay_code_", "assay_session_"
CODE_LIFE = timedelta(minutes=5)  # long enough to copy an address by hand
LIFE = timedelta(hours=12)
TOKEN_LIFE = timedelta(hours=1)  # opened with a JWT, whose revocation this server cannot see


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """
    A session without its secret.

    `key` is the id of the key that opened it; "": a token, the command or a provider did.
    `at_provider`: a person signed in at an OpenID provider.
    """

    tenant: str
    opener: str
    scopes: frozenset[str]
    expires: datetime
    key: str = ""
    at_provider: bool = False

    def admit(self, now: datetime) -> Principal:
        """Return the principal while the session lasts."""
        if self.expires <= now:
            raise Unauthenticated("session_expired" if self.at_provider else "key_expired")
        return Principal(tenant=self.tenant, id=self.opener, scopes=self.scopes)


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
    record = _Code(expires=now + CODE_LIFE, session=session, browser=_digest(browser) if browser else "")
    put = PutDocument(tenant="", kind=CODE, key=_digest(text), data=msgspec.json.encode(record))
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
    found = await store.document("", CODE, _digest(code)) if code.startswith(CODE_PREFIX) else None
    if found is None:
        raise Unauthenticated("code_refused")
    record = _CODES.decode(found.data)
    browser = next((one for one in browsers if hmac.compare_digest(record.browser, _digest(one))), "")
    if record.expires <= now or (record.browser and not browser):
        raise Unauthenticated("code_refused")
    text, session = f"{PREFIX}{secrets.token_urlsafe(32)}", record.session
    changes = [
        DeleteDocument(tenant="", kind=CODE, key=found.key, version=found.version),
        PutDocument(tenant="", kind=SESSION, key=_digest(text), data=msgspec.json.encode(session)),
    ]
    entry = audit_entry(session.tenant, "session.open", session.opener)
    entry = msgspec.structs.replace(entry, who=session.opener)  # the request brings no key
    try:
        await store.commit(Transaction(documents=changes, lines=[entry]))
    except (Conflict, NotFound):  # another call used it meanwhile
        raise Unauthenticated("code_refused") from None
    return OpenedSession(session, Secret(text), browser)


async def find(store: Store, text: str) -> Session:
    """Return the session of a key that begins with `PREFIX`. It has ended if the key that opened it is revoked."""
    found = await store.document("", SESSION, _digest(text))
    if found is None:
        raise Unauthenticated
    session = _SESSIONS.decode(found.data)
    if session.key:
        await keys.require_unrevoked(store, session.key)
    return session


async def end(store: Store, text: str) -> Session | None:
    """End a session, and return it. None: this text is not the key of one."""
    if not text.startswith(PREFIX):
        return None
    found = await store.document("", SESSION, _digest(text))
    if found is None:
        return None
    session = _SESSIONS.decode(found.data)
    entry = audit_entry(session.tenant, "session.end", session.opener)
    gone = DeleteDocument(tenant="", kind=SESSION, key=found.key, version=None)
    await store.commit(Transaction(documents=[gone], lines=[entry]))
    return session


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_CODES = msgspec.json.Decoder(_Code)
_SESSIONS = msgspec.json.Decoder(Session)
