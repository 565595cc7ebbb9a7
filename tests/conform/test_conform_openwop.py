"""`assay conform` of OpenWOP: it finds nothing in our host, and every planted fault."""

import pytest

from assay.conform.catalog import OPENWOP_CHECKS
from assay.conform.run import chosen, clean_up, run_checks
from support.conform.openwop_faults import (
    CREATION_FAULTS,
    DISCOVERY_FAULTS,
    EVENT_FAULTS,
    REPLICA_FAULTS,
    RUN_FAULTS,
    SCORECARD_FAULTS,
)
from support.conform.openwop_host import conform_server, host_at, keys_of
from support.conform.proxy import proxied
from support.conform.workflow_faults import APPROVAL_FAULTS, PACK_FAULTS, PROMOTION_FAULTS, WORKFLOW_FAULTS
from support.servers.rest_client import sqlite

FAULTS = [
    *DISCOVERY_FAULTS, *CREATION_FAULTS, *EVENT_FAULTS, *SCORECARD_FAULTS, *RUN_FAULTS, *WORKFLOW_FAULTS,
    *PROMOTION_FAULTS, *APPROVAL_FAULTS, *PACK_FAULTS, *REPLICA_FAULTS,
]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A real host, a proxy in front of it, and keys of two tenants."""
    with (
        conform_server(sqlite(tmp_path_factory.mktemp("conform"))) as ours,
        proxied(ours.url) as (address, proxy),
    ):
        yield ours, proxy, address, keys_of(ours)


def outcomes_of(address, keys, other, only=()):
    host = host_at(address, keys, other)
    return run_checks(host, chosen(OPENWOP_CHECKS, only)), host


def test_our_host_passes_every_check(served):
    ours, _, address, keys = served
    outcomes, host = outcomes_of(ours.url, keys, address)
    assert [one for one in outcomes if one.result != "passed"] == []
    assert len(outcomes) > 100
    assert clean_up(host) == 0


@pytest.mark.sample(10)  # each starts runs of a real host
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(served, fault):
    ours, proxy, address, keys = served
    with proxy.faulty(fault):
        outcomes, _ = outcomes_of(address, keys, ours.url, fault.finds)
    assert fault.finds
    assert [one for one in outcomes if one.result != "failed"] == []


def test_every_check_finds_a_fault():
    assert {one.name for one in OPENWOP_CHECKS} == {name for fault in FAULTS for name in fault.finds}
