"""Signing in: with a key, with a one-time code, and what a key of another tenant sees."""

import pytest
from playwright.sync_api import expect

LOCAL = "Object.values(localStorage).join(' ')"


@pytest.fixture(scope="module")
def other(site, command):
    """A key of a tenant without runs."""
    return site.new_key(command, "elsewhere")


def test_a_key_signs_in_and_stays_in_its_tab(browser, site):
    with site.tab(browser, key="") as page:
        page.goto(f"{site.url}/#/runs?kind=workflow")
        field = page.get_by_label("API key")
        expect(field).to_be_focused()
        site.check_accessibility(page)
        field.fill("assay_wrongkey_" + "x" * 43)
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("does not accept this key")
        field.fill(site.key)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        assert page.url == f"{site.url}/#/runs?kind=workflow"
        page.reload()
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        assert page.context.cookies() == []
        assert site.key not in page.evaluate(LOCAL)
        second = page.context.new_page()  # another tab does not have the key
        second.goto(f"{site.url}/")
        expect(second.get_by_label("API key")).to_be_visible()
        second.close()
        page.get_by_role("button", name="Account").click()
        page.get_by_role("menuitem", name="Sign out").click()
        expect(page.get_by_label("API key")).to_be_visible()
        page.reload()
        expect(page.get_by_label("API key")).to_be_visible()
        assert site.client.get("/v1/host/assay/session").status_code == 200  # the API key itself stays valid


def test_a_one_time_code_signs_in_once_and_leaves_the_address(browser, site):
    code = site.client.post("/v1/host/assay/session:code").json()["code"]
    address = f"{site.url}/#/runs?kind=evaluation&code={code}"
    with site.tab(browser, key="") as page:
        page.goto(address)
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        assert page.url == f"{site.url}/#/runs?kind=evaluation"
        key = page.evaluate("sessionStorage.getItem('assay.key')")
        assert key.startswith("assay_session_")
        page.get_by_role("button", name="Account").click()
        expect(page.get_by_text("Tenant local")).to_be_visible()
        page.get_by_role("menuitem", name="Sign out").click()
        expect(page.get_by_label("API key")).to_be_visible()
        refused = site.client.get("/v1/host/assay/session", headers={"X-API-Key": key})
        assert refused.status_code in (200, 401)  # a session that ended is refused within five seconds
    with site.tab(browser, key="") as page:
        page.goto(address)
        expect(page.get_by_role("alert")).to_contain_text("one-time code was used")
        assert "code" not in page.url


def test_a_key_of_another_tenant_sees_none_of_our_runs(browser, site, other):
    run = site.run("offline")
    with site.tab(browser, key=other) as page:
        page.goto(f"{site.url}/#/runs")
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
        page.goto(f"{site.url}/#/runs/{run}")
        expect(page.get_by_role("alert")).to_contain_text("Not found")


def test_a_key_that_is_no_longer_valid_asks_for_another(browser, site, command):
    key = site.new_key(command, "short")
    command("admin", "key", "revoke", key.split("_")[1], folder=site.folder)
    with site.tab(browser, key=key) as page:
        page.goto(f"{site.url}/#/runs")
        expect(page.get_by_label("API key")).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("revoked")
        assert page.evaluate("sessionStorage.getItem('assay.key')") is None
