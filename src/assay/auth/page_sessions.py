"""
Sessions of the page, whose key has a short life. A one-time code opens one (`one_time_code.py`).

The store has only the SHA-256 of session keys. A session acts for the key that opened it, has the same scopes, and ends
when that key is revoked. A person who signed in at an OpenID provider has no key.
"""

import hashlib
from datetime import datetime, timedelta

import msgspec

from assay.auth import keys
from assay.errors import Unauthenticated
from assay.ports import DeleteDocument, Principal, Store, Transaction
from assay.ports.audit import audit_entry

SESSION = "session"  # a kind of documents of the host's own tenant, ""
PREFIX = "assay_session_"
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


async def find(store: Store, text: str) -> Session:
    """Return the session of a key that begins with `PREFIX`. It has ended if the key that opened it is revoked."""
    found = await store.document("", SESSION, digest_of(text))
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
    found = await store.document("", SESSION, digest_of(text))
    if found is None:
        return None
    session = _SESSIONS.decode(found.data)
    entry = audit_entry(session.tenant, "session.end", session.opener)
    gone = DeleteDocument(tenant="", kind=SESSION, key=found.key, version=None)
    await store.commit(Transaction(documents=[gone], lines=[entry]))
    return session


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_SESSIONS = msgspec.json.Decoder(Session)
