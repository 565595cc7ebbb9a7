"""Small hosts of others: what they do not have is not offered, and no failure."""

import json

from assay.conform.catalog import all_checks
from assay.conform.check import Host, Keys
from assay.conform.http_client import HttpClient
from assay.conform.run import chosen, run_checks
from support.conform.raw_host import raw_host

DISCOVERY = {
    "protocolVersion": "1.1",
    "supportedEnvelopes": [],
    "schemaVersions": {},
    "limits": {"clarificationRounds": 1, "schemaRounds": 1, "envelopesPerTurn": 4},
}


def discovery_alone(connection, stop, request):
    found = request.startswith(b"GET /.well-known/openwop ")
    body = json.dumps(DISCOVERY if found else {"error": "not_found", "message": "no such route"}).encode()
    status = b"200 OK\r\ncache-control: max-age=60" if found else b"404 Not Found"
    connection.sendall(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)


def test_a_host_with_discovery_alone_offers_nothing_else():
    """It fails in one thing: the contract wants 501 for a create without evals."""
    with raw_host(discovery_alone) as (address, _):
        host = Host(HttpClient(address, rate=10_000), Keys("key", "other"), agent="a")
        outcomes = run_checks(host, chosen(all_checks(), ["fep.rest", "openwop"]))
    names = {
        result: {one.check.name for one in outcomes if one.result == result}
        for result in ("failed", "not_tried")
    }
    assert names == {"failed": {"openwop.discovery.unadvertised"}, "not_tried": set()}
    reasons = {
        one.message for one in outcomes if one.check.name in ("openwop.create.body", "openwop.create.mode")
    }
    assert reasons == {"POST /v1/runs is 404, and discovery advertises nothing that runs"}


def test_a_host_without_openwop_has_one_reason_for_all_of_it():
    """Not a key that was not given: a host without the routes needs none."""

    def nothing(connection, stop):
        connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    with raw_host(nothing) as (address, _):
        checks = [one for one in chosen(all_checks(), ["openwop"]) if "replicas" not in one.name]
        outcomes = run_checks(Host(HttpClient(address, rate=10_000), Keys("key")), checks)
    assert {one[1:3] for one in outcomes} == {("not_offered", "GET /.well-known/openwop is 404")}
