"""TLS, and where a server may listen without it (FEP 6.4)."""

import contextlib
import json
import os
import signal
import socket
import ssl
from pathlib import Path

import grpc
import httpx
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from assay.cli.server.serve import listen
from assay.errors import UsageError
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.tls import Tls, read
from support.servers.grpc_client import Client, RestAndGrpcServer, connect
from support.servers.rest_client import LOOPS, Server, request_of, sqlite
from support.waiting import PATIENCE


class Certificates:
    """A certificate authority, a server's certificate and a client's, as files."""

    def __init__(self, folder):
        self.folder, self.ca = folder, trustme.CA()
        self.server, self.client = self.ca.issue_cert("127.0.0.1"), self.ca.issue_cert("a-client")
        self.cert, self.key = self.put("cert.pem", self.chain(self.server)), self.put("key.pem", self.server)
        self.authority = self.put("ca.pem", self.ca.cert_pem)

    def put(self, name, what):
        what = what.private_key_pem if isinstance(what, trustme.LeafCert) else what
        path = self.folder / name
        path.write_bytes(what if isinstance(what, bytes) else what.bytes())
        return str(path)

    def chain(self, cert):
        return b"".join(one.bytes() for one in cert.cert_chain_pems)

    def trusting(self, own=None, **versions):
        """How a client that trusts the authority comes, with a certificate of its own or none."""
        context = ssl.create_default_context(cafile=self.authority)
        if own is not None:
            own.configure_cert(context)
        for name, value in versions.items():
            setattr(context, name, value)
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module", params=LOOPS)
def host(certificates, tmp_path_factory, request):
    serving, address = (
        ServerLimits(head_seconds=0.6, max_connections=8),
        sqlite(tmp_path_factory.mktemp("tls")),
    )
    tls = read(certificates.cert, certificates.key)
    with Server(address, tls=tls, serving=serving, run=request.param) as host:
        yield host


def evaluate(host, context, **headers):
    with httpx.Client(base_url=host.url, verify=context, headers=headers, timeout=60) as client:
        return client.post("/v1/evaluate", json=request_of(2))


def test_everything_works_over_tls(host, certificates):
    answer = evaluate(host, certificates.trusting(), authorization=f"Bearer {host.key()}")
    assert answer.status_code == 200, answer.text
    assert answer.json()["results"]
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_a_client_that_does_not_trust_the_certificate_cannot_connect(host):
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        evaluate(host, ssl.create_default_context())


def test_plain_http_is_not_answered_on_a_port_of_tls(host):
    assert b"HTTP" not in host.raw(b"GET /v1/health HTTP/1.1\r\nhost: a\r\n\r\n")


@pytest.mark.parametrize(
    ("version", "good"),
    [
        (ssl.TLSVersion.TLSv1, False),
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
@pytest.mark.filterwarnings("ignore:.*TLSv1:DeprecationWarning")
def test_tls_before_1_2_is_refused(host, certificates, version, good):
    assert (
        host.tls.context().minimum_version == ssl.TLSVersion.TLSv1_2
    )  # whatever this machine's OpenSSL would take
    context = certificates.trusting(minimum_version=version, maximum_version=version)
    context.set_ciphers("ALL:@SECLEVEL=0")  # so that it is the server that refuses
    with contextlib.ExitStack() as stack:
        if not good:
            stack.enter_context(pytest.raises((ssl.SSLError, ConnectionError)))
        plain = stack.enter_context(socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE))
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            assert connection.version() == version.name.replace("_", ".")


def test_a_missing_handshake_times_out(host):
    with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as silent:
        assert silent.recv(1) == b""  # in head_seconds, and not in asyncio's minute


def test_connections_without_a_handshake_block_others_only_until_they_time_out(host, certificates):
    silent = [socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) for _ in range(8)]
    try:
        assert host.raw(b"", seconds=PATIENCE) == b""
        assert host.server.listeners[0].connections <= 8
        for one in silent:
            assert one.recv(1) == b""
    finally:
        for one in silent:
            one.close()
    assert evaluate(host, certificates.trusting(), authorization=f"Bearer {host.key()}").status_code == 200


def test_with_a_client_authority_a_client_needs_its_certificate(certificates, tmp_path):
    strangers = trustme.CA().issue_cert("a-client")
    tls = read(certificates.cert, certificates.key, certificates.authority)
    with Server(sqlite(tmp_path), tls=tls) as host:
        key = f"Bearer {host.key()}"
        assert (
            evaluate(host, certificates.trusting(certificates.client), authorization=key).status_code == 200
        )
        assert (
            evaluate(host, certificates.trusting(certificates.client)).status_code == 401
        )  # a certificate is no key
        for own in (None, strangers):
            with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectError)):
                evaluate(host, certificates.trusting(own), authorization=key)


# Files


def wrong_files(certificates):
    other = trustme.CA().issue_cert("other")
    key = load_pem_private_key(Path(certificates.key).read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame"))
    return [
        ("no such certificate", ("nowhere.pem", certificates.key), "--tls-cert: nowhere.pem: expected a file that can be read, got No such file"),
        ("no such key", (certificates.cert, "nowhere.pem"), "--tls-key: nowhere.pem: expected a file that can be read, got No such file"),
        ("a folder", (certificates.cert, str(certificates.folder)), "that can be read, got Is a directory"),
        ("the two swapped", (certificates.key, certificates.cert), "--tls-cert: .* expected a certificate in PEM format"),
        ("a certificate for a key", (certificates.cert, certificates.cert), "--tls-key: .* expected a private key in PEM format"),
        ("another's key", (certificates.cert, certificates.put("other.pem", other)), "expected the key of the certificate in"),
        ("a broken key", (certificates.cert, certificates.put("cut.pem", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----")), "that can be read|expected the key"),
        ("a broken certificate", (certificates.put("bad.pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"), certificates.key), "that can be read"),
        ("a locked key", (certificates.cert, certificates.put("locked.pem", locked)), "is encrypted with a password"),
        ("an empty file", (certificates.put("empty.pem", b""), certificates.key), "expected a certificate"),
        ("only a certificate", (certificates.cert, ""), "--tls-cert: expected --tls-key"),
        ("only a key", ("", certificates.key), "--tls-key: expected --tls-cert"),
        ("only an authority", ("", "", certificates.authority), "--tls-client-ca: expected --tls-cert and --tls-key with it"),
        ("no such authority", (certificates.cert, certificates.key, "nowhere.pem"), "--tls-client-ca: nowhere.pem: expected a file that can be read"),
        ("an authority that is none", (certificates.cert, certificates.key, certificates.key), "--tls-client-ca: .* expected a certificate"),
    ]  # fmt: skip


def test_invalid_tls_files_are_refused_in_one_line(certificates):
    for why, given, message in wrong_files(certificates):
        with pytest.raises(UsageError, match=message) as refused:
            read(*given)
        assert "\n" not in str(refused.value), why
        assert "PRIVATE KEY-----" not in str(refused.value), why
    assert read("", "") is None


# Where it listens


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.3.2.1"])
def test_a_loopback_address_needs_no_tls(host):
    place = listen(host, 0, None)
    with place.listener:
        assert place.address.startswith("http://")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_a_network_address_needs_tls_or_the_option_insecure(certificates, host):
    with pytest.raises(
        UsageError,
        match=r"expected TLS on an address that a network reaches, got none; give --tls-cert and --tls-key, or --insecure",
    ):
        listen(host, 0, None)
    if host == "0.0.0.0":
        for given in (
            {"tls": None, "insecure": True},
            {"tls": Tls(Path(certificates.cert), Path(certificates.key))},
        ):
            place = listen(host, 0, **given)
            with place.listener:
                assert place.address.startswith("https://" if given["tls"] else "http://")


@pytest.mark.parametrize("host", ["", "nowhere.invalid", "300.1.1.1", "x" * 300, "\0"])
def test_an_invalid_address_is_refused(host):
    with pytest.raises(UsageError, match="--host"):
        listen(host, 0, None, insecure=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "--insecure"),
        (["--tls-cert", "nowhere.pem"], "--tls-cert: expected --tls-key"),
        (
            ["--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem"],
            "nowhere.pem: expected a file that can be read",
        ),
    ],
)
def test_the_command_refuses_with_one_line_and_opens_nothing(command, tmp_path, options, message):
    done = command("serve", "--port", "0", *options, folder=tmp_path)
    assert done.code == 2
    (line,) = done.messages
    assert message in line
    assert not (tmp_path / ".assay").exists()


def test_the_command_serves_tls(certificates, zygote, tmp_path):
    environ = {**os.environ, "ASSAY_TLS_KEY": certificates.key, "PYTHONUNBUFFERED": "1"}
    options = ("--port", "0", "--tls-cert", certificates.cert)
    serving = zygote.start("serve", *options, folder=tmp_path, pipe=True, environ=environ)
    try:
        line = serving.stdout.readline()
        assert line.startswith("assay serves https://127.0.0.1:"), line
        with httpx.Client(base_url=line.split()[2], verify=certificates.trusting(), timeout=60) as client:
            assert json.loads(client.get("/v1/health").content)["status"] == "healthy"
        serving.send_signal(signal.SIGTERM)
        assert serving.wait() == 0
    finally:
        serving.close()


# gRPC


@contextlib.contextmanager
def calling(host, certificates, own=None, key=None):
    """A client of gRPC that trusts the authority, with a certificate of its own or none."""
    more = {}
    if own is not None:
        more = {
            "private_key": own.private_key_pem.bytes(),
            "certificate_chain": b"".join(one.bytes() for one in own.cert_chain_pems),
        }
    trusting = grpc.ssl_channel_credentials(certificates.ca.cert_pem.bytes(), **more)
    with grpc.secure_channel(f"127.0.0.1:{host.grpc_port}", trusting) as channel:
        yield Client(channel, host.key() if key is None else key)


def status_of(client):
    try:
        client.ListOperations(timeout=PATIENCE)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.fixture(scope="module")
def both(certificates, tmp_path_factory):
    tls = read(certificates.cert, certificates.key, certificates.authority)
    serving = ServerLimits(head_seconds=0.6, max_connections=4, max_head_bytes=8_192)
    with RestAndGrpcServer(sqlite(tmp_path_factory.mktemp("both")), tls=tls, serving=serving) as host:
        yield host


def test_grpc_has_the_same_tls_and_client_certificates(both, certificates):
    with calling(both, certificates, certificates.client) as client:
        assert status_of(client) == grpc.StatusCode.OK
    with calling(both, certificates, certificates.client, key="") as client:
        assert status_of(client) == grpc.StatusCode.UNAUTHENTICATED
    for own in (None, trustme.CA().issue_cert("a-client")):
        with calling(both, certificates, own) as client:
            assert status_of(client) == grpc.StatusCode.UNAVAILABLE


def test_grpc_does_not_answer_plaintext_on_a_tls_port(both):
    with grpc.insecure_channel(f"127.0.0.1:{both.grpc_port}") as channel:
        assert status_of(Client(channel, both.key())) == grpc.StatusCode.UNAVAILABLE


@pytest.mark.filterwarnings("ignore:.*TLSv1:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1], ids=["1.0", "1.1"])
def test_grpc_refuses_tls_before_1_2(both, certificates, version):
    context = certificates.trusting(certificates.client, minimum_version=version, maximum_version=version)
    context.set_ciphers("ALL:@SECLEVEL=0")
    plain = socket.create_connection(("127.0.0.1", both.grpc_port), timeout=PATIENCE)
    with plain, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_grpc_times_out_a_missing_handshake(both):
    with socket.create_connection(("127.0.0.1", both.grpc_port), timeout=PATIENCE) as silent:
        assert silent.recv(1) == b""  # in head_seconds; by itself gRPC waits for two minutes


def test_grpc_limits_connections(tmp_path):
    with (
        RestAndGrpcServer(sqlite(tmp_path), serving=ServerLimits(max_connections=4)) as host,
        contextlib.ExitStack() as held,
    ):
        alone = (("grpc.use_local_subchannel_pool", 1),)  # else channels to one place are one connection
        clients = [held.enter_context(connect(host, options=alone)) for _ in range(8)]
        codes = [status_of(client) for client in clients]
        assert codes.count(grpc.StatusCode.OK) == 4, codes
        assert codes.count(grpc.StatusCode.UNAVAILABLE) == 4, codes


def test_grpc_limits_metadata_as_rest_limits_headers(tmp_path):
    with (
        RestAndGrpcServer(sqlite(tmp_path), serving=ServerLimits(max_head_bytes=8_192)) as host,
        connect(host) as client,
    ):
        client.ListOperations(metadata=(("x-more", "x" * 4_000),))
        with pytest.raises(grpc.RpcError) as refused:
            client.ListOperations(metadata=(("x-more", "x" * 9_000),))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
