"""`assay conform` on PostgreSQL, and against `assay serve` with two servers and two workers, for `make soak`."""

from contextlib import closing

import pytest

from assay.conform.catalog import OPENWOP_CHECKS, all_checks
from assay.conform.check import Host, Keys
from assay.conform.fep_checks import fep_checks
from assay.conform.grpc.checks import grpc_checks
from assay.conform.grpc.client import GrpcClient
from assay.conform.http_client import HttpClient
from assay.conform.run import clean_up, run_checks
from support.conform.openwop_host import conform_server, host_at, keys_of
from support.servers.fleet import Fleet
from support.servers.grpc_client import RestAndGrpcServer
from support.stores.postgres import server

SEAMS = {"OPENWOP_TEST_SEAM_ENABLED": "true", "OPENWOP_CONFORMANCE_SEED": "true"}


def test_our_host_on_postgresql_passes_every_check():
    with server().store_database() as address, conform_server(address) as ours:
        host = host_at(ours.url, keys_of(ours))
        checks = [*fep_checks(), *OPENWOP_CHECKS]
        assert [one for one in run_checks(host, checks) if one.result != "passed"] == []


def test_our_host_on_postgresql_passes_every_check_of_grpc():
    with (
        server().store_database() as address,
        RestAndGrpcServer(address) as ours,
        closing(GrpcClient(f"127.0.0.1:{ours.grpc_port}")) as client,
    ):
        host = Host(HttpClient(ours.url), Keys(ours.key(), ours.key(tenant="other")), rpc=client)
        assert [one for one in run_checks(host, grpc_checks()) if one.result != "passed"] == []
        assert clean_up(host) == 0


@pytest.fixture(scope="module")
def fleet(zygote, tmp_path_factory):
    with server().database() as address:
        fleet = Fleet(zygote, tmp_path_factory.mktemp("conform"), address, lease=5.0, **SEAMS)
        try:
            for start in (fleet.start_server, fleet.start_server, fleet.start_worker, fleet.start_worker):
                start()
            yield fleet
        finally:
            fleet.close()


@pytest.mark.parametrize("replica", [0, 1])
def test_a_host_with_workers_fails_no_check(fleet, replica):
    host = host_at(fleet.urls[replica], Keys(fleet.key))
    outcomes = run_checks(host, all_checks())
    assert [one for one in outcomes if one.result == "failed"] == []
    assert sum(one.result == "passed" for one in outcomes) > 200
    assert clean_up(host) == 0
