"""`assay conform --grpc`: it finds nothing in our server, and every planted fault."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import repeat

import grpc
import pytest
import trustme

from assay import client_tls
from assay.conform.check import Failed, Host, Keys
from assay.conform.grpc.checks import grpc_checks
from assay.conform.grpc.client import GrpcClient
from assay.conform.http_client import HttpClient, Unanswered
from assay.conform.run import Unreachable, chosen, clean_up, run_checks
from assay.errors import UsageError
from assay.serve.web.tls import read
from support.conform.grpc_faults import GRPC_FAULTS
from support.conform.grpc_proxy import grpc_proxied
from support.servers.grpc_client import RestAndGrpcServer
from support.servers.rest_client import sqlite

FAST = 100_000.0  # requests a second


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A real server, a proxy in front of its gRPC, and keys of two tenants."""
    with (
        RestAndGrpcServer(sqlite(tmp_path_factory.mktemp("conform"))) as server,
        grpc_proxied(server.grpc_port) as (address, proxy),
    ):
        yield server, proxy, address, server.key(), server.key(tenant="other")


def outcomes_of(address, key, other=None, only=(), url=None):
    with closing(GrpcClient(address, rate=FAST)) as client:
        host = Host(url and HttpClient(url, rate=FAST), Keys(key, other), rpc=client)
        return run_checks(host, chosen(grpc_checks(), only)), host


def test_our_server_passes_every_check_and_what_was_made_is_deleted(served):
    server, _, _, key, other = served
    outcomes, host = outcomes_of(f"127.0.0.1:{server.grpc_port}", key, other, url=server.url)
    assert [one for one in outcomes if one.result != "passed"] == []
    assert len(outcomes) > 20
    assert len(host.made) > 80
    assert clean_up(host) == 0


def test_grpc_over_tls_needs_a_certificate_that_is_trusted(tmp_path):
    """REST and gRPC of a server whose certificate is of a private CA."""
    ca = trustme.CA()
    own = ca.issue_cert("127.0.0.1")
    chain = b"".join(one.bytes() for one in own.cert_chain_pems)
    files = {"cert.pem": chain, "key.pem": own.private_key_pem.bytes(), "ca.pem": ca.cert_pem.bytes()}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    tls = read(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    with RestAndGrpcServer(sqlite(tmp_path), tls=tls) as server:
        address, key, other = (
            f"grpcs://127.0.0.1:{server.grpc_port}",
            server.key(),
            server.key(tenant="other"),
        )
        with pytest.raises(Unreachable, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
            outcomes_of(address, key)
        client_tls.trust(str(tmp_path / "ca.pem"))
        try:
            outcomes, host = outcomes_of(address, key, other, url=server.url)
            assert clean_up(host) == 0
        finally:
            client_tls.trust("")
        assert [one for one in outcomes if one.result != "passed"] == []
        with pytest.raises(Unreachable):
            outcomes_of(address.removeprefix("grpcs://"), key)


def test_without_http_nothing_can_be_deleted_and_the_rest_is_counted(served):
    _, proxy, address, key, _ = served
    with proxy.faulty(None):
        outcomes, host = outcomes_of(address, key, None, ["fep.grpc.own-ids", "fep.grpc.foreign-is-unknown"])
    assert [one.result for one in outcomes] == ["not_tried", "passed"]
    assert clean_up(host) == len({*host.made}) == 5


@pytest.mark.sample(10)
@pytest.mark.parametrize("fault", GRPC_FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(served, fault):
    _, proxy, address, key, other = served
    with proxy.faulty(fault):
        outcomes, _ = outcomes_of(address, key, other, fault.finds)
    assert fault.finds
    assert [one for one in outcomes if one.result != "failed"] == []


def test_every_check_finds_a_fault():
    assert {one.name for one in grpc_checks()} == {name for fault in GRPC_FAULTS for name in fault.finds}


def test_without_an_address_of_grpc_its_checks_could_not_be_tried(served):
    server, _, _, key, _ = served
    outcomes = run_checks(Host(HttpClient(server.url, rate=FAST), Keys(key)), grpc_checks())
    assert {(one.result, one.message) for one in outcomes} == {
        ("not_tried", "it needs the address of gRPC: --grpc")
    }


@contextmanager
def bad_host(*handlers):
    """The address of a server with these handlers alone."""
    server = grpc.server(ThreadPoolExecutor(2), handlers=handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class Answers(grpc.GenericRpcHandler):
    """Each method answers with these messages."""

    def __init__(self, messages):
        self.messages = messages

    def service(self, handler_call_details):
        return grpc.unary_stream_rpc_method_handler(lambda request, context: iter(self.messages()))


def test_a_host_without_the_service_does_not_offer_it():
    with bad_host() as address:
        outcomes, _ = outcomes_of(address, "key", "other")
    assert {one.result for one in outcomes} == {"not_offered"}


@pytest.mark.parametrize("messages", [[], [b""], [b"", b""], [b"\xff\xff"]])
def test_a_host_that_answers_ok_to_everything_passes_nothing(messages):
    with bad_host(Answers(lambda: messages)) as address:
        outcomes, _ = outcomes_of(address, "key", "other")
    assert {one.result for one in outcomes} <= {"failed", "not_tried"}


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        (lambda: [b"\xff\xff"], r"HealthCheck: expected a message fep\.v1\.HealthCheckResponse"),
        (lambda: repeat(bytes(2**20)), r"HealthCheck: the answer has more than 4194304 bytes"),
        (lambda: [bytes(2**22 + 1)], r"RESOURCE_EXHAUSTED"),
        (list, r"HealthCheck without a key: expected one message, got 0"),
    ],
)
def test_a_host_that_misbehaves_fails_the_check(messages, wrong):
    with bad_host(Answers(messages)) as address, closing(GrpcClient(address, rate=FAST)) as client:
        host = Host(None, Keys("key"), rpc=client)
        (check,) = chosen(grpc_checks(), ["fep.grpc.health"])
        with pytest.raises((Failed, Unanswered, ValueError), match=wrong):
            check.run(host)


@pytest.mark.parametrize(
    "address", ["", "host", "host:x", "host:70000", "unix:/tmp/x", "http://a:1", "a:1,b:2", "dns://x/a:1"]
)
def test_an_address_has_a_host_and_a_port(address):
    with pytest.raises(UsageError, match=r"--grpc .*: expected HOST:PORT"):
        GrpcClient(address)


def test_a_host_that_does_not_answer_is_unreachable():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with closing(GrpcClient(address, timeout=0.3)) as client, pytest.raises(Unreachable, match="no end"):
            run_checks(Host(None, Keys("key"), rpc=client), grpc_checks())
    with closing(GrpcClient(address)) as client, pytest.raises(Unreachable, match="refused"):
        run_checks(Host(None, Keys("key"), rpc=client), grpc_checks())
