"""`assay serve` with gRPC beside REST, as it is called: where it listens, how it stops, and what it says without the extra."""

import contextlib
import os
import signal
import socket

import grpc
import httpx
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from assay.conform.grpc.messages import message_of
from support.servers.grpc_client import Client

REQUEST = {
    "test_cases": [{"id": "a", "input": "q"}],
    "outputs": [{"value": "x"}],
    "checks": [{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["x"]}}],
}


@pytest.fixture
def serving(zygote, tmp_path):
    @contextlib.contextmanager
    def serve(*options, **more):
        environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = zygote.start("serve", *options, folder=tmp_path, pipe=True, environ=environ, **more)
        try:
            yield process
        finally:
            process.close()

    return serve


def address(line):
    assert line.startswith("assay serves "), line
    return line.split()[2]


@pytest.mark.parametrize("options", [["--port", "0"], ["--port", "0", "--grpc-port", "0"]], ids=len)
def test_serve_prints_both_addresses_and_both_serve_the_same_runs(serving, tmp_path, options):
    with serving(*options) as process:
        rest, calls = address(process.stdout.readline()), address(process.stdout.readline())
        key = (tmp_path / ".assay" / "local-key").read_text().strip()
        with grpc.insecure_channel(calls.removeprefix("grpc://")) as channel:
            made = Client(channel, key).RunEvaluation(message_of(REQUEST))
            alive = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=HealthCheckRequest.SerializeToString,
                response_deserializer=HealthCheckResponse.FromString,
            )
            assert alive(HealthCheckRequest()).status == HealthCheckResponse.SERVING
        read = httpx.get(
            f"{rest}/v1/evaluations/{made.evaluation_id}", headers={"X-API-Key": key}, timeout=60
        )
        assert read.json()["summary"]["completed_test_cases"] == 1
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
        assert process.returncode == 0, err
        assert "assay has stopped" in err


def test_a_port_in_use_is_refused_in_one_line(command, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = command("serve", "--port", "0", "--grpc-port", port, folder=tmp_path)
    assert done.code != 0
    assert f"--grpc-port: expected a free port, got 127.0.0.1:{port} in use" in done.messages[-1]


WITHOUT = "support.commands.without_grpc:main"
INSTALL = "needs grpcio: pip install 'openassay[grpc]' (in a clone: pip install -e '.[grpc]')"


def test_grpc_without_its_extra_is_refused_with_the_install_command(serving):
    with serving("--port", "0", "--grpc-port", "0", target=WITHOUT) as process:
        _, err = process.communicate()
    assert process.returncode == 2
    assert err.splitlines()[-1].endswith(INSTALL)
    assert "Traceback" not in err


def test_without_the_grpc_extra_serve_serves_rest_alone(serving):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving("--port", str(port), target=WITHOUT) as process:
        assert address(process.stdout.readline()) == f"http://127.0.0.1:{port}"
        assert httpx.get(f"http://127.0.0.1:{port}/v1/health", timeout=60).json()["status"] == "healthy"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert process.returncode == 0
    assert out == ""
    assert f"only HTTP is served: gRPC {INSTALL}" in err
