"""Who is asking: keys, scopes and the gate (openwop-contract §2.1; FEP-43)."""

import ast
import asyncio
import base64
import contextlib
import hashlib
import hmac
import inspect
import logging
import pickle
import sqlite3
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import psycopg
import pytest

from assay.auth import keys
from assay.auth.authenticator import Authenticator
from assay.auth.keys import (
    DEFAULT,
    DEPLOY,
    RESERVED,
    SCOPES,
    TENANT,
    Key,
    authenticate,
    authorize,
    create,
    expiry,
    list_keys,
    revoke,
)
from assay.backends.stores.memory import MemoryStore
from assay.errors import Forbidden, InvalidRequest, NotFound, Unauthenticated
from assay.ports import DeleteDocument, Document, Principal, Transaction
from assay.promotion.transitions import DEPLOY_SCOPES
from assay.serve.application import ROUTES
from support.spec_files import SHARED, needs_shared

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


async def made(store, **options) -> tuple[Key, str]:
    key, secret = await create(store, **{"tenant": "acme", "now": NOW, **options})
    return key, secret.reveal()


# Keys


async def test_a_key_has_its_tenant_and_scopes(store):
    key, text = await made(store, scopes=["runs:read"], expires=LATER, note="for CI/CD")

    assert await authenticate(store, text, NOW) == Principal(
        tenant="acme", id=key.id, scopes=frozenset({"runs:read"})
    )
    assert text.startswith(f"{key.prefix}_")
    assert len(base64.urlsafe_b64decode(text.split("_", 2)[2] + "=")) * 8 == 256
    assert await list_keys(store) == [key]
    assert (key.created, key.expires, key.revoked, key.note) == (NOW, LATER, None, "for CI/CD")


WRONG = [
    ("empty", lambda text: "", "unauthenticated"),
    ("no such id", lambda text: f"assay_{'z' * 8}{text[14:]}", "unauthenticated"),
    ("wrong secret", lambda text: text[:15] + text[15:][::-1], "unauthenticated"),
    ("one bit off", lambda text: text[:-1] + chr(ord(text[-1]) ^ 1), "unauthenticated"),
    ("truncated", lambda text: text[:-1], "unauthenticated"),
    ("only the prefix", lambda text: text[:14], "unauthenticated"),
    ("more behind it", lambda text: text + "a", "unauthenticated"),
    ("another prefix", lambda text: text.replace("assay_", "sk_", 1), "unauthenticated"),
    ("no prefix", lambda text: text.removeprefix("assay_"), "unauthenticated"),
    ("upper case", lambda text: text.upper(), "unauthenticated"),
    ("the hash of it", lambda text: hashlib.sha256(text.encode()).hexdigest(), "unauthenticated"),
    ("space before", lambda text: " " + text, "unauthenticated"),
    ("newline behind", lambda text: text + "\n", "unauthenticated"),
    ("blank", lambda text: " \t ", "unauthenticated"),
    ("unicode", lambda text: text[:-1] + "é", "unauthenticated"),
    ("digits that are no ASCII", lambda text: text[:-1] + "٣", "unauthenticated"),
    ("lone surrogate", lambda text: text[:-1] + "\ud800", "unauthenticated"),
    ("NUL", lambda text: text[:-1] + "\0", "unauthenticated"),
    ("NUL behind", lambda text: text + "\0", "unauthenticated"),
    ("huge", lambda text: text * 100_000, "unauthenticated"),
    ("a path", lambda text: "assay_../../.._" + text[15:], "unauthenticated"),
    ("a pattern", lambda text: "assay_%%%%%%%%_" + text[15:], "unauthenticated"),
]


class Counting(MemoryStore):
    looks = 0

    async def document(self, tenant: str, kind: str, key: str) -> Document | None:
        self.looks += 1
        return await super().document(tenant, kind, key)


async def test_a_malformed_key_is_not_looked_up():
    store = Counting()
    _, text = await made(store)
    for _, bend, _ in WRONG:
        if not keys._TEXT.fullmatch(bent := bend(text)):
            for asking in (authenticate(store, bent, NOW), Authenticator(store).authenticate(bent)):
                with pytest.raises(Unauthenticated):
                    await asking
    assert store.looks == 0


async def test_every_invalid_key_is_refused(store):
    _, text = await made(store)
    gate = Authenticator(store)
    for why, bend, code in WRONG:
        bent = bend(text)
        for asking in (authenticate(store, bent, NOW), gate.authenticate(bent)):
            with pytest.raises(Unauthenticated) as refused:
                await asking
            assert refused.value.code == code, why
            assert text[15:] not in str(refused.value)
    assert (await authenticate(store, text, NOW)).tenant == "acme"  # and nothing of that has hurt it


@pytest.mark.parametrize(
    ("moment", "code"),
    [
        (NOW, None),
        (LATER - timedelta(microseconds=1), None),
        (LATER, "key_expired"),  # not included
        (LATER + timedelta(days=9999), "key_expired"),
    ],
)
async def test_a_key_expires(store, moment, code):
    _, text = await made(store, expires=LATER)
    if code is None:
        assert await authenticate(store, text, moment)
    else:
        with pytest.raises(Unauthenticated) as refused:
            await authenticate(store, text, moment)
        assert refused.value.code == code


async def test_a_revoked_key_is_refused(store):
    key, text = await made(store, expires=LATER)
    other, still = await made(store)
    ended = await revoke(store, key.id, now=NOW)

    assert ended == msgspec.structs.replace(key, revoked=NOW)
    for moment in (NOW, LATER):  # expired as well: revoked is what somebody meant
        with pytest.raises(Unauthenticated) as refused:
            await authenticate(store, text, moment)
        assert refused.value.code == "key_revoked"
    assert (await authenticate(store, still, NOW)).id == other.id
    assert await revoke(store, key.prefix, now=LATER) == ended  # again, by its prefix: the first moment stays


async def test_only_the_holder_of_a_key_reads_why_it_ended(store):
    key, text = await made(store)
    await revoke(store, key.id, now=NOW)
    with pytest.raises(Unauthenticated) as refused:
        await authenticate(store, text[:15] + text[15:][::-1], NOW)
    assert refused.value.code == "unauthenticated"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "id", ["zzzzzzzz", "", "a", "ABCDEFGH", "aaaaaaa\0", "é" * 8, "a" * 9, "assay_", "../keys"]
)
async def test_revoking_an_unknown_key_is_refused(store, id):
    with pytest.raises(NotFound):
        await revoke(store, id, now=NOW)


async def test_a_whole_key_given_as_id_is_refused_and_not_repeated(store):
    _, text = await made(store)
    with pytest.raises(NotFound) as refused:
        await revoke(store, text, now=NOW)
    assert text[15:] not in str(refused.value)


async def test_a_key_of_another_tenant_is_not_found(store):
    key, text = await made(store)
    with pytest.raises(NotFound) as foreign:
        await revoke(store, key.id, tenant="other", now=NOW)
    await store.commit(
        Transaction(documents=[DeleteDocument(tenant="", kind="key", key=key.id, version=None)])
    )
    with pytest.raises(NotFound) as unknown:
        await revoke(store, key.id, tenant="other", now=NOW)
    assert str(foreign.value) == str(unknown.value)
    with pytest.raises(Unauthenticated):
        await authenticate(store, text, NOW)


async def test_keys_are_listed_by_tenant_oldest_first(store):
    made_ = [(await made(store, tenant=f"t{n % 2}", now=NOW + timedelta(seconds=n)))[0] for n in range(7)]
    assert await list_keys(store) == made_
    assert await list_keys(store, "t1") == made_[1::2]
    assert await list_keys(store, "") == []


async def test_concurrent_revocations_agree(store):
    key, _ = await made(store)
    both = await asyncio.gather(*(revoke(store, key.id, now=NOW + timedelta(seconds=n)) for n in range(8)))
    assert len({one.revoked for one in both}) == 1
    assert [one.revoked for one in await list_keys(store)] == [both[0].revoked]


async def test_an_id_of_a_key_is_unique(store, monkeypatch):
    letters = iter("a" * 8 + "a" * 8 + "b" * 8)
    monkeypatch.setattr(keys.secrets, "choice", lambda _: next(letters))
    (first, one), (second, two) = await made(store), await made(store, tenant="other")
    assert (first.id, second.id) == ("a" * 8, "b" * 8)
    assert [(await authenticate(store, text, NOW)).tenant for text in (one, two)] == ["acme", "other"]


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({"tenant": ""}, ["tenant"]),  # the host's own
        ({"tenant": "a/b"}, ["tenant"]),
        ({"tenant": "a\\b"}, ["tenant"]),
        ({"tenant": ".."}, ["tenant"]),
        ({"tenant": " a"}, ["tenant"]),
        ({"tenant": "a\n"}, ["tenant"]),
        ({"tenant": "a\0b"}, ["tenant"]),
        ({"tenant": "\x1b[31m"}, ["tenant"]),
        ({"tenant": "a\u202eb"}, ["tenant"]),  # writes from right to left
        ({"tenant": "\ud800"}, ["tenant"]),
        ({"tenant": "x" * 65}, ["tenant"]),
        ({"note": "two\nlines"}, ["note"]),
        ({"note": "x" * 201}, ["note"]),
        ({"scopes": ["runs:write"]}, ["scope"]),
        ({"scopes": ["*"]}, ["scope"]),
        ({"scopes": "runs:read"}, ["scope"]),  # a text is a list of letters
        ({"expires": NOW}, ["expires"]),
        ({"tenant": "", "note": "\n", "scopes": ["x", "runs:read", "y"]}, ["tenant", "scope", "note"]),  # all at once
    ],
)  # fmt: skip
async def test_an_invalid_new_key_is_refused(options, places):
    store = MemoryStore()
    with pytest.raises(InvalidRequest) as refused:
        await made(store, **options)
    assert [problem.place for problem in refused.value.problems] == places
    assert await list_keys(store) == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("tenant", ["a", "acme corp", "ACME.eu-1_x", "größe", "x" * 64, "日本"])
async def test_valid_names_of_tenants(store, tenant):
    _, text = await made(store, tenant=tenant)
    assert (await authenticate(store, text, NOW)).tenant == tenant


# Scopes


@needs_shared
def test_the_scopes_are_those_of_the_contract_and_of_decision_43():
    contract = (SHARED / "openwop-contract.md").read_text("utf-8")
    paragraph = next(line for line in contract.splitlines() if line.startswith("Scopes: "))
    decision = next(
        line for line in (SHARED / "fep-decisions.md").read_text("utf-8").splitlines() if line[:5] == "| 43 "
    )
    named = {
        word for word in (paragraph.split("A scope never")[0] + decision).split("`") if word.count(":") == 1
    }
    names = {word for word in named if word.replace(":", "").isalpha()}
    own = {"runs:delete", "agents:write", "traces:write"}  # erasing, agents of tenants, traces: of this host
    assert names | own == set(SCOPES) | RESERVED
    assert TENANT - DEPLOY - {"keys:manage"} == DEFAULT  # an operator names those of deployments and keys


def test_the_scopes_that_are_listed_are_those_that_a_route_needs():
    assert set(SCOPES) - DEPLOY == {route.scope for route in ROUTES if route.scope}
    assert set(DEPLOY_SCOPES.values()) == DEPLOY  # one route has three, by its transition
    assert not RESERVED & set(SCOPES)


@pytest.mark.parametrize("held", SCOPES)
def test_a_scope_never_implies_another(held):
    principal = Principal(tenant="t", id="k", scopes=frozenset({held}))
    assert [scope for scope in SCOPES if principal.may(scope)] == [held]
    for scope in SCOPES:
        if scope == held:
            authorize(principal, scope)
            continue
        for wanted in ((scope,), (held, scope), (scope, held)):
            with pytest.raises(Forbidden) as refused:
                authorize(principal, *wanted)
            assert (refused.value.code, refused.value.details) == ("forbidden", {"scopeRequired": scope})


@pytest.mark.parametrize("scope", ["", "*", "runs", "runs:*", "RUNS:READ", "runs:read "])
def test_a_similar_word_is_not_a_scope(scope):
    with pytest.raises(Forbidden):
        authorize(Principal(tenant="t", id="k", scopes=DEFAULT), scope)


# When it ends


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90d", NOW + timedelta(days=90)),
        ("12h", NOW + timedelta(hours=12)),
        ("30m", NOW + timedelta(minutes=30)),
        ("2w", NOW + timedelta(weeks=2)),
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T08:30", datetime(2027, 1, 31, 8, 30, tzinfo=UTC)),
        ("2027-01-31T08:30:00Z", datetime(2027, 1, 31, 8, 30, tzinfo=UTC)),
        ("2027-01-31T08:30:00+02:00", datetime(2027, 1, 31, 6, 30, tzinfo=UTC)),
    ],
)
def test_an_expiry_is_a_span_or_a_date(text, moment):
    assert expiry(text, NOW) == moment
    assert expiry(text, NOW.astimezone(timezone(timedelta(hours=5)))) == moment


@pytest.mark.parametrize(
    "text",
    ["", "90", "d", "-1d", "+1d", "1.5d", "0d", "90 d", "٣d", "1y", "90d ", "never", "999999w", "9999999999d",
     "2020-01-01", "2026-07-01T12:00:00Z", "2027-02-30", "31.01.2027", "0001-01-01T00:00:00+14:00", "\0", "x" * 10_000],
)  # fmt: skip
def test_an_invalid_expiry_is_refused(text):
    with pytest.raises(InvalidRequest) as refused:
        expiry(text, NOW)
    assert refused.value.problems[0].place == "expires"
    assert len(str(refused.value)) < 200


# The gate


class Clock:
    moment = NOW
    ticks = 0.0

    def now(self):
        return self.moment

    def tick(self):
        return self.ticks


async def test_the_authenticator_reads_a_key_once_in_a_few_seconds():
    store, clock = Counting(), Clock()
    _, text = await made(store)
    gate = Authenticator(store, clock=clock, tick=clock.tick)
    for clock.ticks in (0.0, 1.0, 2.9):
        assert (await gate.authenticate(text)).tenant == "acme"
    assert store.looks == 1
    clock.ticks = 3.0
    await gate.authenticate(text)
    assert store.looks == 2


async def test_a_key_revoked_by_another_process_is_refused_within_five_seconds():
    store, clock = MemoryStore(), Clock()
    key, text = await made(store)
    gate = Authenticator(store, clock=clock, tick=clock.tick)
    await gate.authenticate(text)
    await revoke(store, key.id, now=NOW)
    await gate.authenticate(text)  # not yet seen
    clock.ticks = 5.0
    with pytest.raises(Unauthenticated) as refused:
        await gate.authenticate(text)
    assert refused.value.code == "key_revoked"


async def test_a_slow_lookup_does_not_extend_a_key():
    class Slow(MemoryStore):
        async def document(self, tenant: str, kind: str, key: str) -> Document | None:
            found = await super().document(tenant, kind, key)
            clock.ticks += 4.0  # and meanwhile it is revoked
            return found

    store, clock = Slow(), Clock()
    key, text = await made(store)
    gate = Authenticator(store, clock=clock, tick=clock.tick)
    await gate.authenticate(text)
    await revoke(store, key.id, now=NOW)
    with pytest.raises(Unauthenticated):
        await gate.authenticate(text)


async def test_a_remembered_key_expires_on_time():
    store, clock = MemoryStore(), Clock()
    _, text = await made(store, expires=LATER)
    gate = Authenticator(store, clock=clock, tick=clock.tick)
    await gate.authenticate(text)
    clock.moment = LATER
    with pytest.raises(Unauthenticated) as refused:
        await gate.authenticate(text)
    assert refused.value.code == "key_expired"


async def test_the_cache_of_keys_is_bounded_and_has_no_text_and_no_unknown_key():
    store = Counting()
    gate = Authenticator(store, size=2)
    texts = [(await made(store))[1] for _ in range(3)]
    for text in texts:
        await gate.authenticate(text)
        with pytest.raises(Unauthenticated):
            await gate.authenticate(f"assay_{'z' * 8}{text[14:]}")
    assert list(gate._cache) == [hashlib.sha256(text.encode()).digest() for text in texts[1:]]
    looks = store.looks
    for text in (texts[1], texts[2], texts[0]):
        await gate.authenticate(text)
    assert store.looks == looks + 1  # only the first had been forgotten


# Nothing gives a key away


def test_hashes_are_only_ever_compared_in_constant_time():
    """One way for a known and an unknown id: the comparison stands outside any branch, and before the refusal."""
    tree = ast.parse(inspect.getsource(keys.find)).body[0]
    assert isinstance(tree, ast.AsyncFunctionDef)
    kinds = [type(step).__name__ for step in tree.body[1:]]
    assert kinds == ["Assign", "Assign", "Assign", "If", "Return"]
    assert ast.unparse(tree.body[3]) == "same = hmac.compare_digest(stored.digest, credentials.digest)"
    compared = [
        node for node in ast.walk(ast.parse(inspect.getsource(keys))) if isinstance(node, ast.Compare)
    ]
    equal = [ast.unparse(node) for node in compared if isinstance(node.ops[0], ast.Eq | ast.NotEq)]
    assert not [one for one in equal if "digest" in one or "text" in one]


async def test_an_unknown_id_takes_the_comparison_of_a_known_one(store, monkeypatch):
    seen: list[tuple[str, str]] = []

    def watched(one, other):
        seen.append((one, other))
        return hmac.compare_digest(one, other)

    _, text = await made(store)
    monkeypatch.setattr(keys, "hmac", type("Watched", (), {"compare_digest": staticmethod(watched)}))
    for asked in (text, text[:-2] + "AA", f"assay_{'z' * 8}{text[14:]}"):
        with contextlib.suppress(Unauthenticated):
            await authenticate(store, asked, NOW)
    assert [(len(one), len(other)) for one, other in seen] == [(64, 64)] * 3


async def test_the_key_in_clear_is_stored_nowhere(store, address, tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    key, secret = await create(store, tenant="acme", note="canary", now=NOW)
    text = secret.reveal()
    gate = Authenticator(store)
    await gate.authenticate(text)
    await revoke(store, key.id, now=NOW)
    with pytest.raises(Unauthenticated) as refused:
        await authenticate(store, text, NOW)
    listed = await list_keys(store)
    presented = keys.parse(text)

    values = [key, secret, listed, presented, refused.value, gate, gate._cache, refused.value.details]
    shown = [shown.encode() for one in values for shown in (repr(one), str(one))]
    kept = [pickle.dumps(store._documents)] if isinstance(store, MemoryStore) else _kept(address, tmp_path)
    logged = [caplog.text.encode(), "".join(capfd.readouterr()).encode()]
    assert any(b"canary" in dump for dump in kept), "it looks where the keys are"
    for dump in (*shown, *kept, *logged):
        for clear in (text, text[15:]):
            for form in (clear.encode(), clear.encode().hex().encode(), base64.b64encode(clear.encode())):
                assert form not in dump


def _kept(address, folder):
    """All bytes of the database: SQLite's files, PostgreSQL's rows as text and what they hold as bytes."""
    if address.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(folder / "runs.db")) as connection:
            rows = [str(row).encode() for row in connection.execute("SELECT * FROM documents")]
        return [*rows, *(file.read_bytes() for file in folder.glob("runs.db*"))]
    with psycopg.connect(address.replace("+psycopg", "")) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY documents TO STDOUT") as copy:
            dump = b"".join(bytes(part) for part in copy)
        rows = cursor.execute("SELECT * FROM documents").fetchall()
    return [dump, *(cell for row in rows for cell in row if isinstance(cell, bytes))]
