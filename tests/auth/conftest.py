"""Fixtures of the sign-in at an OpenID provider."""

import httpx
import pytest

from support.servers.openid.hosts import sign_in_server
from support.servers.openid.strict import StrictProvider
from support.waiting import PATIENCE


@pytest.fixture(scope="module")
def strict():
    with StrictProvider() as provider:
        yield provider


@pytest.fixture
def provider(strict):
    strict.reset()
    return strict


@pytest.fixture(scope="module")
def sign_in_host(strict, tmp_path_factory):
    with sign_in_server(tmp_path_factory.mktemp("sign-in"), strict) as host:
        yield host


@pytest.fixture
def browser(sign_in_host):
    """A browser without its window: it has cookies, and follows nothing by itself."""
    with httpx.Client(base_url=sign_in_host.url, timeout=PATIENCE) as client:
        yield client
