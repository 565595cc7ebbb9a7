"""
API keys: made, listed, revoked, and held against what the store knows of them (openwop-contract §2.1).

A key is `assay_<id>_<secret>`. The store has its id and the SHA-256 of the whole; the secret has 256 random bits, so that a slow
hash would protect nothing. All keys lie under the tenant "", the host's own, and say themselves whose they are.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec

from assay.auth import scopes as table
from assay.errors import Conflict, Forbidden, InvalidRequest, NotFound, Problem, Unauthenticated
from assay.ports import Document, Principal, PutDocument, Secret, Store, Transaction
from assay.ports.audit import audit_entry

KIND = "key"
PREFIX = "assay_"
MAX_TENANT, MAX_NOTE = 64, 200

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another
_ID = re.compile(rf"(?:{PREFIX})?([{_LETTERS}]{{8}})")
_TEXT = re.compile(rf"{PREFIX}([{_LETTERS}]{{8}})_[A-Za-z0-9_-]{{43}}")


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a key; nothing in it opens anything."""

    id: str
    tenant: str
    scopes: frozenset[str]
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    note: str = ""

    @property
    def prefix(self) -> str:
        """How it begins, to tell it by."""
        return f"{PREFIX}{self.id}"

    def state(self, now: datetime) -> Literal["active", "expired", "revoked"]:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


class Presented(NamedTuple):
    """A text in the shape of a key: which one it claims to be, and its hash."""

    id: str
    digest: str


class _Kept(msgspec.Struct, frozen=True):
    digest: str
    key: Key


async def create(
    store: Store,
    *,
    tenant: str,
    scopes: Iterable[str] = table.DEFAULT,
    expires: datetime | None = None,
    note: str = "",
    now: datetime,
) -> tuple[Key, Secret]:
    """A new key, and its text, which is nowhere else and never to be had again."""
    scopes = frozenset(scopes)
    if problems := [*_tenant_problems(tenant), *table.problems_of(scopes), *_note_problems(note)]:
        raise InvalidRequest(problems)
    if expires is not None and expires <= now:
        raise InvalidRequest(Problem("expires", f"{expires.isoformat()} does not lie ahead"))
    while True:
        id = "".join(secrets.choice(_LETTERS) for _ in range(8))
        text = f"{PREFIX}{id}_{secrets.token_urlsafe(32)}"
        key = Key(id=id, tenant=tenant, scopes=scopes, created=now, expires=expires, note=note)
        try:
            put = _put(_Kept(_digest(text), key), version=0)
            await store.commit(Transaction(documents=[put], lines=[audit_entry(tenant, "key.create", id)]))
        except Conflict:  # one in 10¹²: the id is taken
            continue
        return key, Secret(text)


async def list_keys(store: Store, tenant: str | None = None) -> list[Key]:
    """All keys, or a tenant's, oldest first: also those that are good no more."""
    found: list[Key] = []
    after = ""
    while page := await store.documents("", KIND, after=after, limit=500):
        found += [_kept(document).key for document in page]
        after = page[-1].key
    return sorted(
        (key for key in found if tenant in (None, key.tenant)), key=lambda key: (key.created, key.id)
    )


async def revoke(store: Store, id: str, *, tenant: str | None = None, now: datetime) -> Key:
    """
    End a key for good, and what it is then; one that was revoked before keeps its moment. The prefix will do as well.

    Where a tenant is given, another's key is as absent as an unknown one.
    """
    if not (said := _ID.fullmatch(id)):  # perhaps a whole key: not to be repeated
        raise NotFound(f"no key has such an id; it is the 8 characters after {PREFIX}")
    while True:
        document = await store.document("", KIND, said[1])
        kept = _kept(document) if document else None
        if document is None or kept is None or tenant not in (None, kept.key.tenant):
            raise NotFound(f"there is no key {said[1]!r}")
        if kept.key.revoked is not None:
            return kept.key
        ended = msgspec.structs.replace(kept, key=msgspec.structs.replace(kept.key, revoked=now))
        try:
            told = audit_entry(kept.key.tenant, "key.revoke", kept.key.id)
            await store.commit(Transaction(documents=[_put(ended, version=document.version)], lines=[told]))
        except Conflict:  # somebody else changed it meanwhile: look again
            continue
        return ended.key


async def authenticate(store: Store, text: str, now: datetime) -> Principal:
    """Who is asking with this text; Unauthenticated if nobody is. `Gate` does the same and remembers."""
    return admitted(await find(store, presented(text)), now)


def presented(text: str) -> Presented:
    """What is no key by its shape, which is no secret, costs no look into the store."""
    if (id := id_in(text)) is None:
        raise Unauthenticated
    return Presented(id, _digest(text))


def id_in(text: str) -> str | None:
    """The id of a text in the shape of a key."""
    said = _TEXT.fullmatch(text)
    return said[1] if said else None


async def find(store: Store, presented: Presented) -> Key:
    """The key, if the text is the whole of it. An unknown id goes the same way as a wrong secret, and takes as long."""
    document = await store.document("", KIND, presented.id)
    kept = _DECODER.decode(document.data if document else _NOBODY)
    same = hmac.compare_digest(kept.digest, presented.digest)
    if not same or document is None:
        raise Unauthenticated
    return kept.key


def admitted(key: Key, now: datetime) -> Principal:
    """Only who holds the key itself is told that it has ended."""
    match key.state(now):
        case "active":
            return Principal(tenant=key.tenant, id=key.id, scopes=key.scopes)
        case "expired":
            raise Unauthenticated("key_expired")
        case "revoked":
            raise Unauthenticated("key_revoked")


def authorize(principal: Principal, *scopes: str) -> None:
    """Forbidden, by the first scope that is missing."""
    for scope in scopes:
        if not principal.may(scope):
            raise Forbidden(scope)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _put(kept: _Kept, *, version: int) -> PutDocument:
    data = msgspec.json.encode(kept, order="deterministic")
    return PutDocument(tenant="", kind=KIND, key=kept.key.id, data=data, version=version)


def _kept(document: Document) -> _Kept:
    return _DECODER.decode(document.data)


def is_tenant(tenant: str) -> bool:
    """Whether a tenant may be called so; "" is the host's own."""
    ends = tenant.strip() != tenant or not tenant.strip(".")
    fits = 0 < len(tenant) <= MAX_TENANT and tenant.isprintable()
    return fits and not ends and not set(tenant) & {"/", "\\"}


def _tenant_problems(tenant: str) -> list[Problem]:
    if is_tenant(tenant):
        return []
    wanted = f"expected a name of 1 to {MAX_TENANT} printable characters, without slashes or spaces around"
    return [Problem("tenant", f"{wanted}, got {tenant[:40]!r}")]


def _note_problems(note: str) -> list[Problem]:
    if len(note) <= MAX_NOTE and note.isprintable():
        return []
    wanted = f"expected one line of at most {MAX_NOTE} printable characters"
    return [Problem("note", f"{wanted}, got {note[:40]!r}")]


_DECODER = msgspec.json.Decoder(_Kept)
_NOBODY = msgspec.json.encode(
    _Kept(
        _digest(secrets.token_urlsafe(32)),
        Key(id="nobodyyy", tenant="nobody", scopes=table.DEFAULT, created=datetime.fromtimestamp(0, UTC)),
    )
)
