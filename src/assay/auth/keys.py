"""
API keys: create, list, revoke, authenticate (openwop-contract §2.1).

A key is `assay_<id>_<secret>`. The store holds its id and the SHA-256 of the whole key. The secret has 256 random bits,
so a slow hash would add no protection. All keys are documents of the host's own tenant, "", and each names its tenant.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from assay.errors import Conflict, Forbidden, InvalidRequest, NotFound, Problem, Unauthenticated
from assay.ports import DeleteDocument, Document, Principal, PutDocument, Secret, Store, Transaction
from assay.ports.audit import audit_entry

# Expiry of a key: `90d`, `12h`, a date, or `never`.

LIFE = timedelta(days=90)  # of a key whose creator did not say when it expires
NEVER = "never"

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"([0-9]{1,6})([mhdw])")


def expiry(text: str, now: datetime) -> datetime:
    """
    Return the time, which must be in the future. Dates, and times without a zone, are in UTC.

    >>> expiry("2w", datetime(2026, 7, 1, tzinfo=UTC)).isoformat()
    '2026-07-15T00:00:00+00:00'
    """
    try:
        moment = _moment(text, now)
    except (ValueError, OverflowError):
        expected = f"expected a span such as 90d, 12h, 30m or 2w, a date such as 2027-01-31, or {NEVER}"
        raise InvalidRequest(Problem("expires", f"{expected}, got {text[:40]!r}")) from None
    if moment <= now:
        raise InvalidRequest(Problem("expires", f"expected a time in the future, got {text!r}"))
    return moment


def end_of_life(expires: str | None, now: datetime) -> datetime | None:
    """When a key expires: as `expiry` reads the text, None for `never`, and after `LIFE` without a text."""
    if expires is None:
        return now + LIFE
    return None if expires == NEVER else expiry(expires, now)


def _moment(text: str, now: datetime) -> datetime:
    if span := _SPAN.fullmatch(text):
        return now + timedelta(**{_UNITS[span[2]]: int(span[1])})
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


# Scopes of keys and tokens (FEP-43, openwop-contract §2.1). No scope implies another.

SCOPES: dict[str, str] = {  # those that a route needs
    "evaluations:create": "start evaluations",
    "evaluations:read": "read evaluations, their results and the catalogue of checks",
    "evaluations:cancel": "cancel evaluations",
    "runs:create": "start and fork runs",
    "runs:read": "read runs, their events, summaries and reports",
    "runs:cancel": "cancel runs",
    "runs:delete": "erase the content of runs and evaluations",
    "deploy:promote": "promote versions of agents, and adjust their canary percentages",
    "deploy:pause": "pause and deprecate versions of agents",
    "deploy:rollback": "roll versions of agents back",
    "approvals:respond": "answer a run that waits for a person",
    "manifest:read": "read agents and workflows",
    "agents:write": "register and remove agents of the tenant",
    "suites:read": "read suites",
    "suites:write": "store suites",
    "packs:publish": "install packs",
    "packs:yank": "remove packs",
    "traces:write": "send traces that are scored",
    "keys:manage": "create, list and revoke keys of the tenant",
    "metrics:read": "read the metrics of the server",
}
# the protocols' names for what this host does not serve; a key may have them
RESERVED: frozenset[str] = frozenset({"artifacts:read", "audit:read", "webhooks:manage"})
DEPLOY: frozenset[str] = frozenset(scope for scope in SCOPES if scope.startswith("deploy:"))
SERVER: frozenset[str] = frozenset({"metrics:read"})  # they show what all tenants do
TENANT: frozenset[str] = frozenset(SCOPES) - SERVER
EVERYTHING = "everything"  # the word for the scopes of `TENANT`
# of a key created without scopes; the operator must name the others
DEFAULT: frozenset[str] = TENANT - DEPLOY - {"keys:manage"}


def scope_problems(names: Iterable[str]) -> list[Problem]:
    """One problem that names all unknown scopes."""
    unknown = ", ".join(
        repr(name[:40]) for name in sorted({*names} - SCOPES.keys() - RESERVED - {EVERYTHING})
    )
    possible = f"there are {EVERYTHING}, {', '.join(SCOPES)}"
    return [Problem("scope", f"there is no scope {unknown}; {possible}")] if unknown else []


def resolve_scopes(names: Iterable[str]) -> frozenset[str]:
    """The scopes of these names, of which one may be `everything`."""
    names = frozenset(names)
    return names - {EVERYTHING} | TENANT if EVERYTHING in names else names


def describe_scopes(scopes: frozenset[str]) -> str:
    """The scopes of a key in one line: `everything` is all of its tenant's."""
    missing = TENANT - scopes
    if len(missing) > len(TENANT) // 2:
        return ",".join(sorted(scopes)) or "nothing"
    more = "".join(f",{scope}" for scope in sorted(scopes - TENANT))
    return f"{EVERYTHING}{more}" + (f" except {','.join(sorted(missing))}" if missing else "")


KIND, INDEX = "key", "tenant-key"  # INDEX: one empty document for each key, named TENANT/ID
MOST = 1_000  # active keys of a tenant, if it makes them itself
PREFIX = "assay_"
MAX_TENANT, MAX_NOTE = 64, 200

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters that look alike
_ID = re.compile(rf"(?:{PREFIX})?([{_LETTERS}]{{8}})")
_TEXT = re.compile(rf"{PREFIX}([{_LETTERS}]{{8}})_[A-Za-z0-9_-]{{43}}")


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    id: str
    tenant: str
    scopes: frozenset[str]
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    note: str = ""

    @property
    def prefix(self) -> str:
        """The start of the key, by which people recognise it."""
        return f"{PREFIX}{self.id}"

    def state(self, now: datetime) -> Literal["active", "expired", "revoked"]:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


class PresentedKey(NamedTuple):
    """A well-formed key from a request: its id, and the hash of the whole."""

    id: str
    digest: str


class _StoredKey(msgspec.Struct, frozen=True):
    digest: str
    key: Key


async def create(
    store: Store,
    *,
    tenant: str,
    scopes: Iterable[str] = DEFAULT,
    expires: datetime | None = None,
    note: str = "",
    now: datetime,
) -> tuple[Key, Secret]:
    """Create a key. Its text is returned once and stored nowhere."""
    scopes = frozenset(scopes)
    if problems := [*_tenant_problems(tenant), *scope_problems(scopes), *_note_problems(note)]:
        raise InvalidRequest(problems)
    scopes = resolve_scopes(scopes)
    if expires is not None and expires <= now:
        raise InvalidRequest(Problem("expires", f"expected a time in the future, got {expires.isoformat()}"))
    while True:
        id = "".join(secrets.choice(_LETTERS) for _ in range(8))
        text = f"{PREFIX}{id}_{secrets.token_urlsafe(32)}"
        key = Key(id=id, tenant=tenant, scopes=scopes, created=now, expires=expires, note=note)
        try:
            puts = [_put(_StoredKey(_digest(text), key), version=0), _index_entry(key)]
            await store.commit(Transaction(documents=puts, lines=[audit_entry(tenant, "key.create", id)]))
        except Conflict:  # the id is taken: one in 10¹²
            continue
        return key, Secret(text)


async def list_keys(store: Store, tenant: str | None = None) -> list[Key]:
    """All keys, or a tenant's, oldest first; expired and revoked ones too."""
    if tenant is None:
        stored = await _all_documents(store, KIND)
    else:
        index = await _all_documents(store, INDEX, prefix=f"{tenant}/")
        stored = await store.find_documents("", KIND, [entry.key.partition("/")[2] for entry in index])
    return sorted((_decode_key(document).key for document in stored), key=lambda key: (key.created, key.id))


async def _all_documents(store: Store, kind: str, *, prefix: str = "") -> list[Document]:
    found: list[Document] = []
    while page := await store.documents(
        "", kind, prefix=prefix, after=found[-1].key if found else "", limit=500
    ):
        found += page
    return found


async def create_within(
    store: Store,
    owner: Principal,
    *,
    scopes: Iterable[str] | None,
    expires: datetime | None,
    note: str = "",
    now: datetime,
) -> tuple[Key, Secret]:
    """
    Create a key of the owner's tenant, for a request. It may have the scopes that the owner has, and no other.

    Without scopes it has those of `DEFAULT` that the owner has.
    """
    chosen = owner.scopes & DEFAULT if scopes is None else resolve_scopes(scopes)
    if not scope_problems(chosen):  # `create` refuses those
        authorize(owner, *sorted(chosen))
    await _make_room(store, await list_keys(store, owner.tenant), now)
    return await create(store, tenant=owner.tenant, scopes=chosen, expires=expires, note=note, now=now)


async def _make_room(store: Store, existing: list[Key], now: datetime) -> None:
    """Remove the oldest keys that have ended, if the tenant has `MOST`. The audit log still names them."""
    surplus = len(existing) - MOST + 1
    if surplus <= 0:
        return
    ended = [key for key in existing if key.state(now) != "active"][:surplus]
    if len(ended) < surplus:
        raise InvalidRequest(
            Problem("", f"expected at most {MOST:,} keys of a tenant; revoke one that is not used")
        )
    gone = [
        DeleteDocument(tenant="", kind=kind, key=name, version=None)
        for key in ended
        for kind, name in ((KIND, key.id), (INDEX, f"{key.tenant}/{key.id}"))
    ]
    await store.commit(Transaction(documents=gone))


async def revoke(store: Store, id: str, *, tenant: str | None = None, now: datetime) -> Key:
    """
    Revoke a key by its id or prefix, and return it. A key that was revoked before keeps that time.

    With a tenant, another tenant's key is NotFound, like an unknown one.
    """
    if not (match := _ID.fullmatch(id)):  # perhaps a whole key, which must not be repeated
        raise NotFound(
            f"expected the id of a key, the 8 characters after {PREFIX}; `assay admin key list` shows them"
        )
    while True:
        document = await store.document("", KIND, match[1])
        stored = _decode_key(document) if document else None
        if document is None or stored is None or tenant not in (None, stored.key.tenant):
            raise NotFound(f"there is no key {match[1]!r}")
        if stored.key.revoked is not None:
            return stored.key
        changed = msgspec.structs.replace(stored, key=msgspec.structs.replace(stored.key, revoked=now))
        try:
            entry = audit_entry(stored.key.tenant, "key.revoke", stored.key.id)
            put = _put(changed, version=document.version)
            await store.commit(Transaction(documents=[put], lines=[entry]))
        except Conflict:  # another process changed it: read it again
            continue
        return changed.key


async def authenticate(store: Store, text: str, now: datetime) -> Principal:
    """Return the principal of a key, or raise Unauthenticated. `Authenticator` does the same with a cache."""
    return admit(await find(store, parse(text)), now)


def parse(text: str) -> PresentedKey:
    """Refuse a malformed key without reading the store. The format is not a secret."""
    if (id := id_in(text)) is None:
        raise Unauthenticated
    return PresentedKey(id, _digest(text))


def id_in(text: str) -> str | None:
    """The id in a well-formed key."""
    match = _TEXT.fullmatch(text)
    return match[1] if match else None


async def find(store: Store, credentials: PresentedKey) -> Key:
    """Return the key if the secret is right. An unknown id takes the same path, and as long, as a wrong secret."""
    document = await store.document("", KIND, credentials.id)
    stored = _DECODER.decode(document.data if document else _DECOY)
    same = hmac.compare_digest(stored.digest, credentials.digest)
    if not same or document is None:
        raise Unauthenticated
    return stored.key


async def require_unrevoked(store: Store, id: str) -> None:
    """Raise Unauthenticated if the key with this id is revoked or gone. An expiry does not count here."""
    document = await store.document("", KIND, id)
    if document is None or _decode_key(document).key.revoked is not None:
        raise Unauthenticated("key_revoked")


def admit(key: Key, now: datetime) -> Principal:
    """Return the key's principal if the key is active. Only a caller with the right secret learns that it is not."""
    match key.state(now):
        case "active":
            return Principal(tenant=key.tenant, id=key.id, scopes=key.scopes)
        case "expired":
            raise Unauthenticated("key_expired")
        case "revoked":
            raise Unauthenticated("key_revoked")


def authorize(principal: Principal, *scopes: str) -> None:
    """Raise Forbidden with the first scope that is missing."""
    for scope in scopes:
        if not principal.may(scope):
            raise Forbidden(scope)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _put(record: _StoredKey, *, version: int) -> PutDocument:
    data = msgspec.json.encode(record, order="deterministic")
    return PutDocument(tenant="", kind=KIND, key=record.key.id, data=data, version=version)


def _index_entry(key: Key) -> PutDocument:
    return PutDocument(tenant="", kind=INDEX, key=f"{key.tenant}/{key.id}", data=b"{}", version=0)


def _decode_key(document: Document) -> _StoredKey:
    return _DECODER.decode(document.data)


def is_tenant(tenant: str) -> bool:
    """Whether this is a valid name of a tenant. The host's own, "", is not."""
    ends = tenant.strip() != tenant or not tenant.strip(".")
    fits = 0 < len(tenant) <= MAX_TENANT and tenant.isprintable()
    return fits and not ends and not set(tenant) & {"/", "\\"}


def _tenant_problems(tenant: str) -> list[Problem]:
    if is_tenant(tenant):
        return []
    expected = f"expected a name of 1 to {MAX_TENANT} printable characters, without slashes or spaces around"
    return [Problem("tenant", f"{expected}, got {tenant[:40]!r}")]


def _note_problems(note: str) -> list[Problem]:
    if len(note) <= MAX_NOTE and note.isprintable():
        return []
    expected = f"expected one line of at most {MAX_NOTE} printable characters"
    return [Problem("note", f"{expected}, got {note[:40]!r}")]


_DECODER = msgspec.json.Decoder(_StoredKey)
_DECOY = msgspec.json.encode(
    _StoredKey(
        _digest(secrets.token_urlsafe(32)),
        Key(id="nobodyyy", tenant="nobody", scopes=DEFAULT, created=datetime.fromtimestamp(0, UTC)),
    )
)
