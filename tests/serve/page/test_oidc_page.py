"""The sign-in of the page at an OpenID provider: oidc-provider from npm on loopback, a real browser, a real server."""

import io
import logging

import pytest
from playwright.sync_api import expect

from assay.auth.oidc_settings import OidcGrant, OidcSettings
from assay.ports import Secret
from assay.serve.web.logging import handler
from support.servers.openid import SECRET, NodeProvider, installed
from support.servers.rest_client import Server, sqlite

pytestmark = pytest.mark.skipif(not installed(), reason="there is no oidc-provider: make web")
PEOPLE = {
    "ann": {"org": "acme", "groups": ["evaluators", "others"]},
    "cleo": {"org": ["acme", "beta"], "groups": ["evaluators"]},
}
GRANTS = {"evaluators": OidcGrant(scopes=["runs:read", "evaluations:read", "evaluations:create"])}


@pytest.fixture(scope="module")
def provider():
    with NodeProvider(people=PEOPLE) as provider:
        yield provider


@pytest.fixture(scope="module")
def host(provider, tmp_path_factory):
    def settings(url):
        return OidcSettings(
            issuer=provider.issuer, client_id="assay", client_secret=Secret(SECRET), page=url, label="Example",
            tenant_claim="org", grants=GRANTS, end_provider_session=True,
        )  # fmt: skip

    with Server(sqlite(tmp_path_factory.mktemp("oidc")), oidc=settings, keys_known_for=0) as host:
        yield host


@pytest.fixture
def tab(browser, host):
    """A tab of a new browser, which remembers its requests and their answers."""
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.sent, page.answers = [], []
    page.on("request", lambda request: page.sent.append(request))  # noqa: PLW0108  # it takes no built-in
    page.on("response", lambda answer: page.answers.append(answer))  # noqa: PLW0108
    yield page
    context.close()


def begin(page, host, address="/"):
    page.goto(f"{host.url}{address}")
    page.get_by_role("button", name="Sign in with Example").click()


def at_provider(page, login):
    page.get_by_placeholder("Enter any login").fill(login)
    page.get_by_placeholder("and password").fill("x")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def account(page):
    page.get_by_role("button", name="Account").click()


def everything_of(page):
    """What scripts of the page can read: its address, its storages and its cookies."""
    read = "[location.href, JSON.stringify(sessionStorage), JSON.stringify(localStorage), document.cookie].join(' ')"
    return page.evaluate(read)


@pytest.fixture
def log():
    """What the log of a server has at its lowest level."""
    root, stream = logging.getLogger(), io.StringIO()
    written, level = handler("json", stream), root.level
    root.addHandler(written)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(written)
    root.setLevel(level)


def test_a_person_signs_in_and_out_and_no_token_is_in_the_page_the_address_or_the_log(tab, host, log):
    begin(tab, host, "/#/runs?kind=workflow")
    at_provider(tab, "ann")
    expect(tab.get_by_role("heading", name="Runs")).to_be_visible()
    assert tab.url == f"{host.url}/#/runs?kind=workflow"  # where it was before
    account(tab)
    expect(tab.get_by_text("Tenant acme")).to_be_visible()
    key = tab.evaluate("sessionStorage.getItem('assay.key')")
    assert key.startswith("assay_session_")
    assert [one["name"] for one in tab.context.cookies(host.url) if "assay" in one["name"]] == []
    expect(tab.get_by_text("No run fits")).to_be_visible()
    ours = [request for request in tab.sent if request.url.startswith(host.url)]
    (back,) = (request for request in ours if "/sign-in/callback" in request.url)
    code = back.url.partition("code=")[2].partition("&")[0]
    assert len(code) > 20
    later = ours[ours.index(back) + 1 :]
    answers = [one for one in tab.answers if one.request in later and "/v1/" in one.url and one.ok]
    assert any(one.url.endswith("query") for one in answers)  # a request for changes still waits
    texts = [everything_of(tab), log.getvalue(), *(one.text() for one in answers)]
    texts += [one.url for one in ours if one is not back]
    assert len(texts) > 10
    for text in texts:
        assert code not in text
        assert "eyJ" not in text  # the beginning of every JWT
        assert SECRET not in text
    assert '"answered"' in log.getvalue()
    assert key not in log.getvalue()
    with host.client(key) as client:
        identity = client.get("/v1/host/assay/session").json()
        assert (identity["tenant"], identity["session"]) == ("acme", True)
        assert identity["scopes"] == sorted(GRANTS["evaluators"].scopes)
        assert client.get("/v1/agents").status_code == 403
        tab.get_by_role("menuitem", name="Sign out").click()
        tab.get_by_role("button", name="Yes, sign me out").click()
        expect(tab.get_by_label("API key")).to_be_visible()
        assert tab.evaluate("sessionStorage.getItem('assay.key')") is None
        assert client.get("/v1/host/assay/session").status_code == 401
    tab.get_by_role("button", name="Sign in with Example").click()
    expect(tab.get_by_placeholder("Enter any login")).to_be_visible()  # it asks who it is again


def test_a_person_who_is_not_signed_in_reads_why_and_one_of_several_tenants_chooses(tab, host, site):
    begin(tab, host, "/#/try")
    tab.get_by_role("link", name="Cancel").click()
    expect(tab.get_by_role("alert")).to_contain_text("The sign-in was cancelled.")
    assert tab.url == f"{host.url}/#/try"
    assert tab.evaluate("sessionStorage.getItem('assay.key')") is None
    tab.get_by_role("button", name="Sign in with Example").click()
    at_provider(tab, "cleo")
    expect(tab.get_by_text("You belong to several tenants")).to_be_visible()
    assert tab.url == f"{host.url}/#/try"
    site.check_accessibility(tab)
    tab.get_by_role("button", name="beta").click()  # the provider knows the person: it does not ask again
    account(tab)
    expect(tab.get_by_text("Tenant beta")).to_be_visible()
