"""Cookies of a sign-in that this server did not set, and where its secrets are: nowhere but where they belong."""

import logging

import pytest

from support.servers.openid.hosts import exchange, sign_in_server
from support.servers.openid.strict import fragment_of, walk
from support.servers.rest_client import sqlite
from support.stores.database_dump import dump_of


@pytest.fixture(scope="module")
def tls_host(strict, tmp_path_factory):
    """A server behind a proxy that ends TLS."""
    folder = tmp_path_factory.mktemp("tls")
    with sign_in_server(folder, strict, page="https://evals.example.org/") as host:
        yield host


PLANTED = [  # what another host of the same domain can make a browser send
    ("without the prefix", "{name}={value}"),
    ("within the value of another", "a=__Host-{name}={value}"),
    ("within a quoted value", 'a="; b=__Host-{name}={value}'),
    ("at the end of another name", "x__Host-{name}={value}"),
    ("with a tab before", "a=b;\t__Host-{name}={value}"),
]


@pytest.mark.parametrize("planted", [row[1] for row in PLANTED], ids=[row[0] for row in PLANTED])
def test_a_cookie_that_another_host_of_the_domain_planted_signs_nobody_in(tls_host, provider, planted):
    """Somebody begins a sign-in, and plants its cookie: the person would work in the account of somebody else."""
    with tls_host.client("") as thief:
        redirect = thief.get("/sign-in")
    name, _, value = redirect.headers["set-cookie"].partition(";")[0].partition("=")
    back = provider.approve(redirect.headers["location"])
    cookie = planted.format(name=name.removeprefix("__Host-"), value=value)
    with tls_host.client("") as victim:
        answer = victim.get("/sign-in/callback", params=back, headers={"Cookie": cookie})
        assert fragment_of(answer) == ("/sign-in", {"problem": ["expired"]})
        own = victim.get("/sign-in/callback", params=back, headers={"Cookie": f"a=b; {name}={value}; c=d"})
        assert fragment_of(own)[0] == "/signed-in"


@pytest.mark.parametrize("tenant", ["A", "_w", "-_8"])
def test_a_tenant_in_the_cookie_that_is_no_text_is_refused(sign_in_host, browser, provider, tenant):
    redirect = browser.get("/sign-in")
    cookie = redirect.headers["set-cookie"].partition(";")[0]
    back = provider.approve(redirect.headers["location"])
    browser.cookies.clear()
    answer = browser.get("/sign-in/callback", params=back, headers={"Cookie": f"{cookie}.{tenant}"})
    assert fragment_of(answer) == ("/sign-in", {"problem": ["expired"]})
    assert "/token" not in provider.looks


def test_secrets_of_a_sign_in_are_in_no_log_no_audit_and_no_metric(tmp_path, provider, caplog):
    caplog.set_level(logging.DEBUG)
    tokens = []
    forms = []
    sign, redeem = provider.token, provider._redeem
    provider.token = lambda claims: tokens.append(sign(claims)) or tokens[-1]
    provider._redeem = lambda headers, form: forms.append(form) or redeem(headers, form)
    try:
        with sign_in_server(tmp_path, provider) as host, host.client("") as client:
            code = fragment_of(walk(client, provider))[1]["code"][0]
            cookie = next(one.value for one in client.cookies.jar)
            key = exchange(client, code).json()["key"]
            with host.client(key) as person:
                assert person.get("/v1/host/assay/session").status_code == 200
            logs = [
                one.getMessage() for one in caplog.records if not one.name.startswith("http")
            ]  # not of this client
            texts = (
                "\n".join(logs) + client.get("/metrics").text + dump_of(sqlite(tmp_path)).decode("latin-1")
            )
    finally:
        del provider._redeem
    (form,) = forms
    secrets = [
        form["code"],
        form["code_verifier"],
        cookie,
        code,
        key,
        *tokens,
        "an access token",
        "ann@example.org",
    ]
    assert [secret for secret in secrets if not secret or secret in texts] == []
