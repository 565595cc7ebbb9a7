"""The setting `tls_ca`: hosts with a private CA are trusted by everything that opens connections."""

import asyncio
import ssl

import pytest
import trustme

from assay import client_tls, settings
from assay.backends.agents.http import HttpSessions
from assay.backends.jwks import source
from assay.backends.models.transport import HttpAnswer
from assay.backends.models.transport_aiohttp import AiohttpTransport
from assay.backends.tools.http import Sessions
from assay.backends.verdicts.requests import Poster
from assay.cli.console.client import HostClient
from assay.conform.http_client import HttpClient
from assay.errors import UsageError
from assay.ports import Provider
from support.servers.thread_server import Handler, HandlerServer


class Endpoint(Handler):
    def do_GET(self):
        self.send(200, b"{}", {"Content-Type": "application/json"})

    def do_POST(self):
        self.body()
        self.do_GET()


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def address(authority):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with HandlerServer(Endpoint, tls) as server:
        yield server.url


@pytest.fixture(autouse=True)
def trusted():
    yield
    client_tls.trust("")


async def ask_agent(address):
    sessions = HttpSessions()
    try:
        async with sessions.state().session.get(address) as answer:
            return await answer.read()
    finally:
        await sessions.close()


async def ask_tool(address):
    sessions = Sessions()
    try:
        async with sessions.current_session().get(address) as answer:
            return await answer.read()
    finally:
        await sessions.close()


async def ask_model(address):
    transport = AiohttpTransport(Provider(name="home", base_url=address), 1000)
    try:
        outcome = await transport.send("/chat", b"{}")
        assert isinstance(outcome, HttpAnswer), outcome
        return outcome.body
    finally:
        await transport.close()


async def ask_issuer(address):
    return await source(f"{address}/keys")()


async def ask_backend(address):
    return (await Poster(address, {}).post(b"{}")).body


async def ask_host(address):
    return HostClient(address, None).request("GET", "/v1/health")


async def ask_tested_host(address):
    return HttpClient(address, timeout=30, rate=100).send("GET", "/v1/health").body


DOORS = [ask_agent, ask_tool, ask_model, ask_issuer, ask_backend, ask_host, ask_tested_host]


@pytest.mark.parametrize("ask", DOORS, ids=lambda one: one.__name__)
def test_a_private_ca_is_trusted_when_the_setting_names_it(address, authority, tmp_path, monkeypatch, ask):
    monkeypatch.setenv("ASSAY_API_KEY", "x")
    settings.load()
    with pytest.raises(Exception, match=r"(?i)certificate|self.signed"):
        asyncio.run(ask(address))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("ASSAY_TLS_CA", str(tmp_path / "ca.pem"))
    settings.load()
    assert asyncio.run(ask(address)) == b"{}"


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), ("no PEM", "no certificate in it")])
def test_a_wrong_file_is_refused_when_the_settings_are_loaded(tmp_path, monkeypatch, content, reason):
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    monkeypatch.setenv("ASSAY_TLS_CA", str(tmp_path / "ca.pem"))
    with pytest.raises(UsageError, match=f"tls_ca: expected a file of CA certificates as PEM.*{reason}"):
        settings.load()
