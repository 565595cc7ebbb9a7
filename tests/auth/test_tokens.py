"""Tokens beside keys (FEP 6.4): what a JWT must be to open anything, and where its issuer's keys come from."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from assay import settings
from assay.auth.authenticator import Authenticator
from assay.auth.jwt_settings import JwtSettings, validate
from assay.auth.tokens import MAX_CHARACTERS, KeySet, Tokens, read_keys
from assay.backends.issuer_http import MAX_BYTES
from assay.backends.jwks import source
from assay.backends.stores.memory import MemoryStore
from assay.errors import EnvironmentFailure, Unauthenticated, Unavailable, UsageError
from assay.host.host import tokens
from support.servers.grpc_client import RestAndGrpcServer, connect, refusal_of
from support.servers.rest_client import Server, request_of, sqlite
from support.servers.token_issuer import AUDIENCE, MAKERS, Issuer, b64, by_hand, jwk, key, mac

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def issuer():
    with Issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def host(issuer, tmp_path_factory):
    with asking(Server(sqlite(tmp_path_factory.mktemp("tokens")), jwt=issuer.trust())) as host:
        yield host


@contextlib.contextmanager
def asking(server):
    """With one client for all: to make one takes longer than to ask."""
    with server as host, httpx.Client(base_url=host.url, timeout=60) as host.asking:
        yield host


def list_evaluations(host, token):
    return host.asking.get("/v1/evaluations", headers={"Authorization": f"Bearer {token}"})


# What opens


@pytest.mark.parametrize("algorithm", MAKERS)
def test_a_token_has_the_scopes_and_the_tenant_of_its_claims(host, issuer, algorithm):
    with host.client(issuer.token(algorithm, tenant=f"t-{algorithm}")) as client:
        made = client.post("/v1/evaluate", json=request_of(1))
        assert made.status_code == 200, made.text
        assert len(client.get("/v1/evaluations").json()["operations"]) == 1
    with host.client(issuer.token(algorithm, tenant="other")) as client:
        assert client.get(f"/v1/evaluations/{made.json()['evaluation_id']}").status_code == 404
    with host.client(tenant=f"t-{algorithm}") as client:  # a key of that tenant
        assert len(client.get("/v1/evaluations").json()["operations"]) == 1


GOOD = [
    ("several audiences", {"aud": ["else", AUDIENCE]}),
    ("scopes in a list", {"scope": ["evaluations:read", 7, "mail:read"]}),
    ("unknown scopes among them", {"scope": "openid evaluations:read admin *"}),
    ("no moment of issue", {"iat": None}),
    ("expired within the leeway", {"exp": lambda: time.time() - 15}),
    ("issued a little ahead of our clock", {"iat": lambda: time.time() + 15}),
    ("not before a moment ago", {"nbf": lambda: time.time() - 1}),
    ("not before, within the leeway", {"nbf": lambda: time.time() + 15}),
    ("half seconds", {"exp": lambda: time.time() + 100.5}),
]


@pytest.mark.parametrize("changes", [row[1] for row in GOOD], ids=[row[0] for row in GOOD])
def test_valid_forms_of_a_token(host, issuer, changes):
    now = {name: value() if callable(value) else value for name, value in changes.items()}
    answer = list_evaluations(host, issuer.token(**now))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("typ", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_the_types_of_access_tokens_are_accepted(host, issuer, typ):
    assert list_evaluations(host, issuer.token(header={"typ": typ})).status_code == 200


@pytest.mark.parametrize(
    "scope", [None, "", "openid", [], ["evaluations:*"], 7, {"evaluations:read": True}, "evaluations:readx"]
)
def test_a_token_without_our_scopes_is_forbidden_everywhere(host, issuer, scope):
    answer = list_evaluations(host, issuer.token(scope=scope))
    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")


# What does not

RSA_PEM = key("RS256").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
RSA_DER = key("RS256").public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def rs256(data, number=0):
    return key("RS256", number).sign(data, padding.PKCS1v15(), hashes.SHA256())


def es256(data):
    one, two = utils.decode_dss_signature(key("ES256").sign(data, ec.ECDSA(hashes.SHA256())))
    return one.to_bytes(32, "big") + two.to_bytes(32, "big")


def forged(header, sign=rs256, **changes):
    return lambda issuer: by_hand(
        {"alg": "RS256", "kid": "rs256-1", "typ": "JWT"} | header, issuer.claims(**changes), sign
    )


def with_claims(**changes):
    return lambda issuer: issuer.token(
        **{name: value() if callable(value) else value for name, value in changes.items()}
    )


def nothing(_):
    return b""


BAD = [
    # algorithms
    ("alg none", forged({"alg": "none"}, nothing)),
    ("alg None", forged({"alg": "None"}, nothing)),
    ("alg none, with a signature", forged({"alg": "none"})),
    ("no alg", lambda issuer: by_hand({"kid": "rs256-1"}, issuer.claims(), rs256)),
    ("alg null", forged({"alg": None})),
    ("alg in a list", forged({"alg": ["RS256"]})),
    ("HS256 with the public key as PEM", forged({"alg": "HS256"}, mac(RSA_PEM))),
    ("HS256 with the public key as DER", forged({"alg": "HS256"}, mac(RSA_DER))),
    ("HS256 with the modulus", forged({"alg": "HS256"}, mac(jwk("x", "RS256")["n"].encode()))),
    ("HS256 with nothing", forged({"alg": "HS256"}, mac(b""))),
    ("HS256 as RS256", forged({"alg": "RS256"}, mac(RSA_PEM))),
    ("RS512", lambda issuer: jwt.encode(issuer.claims(), key("RS256"), "RS512", headers={"kid": "rs256-1"})),
    ("PS256", lambda issuer: jwt.encode(issuer.claims(), key("RS256"), "PS256", headers={"kid": "rs256-1"})),
    ("rs256 in small letters", forged({"alg": "rs256"})),
    # signatures
    ("no signature", forged({}, nothing)),
    ("a signature of zeros", forged({}, lambda _: b"\0" * 256)),
    ("an ES256 signature of zeros", forged({"alg": "ES256", "kid": "es256-1"}, lambda _: b"\0" * 64)),
    ("an EdDSA signature of zeros", forged({"alg": "EdDSA", "kid": "eddsa-1"}, lambda _: b"\0" * 64)),
    ("another key", lambda issuer: issuer.token("RS256", number=1)),
    ("claims changed", lambda issuer: swapped(issuer.token("RS256"), issuer.claims(tenant="other"))),
    ("one bit off", lambda issuer: issuer.token("RS256")[:-3] + "AAA"),
    # key ids
    ("no kid", lambda issuer: by_hand({"alg": "RS256"}, issuer.claims(), rs256)),
    ("an empty kid", forged({"kid": ""})),
    ("a kid that is no text", forged({"kid": 1})),
    ("a kid in a list", forged({"kid": ["rs256-1"]})),
    ("an unknown kid", forged({"kid": "rs256-2"})),
    ("a kid of another algorithm's key", forged({"kid": "es256-1"})),
    ("ES256 with an RSA kid", lambda issuer: issuer.token("ES256", header={"kid": "rs256-1"})),
    ("a kid as a path", forged({"alg": "HS256", "kid": "../../../dev/null"}, mac(b""))),
    ("a kid as a path, signed", forged({"kid": "../../../../etc/passwd"})),
    ("a kid as SQL", forged({"kid": "x' UNION SELECT 'rs256-1"})),
    ("a kid as a wildcard", forged({"kid": "%"})),
    ("a kid with a NUL", forged({"kid": "rs256-1\0"})),
    ("a kid with a space", forged({"kid": "rs256-1 "})),
    ("a kid twice in the set", lambda issuer: issuer.token("EdDSA", 1, header={"kid": "twice"})),
    ("a kid twice in the set, by the other", lambda issuer: issuer.token("EdDSA", 3, header={"kid": "twice"})),
    ("a kid for encryption", lambda issuer: issuer.token("EdDSA", 2, header={"kid": "enc"})),
    ("a kid of a shared secret", forged({"alg": "HS256", "kid": "oct"}, mac(b"s" * 32))),
    ("a kid of a short key", forged({"kid": "short"}, lambda data: SHORT.sign(data, padding.PKCS1v15(), hashes.SHA256()))),
    # addresses and keys of the sender's own
    ("jku", lambda issuer: issuer.token("RS256", 1, header={"jku": f"{issuer.url}evil.json"})),
    ("x5u", lambda issuer: issuer.token("RS256", 1, header={"x5u": f"{issuer.url}evil.pem"})),
    ("jwk", lambda issuer: issuer.token("RS256", 1, header={"jwk": jwk("rs256-1", "RS256", 1)})),
    ("jku and an unknown kid", lambda issuer: issuer.token("RS256", 1, header={"kid": "mine", "jku": f"{issuer.url}evil.json"})),
    # headers
    ("crit", forged({"crit": ["exp"]})),
    ("an empty crit", forged({"crit": []})),
    ("b64", forged({"b64": False, "crit": ["b64"]})),
    ("another type", forged({"typ": "logout+jwt"})),
    ("a header that is a list", lambda issuer: by_hand([], issuer.claims(), rs256)),
    ("a header that is no JSON", lambda issuer: by_hand(b"{", issuer.claims(), rs256)),
    ("a header that is no UTF-8", lambda issuer: by_hand(b'{"alg":"RS256","kid":"\xff"}', issuer.claims(), rs256)),
    ("a header that is too deep", lambda issuer: by_hand(b'{"alg":"RS256","kid":"rs256-1","x":' + b"[" * 5_000, issuer.claims(), rs256)),
    # shapes
    ("too long", lambda issuer: issuer.token("RS256", more="x" * MAX_CHARACTERS)),
    ("two parts", lambda issuer: issuer.token().rpartition(".")[0]),
    ("four parts", lambda issuer: f"{issuer.token()}.x"),
    ("dots", lambda _: ".."),
    ("padded", lambda issuer: f"{issuer.token()}="),
    ("encrypted", lambda issuer: ".".join([b64(b'{"alg":"dir","enc":"A256GCM"}'), *"abcd"])),
    ("claims that are a list", lambda issuer: by_hand({"alg": "RS256", "kid": "rs256-1"}, [], rs256)),
    ("claims that are no JSON", lambda issuer: by_hand({"alg": "RS256", "kid": "rs256-1"}, b"{", rs256)),
    ("claims that are too deep", lambda issuer: by_hand({"alg": "RS256", "kid": "rs256-1"}, b"[" * 5_000, rs256)),
    # who and for whom
    ("another issuer", with_claims(iss="https://evil.example/")),
    ("an issuer that begins so", lambda issuer: issuer.token(iss=f"{issuer.url}x")),
    ("an issuer without its last letter", lambda issuer: issuer.token(iss=issuer.url[:-1])),
    ("no issuer", with_claims(iss=None)),
    ("an issuer in a list", lambda issuer: issuer.token(iss=None, **{"iss ": issuer.url})),
    ("another audience", with_claims(aud="else")),
    ("other audiences", with_claims(aud=["else", "others"])),
    ("no audience", with_claims(aud=None)),
    ("an audience that begins so", with_claims(aud=f"{AUDIENCE}x")),
    ("no subject", with_claims(sub=None)),
    ("an empty subject", with_claims(sub="")),
    ("no tenant", with_claims(tenant=None)),
    ("an empty tenant, the host's own", with_claims(tenant="")),
    ("a tenant that is no text", with_claims(tenant=["acme"])),
    ("a tenant no key could have", with_claims(tenant="../acme")),
    # when
    ("no expiry", with_claims(exp=None)),
    ("an expiry that is no number", lambda issuer: by_hand({"alg": "ES256", "kid": "es256-1"}, issuer.claims(exp="9999999999"), es256)),
    ("an expiry that is true", lambda issuer: by_hand({"alg": "ES256", "kid": "es256-1"}, issuer.claims(exp=True), es256)),
    ("an expiry that never comes", lambda issuer: by_hand({"alg": "ES256", "kid": "es256-1"}, issuer.claims(exp=float("inf")), es256)),
    ("not yet", with_claims(nbf=lambda: time.time() + 60)),
    ("issued in the future", with_claims(iat=lambda: time.time() + 60)),
    ("a begin that is no number", lambda issuer: by_hand({"alg": "ES256", "kid": "es256-1"}, issuer.claims(nbf="now"), es256)),
]  # fmt: skip


def swapped(token, claims):
    head, _, tail = token.split(".")
    return f"{head}.{b64(json.dumps(claims).encode())}.{tail}"


SHORT = rsa.generate_private_key(public_exponent=65537, key_size=1024)


def tricky():
    """Keys that a set should not have, beside the good ones."""
    number = SHORT.public_key().public_numbers()
    return [
        jwk("twice", "EdDSA", 1),
        jwk("twice", "EdDSA", 3),
        jwk("enc", "EdDSA", 2, use="enc"),
        {"kty": "oct", "kid": "oct", "k": b64(b"s" * 32), "alg": "HS256"},
        {"kty": "RSA", "kid": "short", "n": b64(number.n.to_bytes(128, "big")), "e": "AQAB"},
        {"kty": "RSA", "n": jwk("x", "RS256")["n"], "e": "AQAB"},  # without an id
        jwk("", "RS256"),
        {"kty": "EC", "crv": "P-256", "kid": "off", "x": b64(b"\1" * 32), "y": b64(b"\2" * 32)},
        jwk("wrong", "RS256", alg="HS256"),
        jwk("signs", "RS256", key_ops=["sign"]),
        "no key",
    ]


@pytest.fixture(scope="module")
def wary(tmp_path_factory):
    """A host whose issuer publishes good keys among bad ones."""
    with Issuer() as issuer:
        issuer.keys += tricky()
        with asking(RestAndGrpcServer(sqlite(tmp_path_factory.mktemp("wary")), jwt=issuer.trust())) as host:
            yield host, issuer
        assert set(issuer.looks) == {"/jwks.json"}  # and no address that a token named


@pytest.mark.parametrize("make", [row[1] for row in BAD], ids=[row[0] for row in BAD])
def test_every_invalid_token_is_401(wary, make):
    host, issuer = wary
    token = make(issuer)
    answer = list_evaluations(host, token)
    assert (answer.status_code, answer.json()["error"]) == (401, "unauthenticated"), answer.text
    assert not any(part in answer.text for part in token.split(".") if len(part) > 8)
    assert (
        list_evaluations(host, issuer.token()).status_code == 200
    )  # and nothing of that has hurt the others


def test_grpc_accepts_the_same_tokens(wary):
    host, issuer = wary
    with connect(host, key=issuer.token(tenant="caller")) as client:
        assert not client.ListOperations().operations
    with connect(host, key="") as client:  # one channel for all
        for why, make in BAD:
            metadata = (("authorization", f"Bearer {make(issuer)}"),)
            code, body = refusal_of(client.ListOperations, metadata=metadata)
            assert (code, body["error"]) == (grpc.StatusCode.UNAUTHENTICATED, "unauthenticated"), why


def test_the_valid_keys_of_a_partly_invalid_set_are_accepted(wary):
    _, issuer = wary
    assert set(read_keys(json.dumps({"keys": issuer.keys}).encode())) == {
        (f"{name.lower()}-1", name) for name in MAKERS
    }


def test_an_expired_token_is_refused_as_expired(host, issuer):
    late = issuer.token(exp=time.time() - 60)
    answer = list_evaluations(host, late)
    assert (answer.status_code, answer.json()["error"]) == (401, "key_expired")
    assert list_evaluations(host, f"{late[:-6]}AAAAAA").json()["error"] == "unauthenticated"


def test_without_settings_a_token_is_401(issuer, tmp_path):
    with asking(Server(sqlite(tmp_path))) as host:
        assert list_evaluations(host, issuer.token()).status_code == 401


def test_only_the_public_half_of_a_private_key_is_used():
    found = read_keys(json.dumps({"keys": [jwk(name, name, private=True) for name in MAKERS]}).encode())
    assert {name for name, _ in found} == set(MAKERS)
    assert not [
        one for one in found.values() if hasattr(one.key, "sign") or hasattr(one.key, "private_bytes")
    ]


# Who is asking


class Clock:
    ticks = 0.0

    def __init__(self):
        self.moment = datetime.now(UTC)

    def now(self):
        return self.moment

    def tick(self):
        return self.ticks


def gate_of(issuer, clock, fetch=None, **more):
    keys = KeySet(fetch or source(f"{issuer.url}jwks.json"), issuer.trust(**more), tick=clock.tick)
    return Authenticator(
        MemoryStore(), tokens=Tokens(issuer.trust(**more), keys).read, clock=clock, tick=clock.tick
    ), keys


async def test_a_subject_is_named_by_a_hash(issuer):
    gate, _ = gate_of(issuer, Clock())
    one, same, other = [
        await gate.authenticate(issuer.token(sub=who, jti=str(n)))
        for n, who in enumerate(["jo@example.org", "jo@example.org", "mo@example.org"])
    ]
    assert one == same
    assert one.id != other.id
    assert one.id.startswith("jwt_")
    assert "jo" not in one.id.removeprefix("jwt_")


@pytest.mark.parametrize(
    "scope", ["runs:read openid admin *", ["runs:read", "runs:*", "", 7, None]], ids=["text", "list"]
)
async def test_unknown_scopes_are_dropped(issuer, scope):
    gate, _ = gate_of(issuer, Clock())
    assert (await gate.authenticate(issuer.token(scope=scope))).scopes == {"runs:read"}


async def test_claims_may_have_other_names(issuer):
    gate, _ = gate_of(issuer, Clock(), tenant_claim="https://assay/org", scope_claim="permissions")
    token = issuer.token(tenant="x", **{"https://assay/org": "acme", "permissions": ["runs:read"]})
    who = await gate.authenticate(token)
    assert (who.tenant, who.scopes) == ("acme", {"runs:read"})


@pytest.mark.parametrize(
    ("ahead", "code"),
    [(0, None), (99, None), (129, None), (131, "key_expired")],
)
async def test_a_remembered_token_expires_on_time(issuer, ahead, code):
    clock = Clock()
    gate, _ = gate_of(issuer, clock)
    began = clock.moment
    token = issuer.token(exp=int(began.timestamp()) + 100)
    await gate.authenticate(token)
    clock.moment = began + timedelta(seconds=ahead)
    if code is None:
        assert (await gate.authenticate(token)).tenant == "acme"
    else:
        with pytest.raises(Unauthenticated) as refused:
            await gate.authenticate(token)
        assert refused.value.code == code


async def test_the_authenticator_caches_a_token_for_seconds_without_its_text(issuer):
    clock = Clock()
    gate, _ = gate_of(issuer, clock)
    reads: list[str] = []
    inner: Any = gate._tokens

    async def counted(text):
        reads.append(text)
        return await inner(text)

    gate._tokens = counted
    token = issuer.token()
    for clock.ticks in (0.0, 2.9, 3.0):
        await gate.authenticate(token)
    assert len(reads) == 2
    assert token not in repr(gate._cache)


# Where the keys come from


async def test_a_new_key_of_the_issuer_is_accepted_and_an_old_one_refused():
    clock = Clock()
    with Issuer() as issuer:
        gate, _ = gate_of(issuer, clock)
        await gate.authenticate(issuer.token("ES256"))
        issuer.keys = [jwk("es256-2", "ES256", 1)]
        clock.ticks += 31  # the issuer has turned its keys
        new = issuer.token("ES256", 1, header={"kid": "es256-2"})
        assert (await gate.authenticate(new)).tenant == "acme"
        with pytest.raises(Unauthenticated):
            await gate.authenticate(issuer.token("ES256"))
        assert len(issuer.looks) == 2


async def test_a_withdrawn_key_is_refused_after_the_next_fetch():
    clock = Clock()
    with Issuer() as issuer:
        gate, keys = gate_of(issuer, clock)
        await gate.authenticate(issuer.token("ES256"))
        issuer.keys = [jwk("rs256-1", "RS256")]
        clock.ticks = 299.0
        await gate.authenticate(issuer.token("ES256"))
        clock.ticks = 301.0
        await gate.authenticate(issuer.token("ES256"))  # nobody waits for the fetch that this begins
        await asyncio.wait([keys.cached.fetching])
        clock.ticks = 305.0
        with pytest.raises(Unauthenticated):
            await gate.authenticate(issuer.token("ES256"))


async def test_unknown_key_ids_cause_one_fetch_in_a_while():
    clock = Clock()
    with Issuer() as issuer:
        gate, _ = gate_of(issuer, clock)
        await gate.authenticate(issuer.token())
        for clock.ticks in (1.0, 29.9, 30.0, 30.1, 59.9):
            asking = [
                gate.authenticate(issuer.token(header={"kid": f"{clock.ticks}-{n}"})) for n in range(20)
            ]
            refused = await asyncio.gather(*asking, return_exceptions=True)
            assert all(isinstance(one, Unauthenticated) for one in refused)
        assert len(issuer.looks) == 2


FAILING = [
    ("an error", {"status": 500}),
    ("not found", {"status": 404}),
    ("no JSON", {"body": b"<html>"}),
    ("too deep", {"body": b"[" * 50_000}),
    ("a list", {"body": b"[]"}),
    ("no keys", {"body": b'{"keys": []}'}),
    ("keys that are none", {"body": b'{"keys": {"kty": "RSA"}}'}),
    ("too many keys", {"body": json.dumps({"keys": [{}] * 101}).encode()}),
    ("too large", {"body": b" " * (MAX_BYTES + 1)}),
    ("another address", {"status": 302}),
]


@pytest.mark.parametrize("trouble", [row[1] for row in FAILING], ids=[row[0] for row in FAILING])
async def test_a_failed_fetch_keeps_the_last_set_for_a_bounded_time(trouble):
    clock = Clock()
    with Issuer() as issuer, Issuer() as evil:
        gate, keys = gate_of(issuer, clock)
        issuer.away = f"{evil.url}jwks.json" if trouble.get("status") == 302 else None
        await gate.authenticate(issuer.token())
        for name, value in trouble.items():
            setattr(issuer, name, value)
        for clock.ticks in (400.0, 3_599.0):
            assert (await gate.authenticate(issuer.token(jti=str(clock.ticks)))).tenant == "acme"
            await asyncio.wait([keys.cached.fetching])
        clock.ticks = 3_700.0
        with pytest.raises(Unavailable):
            await gate.authenticate(issuer.token())
        assert not evil.looks
        issuer.status, issuer.body = 200, None
        clock.ticks += 31
        assert (await gate.authenticate(issuer.token())).tenant == "acme"


@pytest.mark.parametrize(
    "before", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["head", "body"]
)
async def test_a_slow_fetch_of_a_key_set_times_out(before):
    over = threading.Event()

    def drip():
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                connection.sendall(before)
                while not over.wait(0.05):
                    connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        dripping = threading.Thread(target=drip)
        dripping.start()
        fetch = source(f"http://127.0.0.1:{listening.getsockname()[1]}/", seconds=0.3)
        try:
            for _ in range(2):  # and no second is begun beside the first
                with pytest.raises(
                    EnvironmentFailure,
                    match=r"did not end in time|takes more than|has not answered|expected an answer",
                ):
                    async with asyncio.timeout(60):
                        await fetch()
        finally:
            over.set()
            dripping.join()


async def test_an_issuer_that_is_down_at_the_start_is_fetched_again(tmp_path, caplog):
    with Issuer() as issuer:
        trust = issuer.trust()
    read: Any = await tokens(trust)
    assert "JWTs are refused until they load" in caplog.text
    with pytest.raises(Unavailable):
        await read(issuer.token())


async def test_a_hanging_fetch_is_shared_and_survives_its_caller(issuer):
    clock, go = Clock(), asyncio.Event()

    async def slow():
        await go.wait()
        return json.dumps({"keys": issuer.keys}).encode()

    gate, _ = gate_of(issuer, clock, slow)
    first = asyncio.create_task(gate.authenticate(issuer.token()))
    second = asyncio.create_task(gate.authenticate(issuer.token(tenant="other")))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    go.set()
    assert (await second).tenant == "other"


async def test_keys_from_a_file_are_read_again(issuer, tmp_path):
    clock, file = Clock(), tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [jwk("es256-1", "ES256")]}))
    gate, _ = gate_of(issuer, clock, source(str(file)))
    await gate.authenticate(issuer.token())
    file.write_text(json.dumps({"keys": [jwk("es256-2", "ES256", 1)]}))
    clock.ticks += 31
    assert await gate.authenticate(issuer.token("ES256", 1, header={"kid": "es256-2"}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "not JSON"),
        (b"{}", "expected a key set"),
        (b'{"keys": []}', "no key with an id"),
    ],
)
async def test_a_file_without_keys_stops_the_start_in_one_line(tmp_path, content, message):
    file = tmp_path / "jwks.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=message) as refused:
        await tokens(JwtSettings(issuer="https://a", audience="b", jwks=str(file)))
    assert "\n" not in str(refused.value)


# Settings

WHOLE = {"issuer": "https://a", "audience": "b", "jwks": "keys.json"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"audience": ""}, "jwt.audience: expected a value"),
        ({"jwks": ""}, "jwt.jwks: expected a value"),
        ({"issuer": ""}, "jwt.issuer: expected a value"),
        ({"tenant_claim": ""}, "jwt.tenant_claim: expected a value"),
        ({"leeway_seconds": -1}, "expected 0 to 300"),
        ({"leeway_seconds": 301}, "expected 0 to 300"),
        ({"leeway_seconds": float("nan")}, "expected 0 to 300"),
        ({"retry_seconds": 0}, "jwt.retry_seconds: expected a number above 0"),
        ({"stale_seconds": -1}, "jwt.stale_seconds: expected a number above 0"),
        ({"jwks": "http://keys.example/jwks.json"}, "expected a file or an https address"),
        ({"jwks": "ftp://keys.example/jwks.json"}, "expected a file or an https address"),
        ({"jwks": "file:///etc/passwd"}, "expected a file or an https address"),
        ({"jwks": "https://"}, "expected a file or an https address"),
        ({"jwks": "http://127.0.0.1.evil.example/"}, "expected a file or an https address"),
        ({"jwks": "https://me:secret@keys.example/"}, "without a name or a password"),
        ({"jwks": "https://[::1/"}, "expected a file or an https address"),
    ],
)
def test_incomplete_jwt_settings_are_refused(changes, message):
    with pytest.raises(UsageError, match=message) as refused:
        validate(JwtSettings(**(WHOLE | changes)))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "jwks", ["https://keys.example/x", "http://127.0.0.1:1/x", "http://[::1]/", "http://localhost/"]
)
def test_the_allowed_addresses_of_key_sets(jwks):
    assert validate(JwtSettings(**(WHOLE | {"jwks": jwks}))).jwks == jwks


def test_the_settings_are_read_from_both_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assay.toml").write_text('[jwt]\nissuer = "https://a"\naudience = "b"\nleeway_seconds = 5\n')
    with pytest.raises(UsageError, match=r"jwt\.jwks"):
        settings.load({})
    trust = settings.load({"ASSAY_JWT_JWKS": "keys.json", "ASSAY_JWT_AUDIENCE": "c"}).jwt
    assert trust == JwtSettings(issuer="https://a", audience="c", jwks="keys.json", leeway_seconds=5)
    with pytest.raises(UsageError, match="ASSAY_JWT_LEEWAY_SECONDS: expected a number, got 'soon'"):
        settings.load({"ASSAY_JWT_JWKS": "k", "ASSAY_JWT_LEEWAY_SECONDS": "soon"})


async def test_an_unreachable_key_set_is_an_environment_failure(tmp_path):
    with pytest.raises(EnvironmentFailure, match="expected an answer"):
        await source("http://127.0.0.1:1/")()
