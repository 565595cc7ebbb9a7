"""The sign-in at an OpenID provider: what opens a session, and a provider that is away or changes its keys."""

import json
import ssl
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import trustme

from assay import client_tls
from assay.auth import page_sessions
from assay.auth.claims import opaque_id
from support.servers.openid import NodeProvider, installed
from support.servers.openid.hosts import SCOPES, exchange, renew, sign_in_server
from support.servers.openid.strict import StrictProvider, fragment_of, sign, walk
from support.servers.rest_client import Server, sqlite
from support.servers.token_issuer import jwk
from support.waiting import PATIENCE, wait_until

# What opens


def test_a_sign_in_opens_the_one_form_of_a_session(sign_in_host, browser, provider):
    answer = walk(browser, provider)
    path, params = fragment_of(answer)
    assert answer.headers["location"].startswith(f"{sign_in_host.url}/#/signed-in?code=assay_code_")
    assert (path, list(params)) == ("/signed-in", ["code"])
    opened = exchange(browser, params["code"][0])
    assert opened.status_code == 201, opened.text
    key = opened.json()["key"]
    assert key.startswith(page_sessions.PREFIX)
    with sign_in_host.client(key) as client:
        identity = client.get("/v1/host/assay/session").json()
        assert (identity["tenant"], identity["scopes"], identity["session"]) == ("acme", sorted(SCOPES), True)
        assert client.get("/v1/evaluations").status_code == 200
        assert client.delete("/v1/host/assay/session").json() == {"ended": True, "next": ""}
        assert client.get("/v1/host/assay/session").status_code == 401
    opener = opaque_id(provider.url, "ann@example.org")  # as a token of the same person is named
    lines = [json.loads(line.data) for line in sign_in_host.do(sign_in_host.store.audit("acme"))]
    assert [(line["action"], line["who"]) for line in lines[-2:]] == [
        ("session.open", opener),
        ("session.end", opener),
    ]
    assert "ann@" not in str(lines)


def test_the_request_to_the_provider_has_a_challenge_and_reveals_no_secret(sign_in_host, browser, provider):
    redirect = browser.get("/sign-in")
    (cookie,) = redirect.headers.get_list("set-cookie")
    value = cookie.partition("=")[2].partition(";")[0]
    assert cookie.endswith("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax")
    assert redirect.headers["cache-control"] == "private, no-store"
    assert redirect.headers["referrer-policy"] == "no-referrer"
    asked = parse_qs(urlsplit(redirect.headers["location"]).query)
    assert asked.keys() == {
        "a", "response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge", "code_challenge_method",
    }  # fmt: skip
    assert asked["redirect_uri"] == [f"{sign_in_host.url}/sign-in/callback"]
    assert value not in redirect.headers["location"]
    secrets = {asked[name][0] for name in ("state", "nonce", "code_challenge")} | {value}
    assert len(secrets) == 4
    assert {len(one) for one in secrets} == {43}


def test_over_tls_the_cookie_is_of_this_host_alone(tmp_path, provider):
    with (
        sign_in_server(tmp_path, provider, page="https://evals.example.org/assay") as host,
        host.client("") as client,
    ):
        redirect = client.get("/sign-in")
        assert redirect.headers["set-cookie"].startswith("__Host-assay_sign_in_")
        assert redirect.headers["set-cookie"].endswith("; HttpOnly; SameSite=Lax; Secure")
        asked = parse_qs(urlsplit(redirect.headers["location"]).query)
        assert asked["redirect_uri"] == ["https://evals.example.org/assay/sign-in/callback"]
        offer = client.get("/v1/host/assay/sign-in").json()["provider"]
        assert offer == {"label": "your organization", "address": "https://evals.example.org/assay/sign-in"}
        failed = client.get("/sign-in/callback")
        assert failed.headers["location"] == "https://evals.example.org/assay/#/sign-in?problem=expired"


def test_without_a_provider_there_is_no_sign_in(tmp_path):
    with Server(sqlite(tmp_path)) as host, host.client("") as client:
        assert client.get("/v1/host/assay/sign-in").json() == {"provider": None}
        assert client.get("/sign-in").status_code == 404
        assert client.get("/sign-in/callback").status_code == 404


def test_a_session_ends_after_its_hours(tmp_path, provider):
    with sign_in_server(tmp_path, provider, session_hours=0.0001) as host, host.client("") as client:
        _, params = fragment_of(walk(client, provider))
        key = exchange(client, params["code"][0]).json()["key"]
        with host.client(key) as late:
            wait_until(lambda: late.get("/v1/host/assay/session").status_code == 401)
            refused = late.get("/v1/host/assay/session")
        assert (refused.status_code, refused.json()["error"]) == (401, "session_expired")
        assert "sign in again" in refused.json()["message"]


def test_signing_out_may_end_the_session_at_the_provider_without_a_token_in_the_address(tmp_path, provider):
    with sign_in_server(tmp_path, provider, end_provider_session=True) as host, host.client("") as client:
        _, params = fragment_of(walk(client, provider))
        key = exchange(client, params["code"][0]).json()["key"]
        with host.client(key) as signed_in, host.client() as by_key:
            next = urlsplit(signed_in.delete("/v1/host/assay/session").json()["next"])
            assert by_key.delete("/v1/host/assay/session").json() == {"ended": False, "next": ""}
        assert f"{next.scheme}://{next.netloc}{next.path}" == f"{provider.url}out"
        assert parse_qs(next.query) == {"client_id": ["assay"], "post_logout_redirect_uri": [f"{host.url}/"]}


def test_claims_may_stand_in_the_token_and_the_token_wins(sign_in_host, browser, provider):
    provider.person = {"org": "evil", "groups": []}
    provider.claims = {"org": "acme", "groups": ["evaluators"]}
    fragment_of(walk(browser, provider))[1]["code"]
    assert "/me" not in provider.looks
    provider.claims = {"org": "acme"}
    assert fragment_of(walk(browser, provider))[1] == {"problem": ["scopes"]}  # groups of the endpoint


@pytest.mark.parametrize("methods", [None, ["client_secret_basic"], ["client_secret_post"]])
def test_the_client_shows_its_secret_as_the_provider_wants(tmp_path, provider, methods):
    provider.document = {"token_endpoint_auth_methods_supported": methods}
    with sign_in_server(tmp_path, provider) as host, host.client("") as client:
        assert fragment_of(walk(client, provider))[0] == "/signed-in"


# A provider that is away, and its keys


def test_many_who_ask_while_the_provider_is_away_ask_it_once(sign_in_host, browser, provider):
    renew(sign_in_host)
    provider.bend = lambda path, answer: (500, b"")
    before = len(provider.looks)
    problems = [fragment_of(browser.get("/sign-in"))[1] for _ in range(10)]
    assert problems == [{"problem": ["away"]}] * 10
    assert len(provider.looks) == before + 1
    provider.reset()
    renew(sign_in_host)  # five seconds later
    assert fragment_of(walk(browser, provider))[0] == "/signed-in"


def test_a_new_key_of_the_provider_is_accepted_and_an_old_one_refused(sign_in_host, browser, provider):
    assert fragment_of(walk(browser, provider))[0] == "/signed-in"
    provider.keys = [jwk("new", "ES256", 1)]
    renew(sign_in_host)
    assert fragment_of(walk(browser, provider)) == ("/sign-in", {"problem": ["refused"]})
    provider.token = lambda claims: sign(claims, number=1, kid="new")
    assert fragment_of(walk(browser, provider))[0] == "/signed-in"
    provider.reset()
    renew(sign_in_host)


def test_a_server_starts_without_its_provider(tmp_path, caplog):
    with StrictProvider() as gone:
        pass
    with sign_in_server(tmp_path, gone) as host, host.client("") as client:
        assert "nobody can sign in at the provider until it answers, keys work" in caplog.text
        assert fragment_of(client.get("/sign-in")) == ("/sign-in", {"problem": ["away"]})
        with host.client() as by_key:
            assert by_key.get("/v1/host/assay/session").status_code == 200
            assert by_key.delete("/v1/host/assay/session").json()["next"] == ""


def sign_in_by_forms(client, login, authority):
    """Fill in the forms of oidc-provider: the answer to the browser that is back."""
    trusted = ssl.create_default_context(cafile=authority)
    with httpx.Client(verify=trusted, timeout=PATIENCE) as browser:
        page = browser.get(client.get("/sign-in").headers["location"], follow_redirects=True)
        page = browser.post(page.url, data={"prompt": "login", "login": login, "password": "x"})
        page = browser.get(page.headers["location"], follow_redirects=True)
        page = browser.post(page.url, data={"prompt": "consent"})
        page = browser.get(page.headers["location"])
    return client.get(page.headers["location"])


@pytest.mark.skipif(not installed(), reason="there is no oidc-provider: make web")
def test_a_provider_with_a_private_ca_comes_back_with_other_keys(tmp_path, caplog):
    """oidc-provider from npm over TLS; claims in the ID token."""
    authority = trustme.CA()
    cert = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    options = {
        "cert": cert.cert_chain_pems[0].bytes().decode(), "key": cert.private_key_pem.bytes().decode(),
        "people": {"ann": {"org": "acme", "groups": ["evaluators"]}}, "inToken": True,
    }  # fmt: skip
    with NodeProvider(**options) as real:
        real.url = real.issuer
        with sign_in_server(tmp_path, real) as host, host.client("") as client:
            assert fragment_of(client.get("/sign-in"))[1] == {"problem": ["away"]}
            assert "certificate" in caplog.text
            client_tls.trust(str(tmp_path / "ca.pem"))
            try:
                renew(host)
                assert fragment_of(sign_in_by_forms(client, "ann", tmp_path / "ca.pem"))[0] == "/signed-in"
                real.restart(lambda: None)
                renew(host)
                assert fragment_of(sign_in_by_forms(client, "ann", tmp_path / "ca.pem"))[0] == "/signed-in"
            finally:
                client_tls.trust("")
