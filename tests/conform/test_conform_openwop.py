"""`assay conform` of OpenWOP: it finds nothing in our host, and every planted fault."""

import pytest

from assay.conform.catalog import OPENWOP_CHECKS
from assay.conform.run import chosen, clean_up, run_checks
from support.conform.openwop_faults import (
    CREATION_FAULTS,
    DISCOVERY_FAULTS,
    EVENT_FAULTS,
    RUN_FAULTS,
    SCORECARD_FAULTS,
)
from support.conform.openwop_host import conform_server, host_at, key_of
from support.conform.proxy import proxied
from support.conform.workflow_faults import PACK_FAULTS, PROMOTION_FAULTS, WORKFLOW_FAULTS
from support.servers.rest_client import sqlite

FAULTS = [
    *DISCOVERY_FAULTS, *CREATION_FAULTS, *EVENT_FAULTS, *SCORECARD_FAULTS, *RUN_FAULTS, *WORKFLOW_FAULTS,
    *PROMOTION_FAULTS, *PACK_FAULTS,
]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A real host, a proxy in front of it, and keys of two tenants."""
    with (
        conform_server(sqlite(tmp_path_factory.mktemp("conform"))) as ours,
        proxied(ours.url) as (address, proxy),
    ):
        yield ours, proxy, address, key_of(ours), key_of(ours, "other")


def outcomes_of(address, key, other, only=()):
    host = host_at(address, key, other)
    return run_checks(host, chosen(OPENWOP_CHECKS, only)), host


def test_our_host_passes_every_check(served):
    ours, _, _, key, other = served
    outcomes, host = outcomes_of(ours.url, key, other)
    assert [one for one in outcomes if one.result != "passed"] == []
    assert len(outcomes) > 100
    assert clean_up(host) == 0


@pytest.mark.sample(5)  # each starts runs of a real host
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(served, fault):
    _, proxy, address, key, other = served
    with proxy.faulty(fault):
        outcomes, _ = outcomes_of(address, key, other, fault.finds)
    assert fault.finds
    assert [one for one in outcomes if one.result != "failed"] == []


def test_every_check_finds_a_fault():
    assert {one.name for one in OPENWOP_CHECKS} == {name for fault in FAULTS for name in fault.finds}
