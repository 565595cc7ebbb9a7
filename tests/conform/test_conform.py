"""`assay conform` of FEP: it finds nothing in our server, and every planted fault; a host that misbehaves cannot hurt it."""

import pytest

from assay.conform.catalog import all_checks
from assay.conform.check import Host, Keys
from assay.conform.fep_checks import fep_checks
from assay.conform.http_client import HttpClient
from assay.conform.run import chosen, clean_up, run_checks
from support.conform.fep_faults import FEP_FAULTS
from support.conform.proxy import proxied
from support.servers.rest_client import Server, sqlite

FAULTS = [*FEP_FAULTS]
FAST = 100_000.0  # requests a second


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A real server, a proxy in front of it, and keys of two tenants."""
    with (
        Server(sqlite(tmp_path_factory.mktemp("conform"))) as server,
        proxied(server.url) as (address, proxy),
    ):
        yield server, proxy, address, server.key(), server.key(tenant="other")


def outcomes_of(address, key, other, only=()):
    host = Host(HttpClient(address, rate=FAST), Keys(key, other))
    return run_checks(host, chosen(fep_checks(), only)), host


def test_our_server_passes_every_check(served):
    server, _, _, key, other = served
    outcomes, _ = outcomes_of(server.url, key, other)
    assert [one for one in outcomes if one.result != "passed"] == []
    assert len(outcomes) > 100


def test_what_the_checks_made_is_deleted(served):
    server, _, _, key, _ = served
    _, host = outcomes_of(server.url, key, None, ["fep.rest.own-ids"])
    assert len(host.made) == 4
    assert clean_up(host) == 0
    with server.client(key) as client:
        assert {client.get(path).status_code for path in host.made} == {404}


def test_a_proxy_that_changes_nothing_is_no_fault(served):
    _, proxy, address, key, other = served
    with proxy.faulty(None):
        outcomes, _ = outcomes_of(address, key, other, ["fep.rest", "fep.law"])
    assert [one for one in outcomes if one.result != "passed"] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(served, fault):
    _, proxy, address, key, other = served
    with proxy.faulty(fault):
        outcomes, _ = outcomes_of(address, key, other, fault.finds)
    assert fault.finds
    assert [one for one in outcomes if one.result != "failed"] == []


def test_every_check_finds_a_fault():
    assert {one.name for one in fep_checks()} == {name for fault in FAULTS for name in fault.finds}


def test_names_of_checks_are_unique():
    names = [one.name for one in all_checks()]
    assert len({*names}) == len(names)
