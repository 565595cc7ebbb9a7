"""What gRPC takes from those it does not know, and how much of a tenant's at once (FEP 6.4, FEP-40)."""

import threading
import time
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from assay.serve.grpc import public_services as bounded
from assay.serve.web.limit_settings import ServerLimits
from support.servers.grpc_client import RestAndGrpcServer, connect
from support.servers.rest_client import sqlite
from support.waiting import PATIENCE, wait_until

TIGHT = ServerLimits(
    max_requests=8, max_followers=4, max_body_bytes=100_000, max_held_bytes=200_000, body_seconds=60
)  # fmt: skip
ASKED = reflection_pb2.ServerReflectionRequest
RUN = "/fep.v1.EvaluationService/RunEvaluation"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with RestAndGrpcServer(sqlite(tmp_path_factory.mktemp("strangers")), serving=TIGHT) as host:
        yield host


@pytest.fixture
def channel(host):
    with grpc.insecure_channel(f"127.0.0.1:{host.grpc_port}") as channel:
        yield channel


class DelayedMessage:
    """A message that does not come until it may."""

    def __init__(self, message=b""):
        self.go, self._message = threading.Event(), message

    def __iter__(self):
        self.go.wait(2 * PATIENCE)
        yield self._message


def start_call(channel, path, message, key="", timeout=PATIENCE):
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    return channel.stream_unary(path).future(iter(message), metadata=metadata, timeout=timeout)


@pytest.mark.parametrize(
    ("key", "code"),
    [("", "UNAUTHENTICATED"), ("assay_abcdefgh_" + "x" * 43, "UNAUTHENTICATED"), (None, "PERMISSION_DENIED")],
    ids=["nobody", "a wrong key", "without the scope"],
)
def test_a_message_of_an_unknown_caller_is_not_read(host, channel, key, code):
    message = DelayedMessage()
    key = host.key(scopes={"evaluations:read"}) if key is None else key
    try:
        call = start_call(channel, RUN, message, key)
        assert call.code().name == code  # and not DEADLINE_EXCEEDED
    finally:
        message.go.set()


def test_public_methods_are_answered_without_reading_the_message(channel):
    message = DelayedMessage()
    try:
        assert start_call(channel, "/fep.v1.EvaluationService/HealthCheck", message).code().name == "OK"
    finally:
        message.go.set()


def test_the_messages_in_flight_of_a_tenant_are_bounded(host, channel):
    key, other = host.key(tenant="slow"), host.key(tenant="other")
    lists = "/fep.v1.AsyncEvaluationService/ListOperations"
    held = [DelayedMessage() for _ in range(TIGHT.max_held_bytes // TIGHT.max_body_bytes)]
    try:
        calls = [start_call(channel, lists, one, key) for one in held]
        load = host.app.state.server.admission
        wait_until(lambda: load.requests_of["slow"] == len(held))
        third = start_call(channel, lists, [b""], key)
        assert start_call(channel, lists, [b""], other).code().name == "OK"  # others are heard meanwhile
        assert not third.done()
        held[0].go.set()
        assert third.code().name == "OK"
    finally:
        for one in held:
            one.go.set()
    assert [call.code().name for call in calls] == ["OK"] * len(held)


def test_a_message_that_does_not_arrive_times_out(tmp_path):
    serving = ServerLimits(body_seconds=0.2, max_body_bytes=10_000)
    message = DelayedMessage()
    with RestAndGrpcServer(sqlite(tmp_path), serving=serving) as host, connect(host, key="") as client:
        try:
            assert start_call(client._channel, RUN, message, host.key()).code().name == "INVALID_ARGUMENT"
            assert start_call(client._channel, RUN, [], host.key()).code().name == "INVALID_ARGUMENT"
        finally:
            message.go.set()


def test_health_watchers_do_not_block_other_callers(host, channel):
    watch = health_pb2_grpc.HealthStub(channel).Watch
    watching = [
        watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE) for _ in range(bounded.MAX_STREAMS + 20)
    ]
    try:
        with connect(host) as client:
            assert not client.ListOperations().operations
        refused = 0
        for one in watching:
            try:
                assert next(one).status == health_pb2.HealthCheckResponse.SERVING
            except grpc.RpcError as error:
                refused += error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused == 20
    finally:
        for one in watching:
            one.cancel()


def test_a_large_health_or_reflection_request_is_refused(channel):
    long = "x" * (bounded.LARGEST + 1)
    health: Any = health_pb2_grpc.HealthStub(channel)
    reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    for ask in (
        lambda: health.Check(health_pb2.HealthCheckRequest(service=long)),
        lambda: list(health.Watch(health_pb2.HealthCheckRequest(service=long))),
        lambda: list(reflection.ServerReflectionInfo(iter([ASKED(file_by_filename=long)]))),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            ask()
        assert refused.value.code().name == "INVALID_ARGUMENT"
    assert len(list(reflection.ServerReflectionInfo(iter([ASKED(list_services="")])))) == 1


def test_a_reflection_stream_without_a_request_times_out(tmp_path):
    silent = threading.Event()

    def never():
        silent.wait(2 * PATIENCE)
        yield ASKED(list_services="")

    with (
        RestAndGrpcServer(sqlite(tmp_path), serving=ServerLimits(head_seconds=0.3)) as host,
        connect(host, key="") as client,
    ):
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(client._channel)
        began = time.monotonic()
        try:
            with pytest.raises(grpc.RpcError) as refused:
                list(reflection.ServerReflectionInfo(never(), timeout=PATIENCE))
        finally:
            silent.set()
        assert refused.value.code().name == "DEADLINE_EXCEEDED"
        assert time.monotonic() - began < PATIENCE - 10  # the server's, and not the client's
