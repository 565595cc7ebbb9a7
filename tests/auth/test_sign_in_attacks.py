"""The sign-in at an OpenID provider: browsers that lie, sessions that somebody planted, addresses elsewhere."""

from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from assay.auth import page_sessions
from support.servers.openid.hosts import codes, exchange, sessions
from support.servers.openid.strict import fragment_of, walk


def test_only_the_browser_that_began_comes_back(sign_in_host, browser, provider):
    back = provider.approve(browser.get("/sign-in").headers["location"])
    with sign_in_host.client("") as other:
        for _ in range(2):
            answer = other.get("/sign-in/callback", params=back)
            assert fragment_of(answer) == ("/sign-in", {"problem": ["expired"]})
            other.get("/sign-in")  # and then with a cookie of its own
    assert fragment_of(browser.get("/sign-in/callback", params=back))[0] == "/signed-in"
    again = browser.get("/sign-in/callback", params=back)  # the provider knows that the code was used
    assert fragment_of(again) == ("/sign-in", {"problem": ["expired"]})


PARAMS = [
    ("nothing", lambda back: {}, "expired"),
    ("no state", lambda back: {"code": back["code"]}, "expired"),
    ("another state", lambda back: back | {"state": "x" * 43}, "expired"),
    ("the beginning of the state", lambda back: back | {"state": back["state"][:16] + "x" * 27}, "expired"),
    ("a state that is no text", lambda back: back | {"state": "\udcff\x00ä"}, "expired"),
    ("the state twice", lambda back: [*back.items(), ("state", back["state"])], "expired"),
    ("many parameters", lambda back: [*back.items(), *((f"p{at}", "x") for at in range(70))], "expired"),
    ("no code", lambda back: {"state": back["state"], "iss": back["iss"]}, "refused"),
    ("an empty code", lambda back: back | {"code": ""}, "refused"),
    ("a long code", lambda back: back | {"code": "x" * 5_000}, "refused"),
    ("another code", lambda back: back | {"code": "x"}, "expired"),
    ("another issuer", lambda back: back | {"iss": "https://evil.example/"}, "refused"),
    ("no issuer", lambda back: {name: back[name] for name in ("code", "state")}, "refused"),
    (
        "a person who refuses",
        lambda back: back | {"error": "access_denied", "error_description": "ann@"},
        "denied",
    ),
    ("an error", lambda back: back | {"error": "<script>alert(1)</script>"}, "refused"),
]


@pytest.mark.parametrize(("change", "problem"), [row[1:] for row in PARAMS], ids=[row[0] for row in PARAMS])
def test_an_answer_of_the_browser_that_is_not_right_opens_nothing(
    sign_in_host, browser, provider, caplog, change, problem
):
    before = len(codes(sign_in_host))
    back = change(provider.approve(browser.get("/sign-in").headers["location"]))
    query = urlencode(back, errors="surrogatepass")
    answer = browser.get(f"/sign-in/callback?{query}")
    assert answer.headers["location"] == f"{sign_in_host.url}/#/sign-in?problem={problem}"
    assert len(codes(sign_in_host)) == before
    assert "ann@" not in caplog.text
    assert "script" not in caplog.text


AWAY = "https://evil.example/"


@pytest.mark.parametrize(
    "name", ["next", "redirect_uri", "return_to", "url", "page", "post_logout_redirect_uri"]
)
@pytest.mark.parametrize("address", [AWAY, "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_a_browser_goes_to_the_provider_and_the_page_and_nowhere_else(
    sign_in_host, browser, provider, name, address
):
    assert browser.get("/sign-in", params={name: address}).status_code == 400
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    redirect = browser.get("/sign-in", headers=headers)
    asked = parse_qs(urlsplit(redirect.headers["location"]).query)
    assert redirect.headers["location"].startswith(f"{provider.url}auth?")
    assert asked["redirect_uri"] == [f"{sign_in_host.url}/sign-in/callback"]
    redirect = browser.get("/sign-in")
    back = provider.approve(redirect.headers["location"], **{name: address})
    answer = browser.get("/sign-in/callback", params=back, headers={"X-Forwarded-Host": "evil.example"})
    assert answer.headers["location"].startswith(f"{sign_in_host.url}/#/signed-in?code=")
    offer = browser.get("/v1/host/assay/sign-in", headers={"X-Forwarded-Host": "evil.example"})
    assert "evil" not in offer.text


def test_no_session_begins_before_the_sign_in_and_each_gets_a_new_key(sign_in_host, browser, provider):
    """A key, a code or a cookie that somebody planted in the browser is never the session of the person."""
    planted = httpx.Cookies({"assay_sign_in_" + "x" * 16: "y" * 43, "session": "assay_session_" + "z" * 43})
    browser.cookies.update(planted)
    before = {one.key for one in sessions(sign_in_host)}
    made, params = [], {}
    for _ in range(2):
        _, params = fragment_of(walk(browser, provider))
        assert {one.key for one in sessions(sign_in_host)} - before == {
            page_sessions.digest_of(key) for key in made
        }
        made.append(exchange(browser, params["code"][0]).json()["key"])
    assert len({*made, "assay_session_" + "z" * 43}) == 3
    assert exchange(browser, params["code"][0]).status_code == 401  # once


def test_a_code_works_in_the_browser_that_signed_in_and_in_no_other(sign_in_host, browser, provider):
    code = fragment_of(walk(browser, provider))[1]["code"][0]
    with sign_in_host.client("") as thief:
        walk(thief, provider)  # with a cookie of its own
        assert exchange(thief, code).json()["error"] == "code_refused"
    opened = exchange(browser, code)
    assert opened.status_code == 201
    assert "assay_sign_in_" in opened.headers["set-cookie"]
    assert "Max-Age=0" in opened.headers["set-cookie"]
    assert not [cookie for cookie in browser.cookies.jar if "assay" in cookie.name]


def test_several_tabs_sign_in_at_the_same_time(sign_in_host, browser, provider):
    redirects = [browser.get("/sign-in").headers["location"] for _ in range(3)]
    for address in reversed(redirects):
        answer = browser.get("/sign-in/callback", params=provider.approve(address))
        assert exchange(browser, fragment_of(answer)[1]["code"][0]).status_code == 201


def test_a_person_of_several_tenants_chooses_among_them(sign_in_host, browser, provider):
    provider.person = {"org": ["acme", "be,ta & Co"], "groups": ["evaluators"]}
    assert fragment_of(walk(browser, provider)) == ("/sign-in", {"tenant": ["acme", "be,ta & Co"]})
    for tenant, expected in [("be,ta & Co", "/signed-in"), ("evil", "/sign-in"), ("ä" * 64, "/sign-in")]:
        redirect = browser.get("/sign-in", params={"tenant": tenant})
        answer = browser.get("/sign-in/callback", params=provider.approve(redirect.headers["location"]))
        path, params = fragment_of(answer)
        assert path == expected, tenant
        if path == "/signed-in":
            key = exchange(browser, params["code"][0]).json()["key"]
            with sign_in_host.client(key) as client:
                assert client.get("/v1/host/assay/session").json()["tenant"] == tenant
