"""Which addresses the agents of tenants may have, before and after their names are resolved."""

import socket

import pytest

from assay.backends.agents.endpoints import EndpointPolicy, PolicyResolver
from assay.errors import InvalidRequest

PRIVATE = [
    "http://127.0.0.1/a",
    "http://127.0.0.1:8321/v1/agents",
    "http://[::1]:80/",
    "http://10.0.0.4/",
    "http://192.168.1.1/",
    "http://172.16.0.9/",
    "http://169.254.169.254/latest/meta-data",
    "http://[fe80::1]/",
    "http://[fd00::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://0.0.0.0/",
    "http://100.64.0.1/",
    "http://224.0.0.1/",
]


@pytest.mark.parametrize("url", PRIVATE)
def test_an_address_that_is_not_public_is_refused_and_the_setting_is_named(url):
    with pytest.raises(InvalidRequest, match=r"is not a public address.*setting agent_hosts"):
        EndpointPolicy().check(url)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/", "file:///etc/passwd", "module:function", "cmd:ls", "", "http://", "http:///a", "//a.example/x",
        "http://a.example:99999/", "http://a b/", "http://a.example/\n", "http://user@a.example/",
        "http://a:b@a.example/", "http://a.example/#x", "http://[::1/",
    ],
)  # fmt: skip
def test_what_is_not_the_address_of_an_agent_is_refused(url):
    with pytest.raises(InvalidRequest, match="expected an address"):
        EndpointPolicy(["*", "0.0.0.0/0", "::/0"]).check(url)


@pytest.mark.parametrize("url", ["https://agents.example.com/answer?x=1", "http://93.184.215.14:8000/"])
def test_a_public_address_is_allowed(url):
    EndpointPolicy().check(url)


ALLOWED = [  # what the operator allows, host, port, address, whether it is allowed
    ("127.0.0.1", "127.0.0.1", 80, "127.0.0.1", True),
    ("127.0.0.1:9000", "127.0.0.1", 9000, "127.0.0.1", True),
    ("127.0.0.1:9000", "127.0.0.1", 9001, "127.0.0.1", False),
    ("10.1.0.0/16", "10.1.2.3", 80, "10.1.2.3", True),
    ("10.1.0.0/16", "10.2.2.3", 80, "10.2.2.3", False),
    ("10.1.0.0/16", "any.example", 80, "10.1.2.3", True),
    ("*.svc.local", "bot.svc.local", 80, "10.9.9.9", True),
    ("*.svc.local", "bot.svc.local.", 80, "10.9.9.9", True),
    ("*.svc.local", "svc.local.evil.example", 80, "10.9.9.9", False),
    ("*.svc.local:8000", "bot.svc.local", 80, "10.9.9.9", False),
    ("[::1]:9000", "::1", 9000, "::1", True),
    ("::1", "::1", 9000, "::1", True),
    ("no/network", "10.1.2.3", 80, "10.1.2.3", False),
    ("bot.svc.local", "BOT.svc.local", 80, "10.9.9.9", True),
]


@pytest.mark.parametrize(("allowed", "host", "port", "address", "expected"), ALLOWED)
def test_the_operator_allows_hosts_networks_and_ports(allowed, host, port, address, expected):
    assert EndpointPolicy([allowed]).allows(host, port, address) is expected


@pytest.mark.anyio
@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f.1"])
async def test_a_name_that_leads_to_a_private_address_is_refused_when_it_is_resolved(host):
    EndpointPolicy().check(f"http://{host}/")  # it is a name: nobody knows yet where it leads
    resolver = PolicyResolver(EndpointPolicy())
    with pytest.raises(OSError, match="is not a public address"):
        await resolver.resolve(host, 80, socket.AF_INET)
    await resolver.close()


@pytest.mark.anyio
async def test_a_name_that_the_operator_allows_is_resolved():
    resolver = PolicyResolver(EndpointPolicy(["localhost:80"]))
    assert [one["host"] for one in await resolver.resolve("localhost", 80, socket.AF_INET)] == ["127.0.0.1"]
    await resolver.close()
