"""The sign-in at an OpenID provider: tokens, answers and documents of a provider that open nothing."""

import time

import pytest

from support.servers.openid import SECRET
from support.servers.openid.hosts import codes, renew
from support.servers.openid.strict import fragment_of, sign, walk
from support.servers.token_issuer import by_hand, mac

# What does not open: tokens

NOW = int(time.time())
TOKENS = [
    ("expired", {"exp": NOW - 60}, sign, "expired"),
    ("issued in an hour", {"iat": NOW + 3600}, sign, "not valid yet"),
    ("not before an hour", {"nbf": NOW + 3600}, sign, "not valid yet"),
    ("a time that is a text", {"exp": "tomorrow"}, sign, "no time"),
    ("for another client", {"aud": "other"}, sign, "another audience"),
    ("for several, made for another", {"aud": ["assay", "other"], "azp": "other"}, sign, "another client"),
    ("for several, made for nobody", {"aud": ["assay", "other"]}, sign, "another client"),
    ("for us, made for another", {"azp": "other"}, sign, "another client"),
    ("of another issuer", {"iss": "https://evil.example/"}, sign, "another issuer"),
    ("of the issuer without its slash", {"iss": "http://127.0.0.1"}, sign, "another issuer"),
    ("of another sign-in", {"nonce": "x" * 43}, sign, "another sign-in"),
    ("without a nonce", {"nonce": None}, sign, "another sign-in"),
    ("with a nonce that is a list", {"nonce": ["x"]}, sign, "another sign-in"),
    ("of nobody", {"sub": None}, sign, "lacks one of the claims"),
    ("of an empty subject", {"sub": ""}, sign, "no subject"),
    ("of a number", {"sub": 7}, sign, "malformed"),
    ("signed by another key", {}, lambda claims: sign(claims, number=1), "signature"),
    ("signed by an unknown key", {}, lambda claims: sign(claims, kid="other"), "no key with its id"),
    (
        "not signed",
        {},
        lambda claims: by_hand({"alg": "none", "kid": "es256-1"}, claims, lambda _: b"x"),
        "algorithm",
    ),
    (
        "signed with the secret of the client",
        {},
        lambda claims: by_hand({"alg": "HS256", "kid": "es256-1"}, claims, mac(SECRET.encode())),
        "algorithm",
    ),
    ("no token", {}, lambda _: "no.token", "malformed"),
    ("too long", {"groups": ["x" * 100_000]}, sign, "malformed"),
]


@pytest.mark.parametrize(
    ("claims", "token", "why"), [row[1:] for row in TOKENS], ids=[row[0] for row in TOKENS]
)
def test_an_id_token_that_is_not_right_opens_nothing(
    sign_in_host, browser, provider, caplog, claims, token, why
):
    before = len(codes(sign_in_host))
    provider.claims, provider.token = claims, token
    assert fragment_of(walk(browser, provider)) == ("/sign-in", {"problem": ["refused"]})
    assert why in caplog.text
    assert "ann@" not in caplog.text
    assert len(codes(sign_in_host)) == before


# What does not open: answers of the provider

HTML = 200, b"<html>"
ANSWERS = [
    ("no JSON", "/token", HTML, "refused"),
    ("no ID token", "/token", (200, {"access_token": "x"}), "refused"),
    ("deep JSON", "/token", (200, b"[" * 50_000), "refused"),
    ("too large", "/token", (200, b" " * (1 << 20) + b" "), "away"),
    ("an error of the provider", "/token", (503, {"error": "invalid_grant"}), "away"),
    ("a used code", "/token", (400, {"error": "invalid_grant"}), "expired"),
    ("a wrong secret", "/token", (401, {"error": "invalid_client"}), "refused"),
    ("an error with content", "/token", (400, {"error": "<b>ann@example.org</b>"}), "refused"),
    ("a redirect", "/token", (302, b""), "refused"),
    ("another person", "/me", (200, {"sub": "eve", "org": "acme", "groups": ["evaluators"]}), "refused"),
    ("a list of persons", "/me", (200, []), "refused"),
    ("no claims", "/me", (401, {}), "away"),
    ("no keys", "/keys", (500, b""), "away"),
    ("no key set", "/keys", HTML, "away"),
    ("no document", "/.well-known/openid-configuration", (404, b""), "away"),
    ("a document that moved", "/.well-known/openid-configuration", (301, b""), "away"),
]


@pytest.mark.parametrize(
    ("path", "bent", "problem"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS]
)
def test_an_answer_of_the_provider_that_is_not_right_opens_nothing(
    sign_in_host, browser, provider, caplog, path, bent, problem
):
    before = len(codes(sign_in_host))
    redirect = browser.get("/sign-in")
    renew(sign_in_host)
    provider.bend = lambda asked, answer: bent if asked == path else answer
    answer = browser.get("/sign-in/callback", params=provider.approve(redirect.headers["location"]))
    provider.bend = lambda asked, answer: answer
    renew(sign_in_host)
    assert fragment_of(answer) == ("/sign-in", {"problem": [problem]})
    assert "/elsewhere" not in provider.looks
    assert "ann@" not in caplog.text
    assert SECRET not in caplog.text
    assert len(codes(sign_in_host)) == before
    assert fragment_of(walk(browser, provider))[0] == "/signed-in"  # and then it goes on


DOCUMENTS = [
    ("another issuer", {"issuer": "https://evil.example/"}, "expected the issuer"),
    (
        "tokens in clear",
        {"token_endpoint": "http://provider.example/token"},
        "token_endpoint: expected an https",
    ),
    ("keys in a file", {"jwks_uri": "file:///etc/passwd"}, "jwks_uri: expected an https"),
    (
        "a page of script",
        {"authorization_endpoint": "javascript:alert(1)"},
        "authorization_endpoint: expected",
    ),
    ("two headers", {"authorization_endpoint": "https://x.example/\r\nSet-Cookie: a=b"}, "ASCII"),
    ("a password in it", {"userinfo_endpoint": "https://me:pw@x.example/"}, "without a name or a password"),
    ("no S256", {"code_challenge_methods_supported": ["plain"]}, "S256"),
    ("no endpoint", {"token_endpoint": None}, "OpenID Connect Discovery"),
]


@pytest.mark.parametrize(
    ("document", "why"), [row[1:] for row in DOCUMENTS], ids=[row[0] for row in DOCUMENTS]
)
def test_a_provider_whose_document_is_not_right_is_not_used(
    sign_in_host, browser, provider, caplog, document, why
):
    provider.document = document
    renew(sign_in_host)
    answer = browser.get("/sign-in")
    provider.reset()
    renew(sign_in_host)
    assert fragment_of(answer) == ("/sign-in", {"problem": ["away"]})
    assert why in caplog.text
    assert fragment_of(walk(browser, provider))[0] == "/signed-in"
