"""`assay conform` against every deployment of assay as real processes, and against two servers with workers, for `make soak`."""

import sys
import time
from contextlib import closing

import pytest

from assay.conform.catalog import all_checks
from assay.conform.check import Host, Keys
from assay.conform.grpc.client import GrpcClient
from assay.conform.http_client import HttpClient
from assay.conform.run import clean_up, run_checks
from assay.seams.sample_agents import CONFORM
from support.servers.deployments import DEPLOYMENTS, deployed
from support.servers.fleet import Fleet
from support.stores.postgres import server

SEAMS = {"OPENWOP_TEST_SEAM_ENABLED": "true", "OPENWOP_CONFORMANCE_SEED": "true"}
LONGEST = 1200.0  # seconds of a run, so that one that is slow shows all that it finds
WHOLE = 120.0  # seconds that a whole host may take, with what is deleted at its end
TIMEOUT = 30.0  # seconds of a request
ELSEWHERE = ("openwop.replicas", "openwop.verify.hanging-critic")  # needs two addresses; takes a minute


def outcomes_of(host):
    """The outcomes of a whole host, in time; what was made is deleted."""
    start = time.monotonic()
    outcomes = run_checks(host, all_checks(), longest=LONGEST)
    checked = time.monotonic() - start
    assert clean_up(host, seconds=LONGEST) == 0
    whole = time.monotonic() - start
    sys.stderr.write(f"{len(outcomes)} checks in {checked:.0f} s, {whole - checked:.0f} s to delete\n")
    assert whole < WHOLE
    return outcomes


def checked(host):
    """What did not pass of the checks that can be tried here."""
    outcomes = outcomes_of(host)
    here = [one for one in outcomes if not one.check.name.startswith(ELSEWHERE)]
    return [(one.check.name, one.result, one.message) for one in here if one.result != "passed"]


@pytest.mark.parametrize(
    "at", range(len(DEPLOYMENTS)), ids=DEPLOYMENTS
)  # a name of a database would be sampled
def test_every_deployment_passes_every_check(zygote, tmp_path, at):
    with (
        deployed(zygote, tmp_path, DEPLOYMENTS[at]) as there,
        closing(GrpcClient(there.grpc.removeprefix("grpc://"), timeout=TIMEOUT)) as rpc,
    ):
        keys = Keys(
            there.make_key("acme", "everything"),
            there.make_key("other", "everything"),
            there.make_key("acme", "runs:read"),
            there.make_key("acme", "approvals:respond"),
        )
        client = HttpClient(str(there.client.base_url), timeout=TIMEOUT)
        assert checked(Host(client, keys, agent=CONFORM, rpc=rpc)) == []


def test_two_servers_with_workers_do_the_same(zygote, tmp_path):
    with server().database() as address:
        fleet = Fleet(zygote, tmp_path, address, lease=5.0, **SEAMS)
        try:
            for start in (fleet.start_server, fleet.start_server, fleet.start_worker, fleet.start_worker):
                start()
            first, second = (HttpClient(url, timeout=TIMEOUT) for url in fleet.urls)
            host = Host(first, Keys(fleet.key), agent=CONFORM, others=[second])
            outcomes = outcomes_of(host)
            assert [one for one in outcomes if one.result == "failed"] == []
            seen = [one.result for one in outcomes if one.check.name.startswith("openwop.replicas")]
            assert seen == ["passed"] * 8
        finally:
            fleet.close()
