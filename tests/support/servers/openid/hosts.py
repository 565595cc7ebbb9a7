"""Servers at which tests sign in at an OpenID provider."""

from contextlib import contextmanager

from assay.auth import one_time_code, page_sessions
from assay.auth.oidc_settings import OidcGrant, OidcSettings
from assay.ports import Secret
from assay.serve.page.sign_in_routes import SignInState
from support.servers.openid import SECRET
from support.servers.rest_client import Server, sqlite

SCOPES = ["runs:read", "evaluations:read"]


@contextmanager
def sign_in_server(folder, provider, **more):
    """A server that trusts a provider; `more` are settings."""

    def settings(url):
        rest = {"tenant_claim": "org", "grants": {"evaluators": OidcGrant(scopes=SCOPES)}} | more
        secret = Secret(SECRET)
        return OidcSettings(
            **{"issuer": provider.url, "client_id": "assay", "client_secret": secret, "page": url} | rest
        )

    with Server(sqlite(folder), oidc=settings, keys_known_for=0) as host:
        yield host


def sessions(host):
    return host.do(host.store.documents("", page_sessions.SESSION))


def codes(host):
    return host.do(host.store.documents("", one_time_code.CODE))


def exchange(client, code):
    return client.post("/v1/host/assay/session:exchange", json={"code": code})


def renew(host):
    """The next sign-in asks the provider again for its document and its keys."""
    provider = host.app.state.server.resource(SignInState).sign_in._provider
    for cached in (provider._document, provider._tokens.keys.cached):
        cached._fetched_at = cached._tried_at = float("-inf")
