"""The gRPC server: FEP's methods, reflection and health, on the state of one server."""

import asyncio
from typing import Any

import grpc
from grpc import aio
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from assay.concurrency.event_loop import supervise
from assay.errors import EnvironmentFailure, Unavailable
from assay.serve.fep.routes import CANCEL, CREATE, READ
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.handler import MessageReceiver, Method, RpcHandler
from assay.serve.grpc.public_services import MAX_STREAMS, BoundedPublicServices, enable_reflection
from assay.serve.grpc.services import (
    cancel_operation,
    get_evaluation,
    get_operation,
    health_check,
    list_operations,
    run_batch,
    run_evaluation,
    start_evaluation,
    stream_evaluation,
)
from assay.serve.web.health import check_ready
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.request import ServerState
from assay.serve.web.tls import Tls

# Every RPC with its scope: the server and its tests are made of this list.

NOW, LATER = "fep.v1.EvaluationService", "fep.v1.AsyncEvaluationService"

METHODS = [
    Method(service=NOW, name="RunEvaluation", request=fep.EvaluationRequest, raw=True, scope=CREATE, answer=run_evaluation),
    Method(service=NOW, name="GetEvaluation", request=fep.GetEvaluationRequest, scope=READ, answer=get_evaluation),
    Method(service=NOW, name="HealthCheck", request=fep.HealthCheckRequest, scope=None, answer=health_check),
    Method(service=NOW, name="StreamEvaluation", request=fep.EvaluationRequest, raw=True, scope=CREATE, stream=stream_evaluation),
    Method(service=NOW, name="RunBatch", request=fep.BatchEvaluationRequest, scope=CREATE, answer=run_batch),
    Method(service=LATER, name="StartEvaluation", request=fep.EvaluationRequest, raw=True, scope=CREATE, answer=start_evaluation),
    Method(service=LATER, name="GetOperation", request=fep.GetOperationRequest, scope=READ, answer=get_operation),
    Method(service=LATER, name="ListOperations", request=fep.ListOperationsRequest, scope=READ, answer=list_operations),
    Method(service=LATER, name="CancelOperation", request=fep.CancelOperationRequest, scope=CANCEL, answer=cancel_operation),
]  # fmt: skip


GRACE = 15.0  # seconds for open calls to end, once the server stops
HEALTH_SECONDS = 2.0  # between two questions to the store, for gRPC's health service
PING = 30_000  # milliseconds between keep-alive pings to a silent client


class RpcServer:
    """
    Listens at once, and answers once `serve` runs.

    Callers are authenticated by the server state's `authenticate`, as over REST. With `tls`, plain connections are
    refused.
    """

    def __init__(self, state: ServerState, *, address: str, port: int, tls: Tls | None = None) -> None:
        self._state = state
        self._server = aio.server(
            interceptors=[BoundedPublicServices(state.serving.head_seconds)],
            options=options(state.serving, state.member.size if state.member else 1),
            maximum_concurrent_rpcs=state.serving.max_requests + state.serving.max_followers + MAX_STREAMS,
        )
        receiver = MessageReceiver(state.serving)
        services: dict[str, dict[str, Any]] = {}
        for method in METHODS:
            services.setdefault(method.service, {})[method.name] = RpcHandler(
                state, method, receiver
            ).handler()
        for name, handlers in services.items():
            self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, handlers)])
        self._health = health.aio.HealthServicer()
        add_HealthServicer_to_server(self._health, self._server)
        self._names = list(services)
        enable_reflection((*services, health.SERVICE_NAME), self._server)
        self.port = self._listen(f"{address}:{port}", tls)

    def _listen(self, address: str, tls: Tls | None) -> int:
        try:
            if tls is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, credentials(tls))
        except RuntimeError:
            raise EnvironmentFailure(
                f"--grpc-port: expected a free port, got {address} in use; --grpc-port 0 takes a free port"
            ) from None

    async def serve(self) -> None:
        """Serve until the server state stops. Waits and streams end at once; open calls have `GRACE` seconds to end."""
        await self._report_health()
        await self._server.start()
        reporting = supervise("gRPC health", self._report_health_loop)
        try:
            await self._state.stopping.wait()
            reporting.cancel()
            await asyncio.wait({reporting})
            await self._health.enter_graceful_shutdown()
        finally:
            reporting.cancel()
            await self._server.stop(GRACE)

    async def _report_health_loop(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_SECONDS)
            await self._report_health()

    async def _report_health(self) -> None:
        """Say what `/v1/ready` says, in gRPC's own health service."""
        try:
            await check_ready(self._state)
            status = HealthCheckResponse.SERVING
        except Unavailable:
            status = HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._health.set(name, status)


def credentials(tls: Tls) -> grpc.ServerCredentials:
    """TLS with the same files as REST. gRPC itself requires TLS 1.2 or later."""
    roots = tls.client_ca.read_bytes() if tls.client_ca else None
    pair = tls.key.read_bytes(), tls.cert.read_bytes()
    return grpc.ssl_server_credentials([pair], roots, require_client_auth=roots is not None)


def options(serving: ServerLimits, workers: int = 1) -> list[tuple[str, Any]]:
    """
    Limits of a connection: message sizes, concurrent calls and idle times (FEP-40).

    Each of several workers accepts its share of the connections, on one port.
    """
    return [
        ("grpc.max_receive_message_length", serving.max_body_bytes),
        ("grpc.max_send_message_length", serving.max_message_bytes),
        ("grpc.max_concurrent_streams", serving.max_streams),
        ("grpc.max_allowed_incoming_connections", -(-serving.max_connections // workers)),
        ("grpc.max_metadata_size", serving.max_head_bytes),
        ("grpc.absolute_max_metadata_size", serving.max_head_bytes),
        ("grpc.server_handshake_timeout_ms", round(serving.head_seconds * 1_000)),
        ("grpc.max_connection_idle_ms", 10 * 60 * 1_000),
        ("grpc.keepalive_time_ms", PING),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        (
            "grpc.so_reuseport",
            int(workers > 1),
        ),  # otherwise two servers could bind one port and share its clients
    ]
