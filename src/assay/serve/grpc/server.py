"""The gRPC server: every method behind its door, reflection and health beside them, on one host."""

from collections.abc import Sequence
from typing import Any

import grpc
from grpc import aio
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from assay.errors import EnvironmentFailure
from assay.serve.grpc.handler import Method, RpcHandler
from assay.serve.grpc.methods import METHODS
from assay.serve.grpc.public_services import MOST, BoundedPublicServices
from assay.serve.grpc.receive import MessageReceiver
from assay.serve.grpc.reflection import enable_reflection
from assay.serve.web.limits import ServerLimits
from assay.serve.web.request import ServerState
from assay.serve.web.tls import Tls

GRACE = 15.0  # seconds that answers may take to end, once the server stops
PING = 30_000  # milliseconds between two looks whether a silent client is still there


class RpcServer:
    """
    It listens at once, and answers from `serve` on.

    Who is asking is found out by the host's `authenticate`, as for REST; with `tls` it is asked over nothing else.
    """

    def __init__(
        self,
        state: ServerState,
        *,
        address: str,
        port: int,
        tls: Tls | None = None,
        methods: Sequence[Method] = METHODS,
    ) -> None:
        self._state = state
        self._server = aio.server(
            interceptors=[BoundedPublicServices(state.serving.head_seconds)],
            options=options(state.serving),
            maximum_concurrent_rpcs=state.serving.max_requests + state.serving.max_followers + MOST,
        )
        incoming = MessageReceiver(state.serving)
        services: dict[str, dict[str, Any]] = {}
        for method in methods:
            services.setdefault(method.service, {})[method.name] = RpcHandler(
                state, method, incoming
            ).handler()
        for name, handlers in services.items():
            self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, handlers)])
        self._health = health.aio.HealthServicer()
        add_HealthServicer_to_server(self._health, self._server)
        self._names = list(services)
        enable_reflection((*services, health.SERVICE_NAME), self._server)
        self.port = self._listen(f"{address}:{port}", tls)

    def _listen(self, place: str, tls: Tls | None) -> int:
        try:
            if tls is None:
                return self._server.add_insecure_port(place)
            return self._server.add_secure_port(place, credentials(tls))
        except RuntimeError:
            raise EnvironmentFailure(
                f"{place} cannot be used for gRPC: somebody listens there; --grpc-port 0 takes any that is free"
            ) from None

    async def serve(self) -> None:
        """Until the host stops: whoever waits is sent home, and what is being answered may end for a while."""
        for name in ("", *self._names):
            await self._health.set(name, HealthCheckResponse.SERVING)
        await self._server.start()
        try:
            await self._state.stopping.wait()
            await self._health.enter_graceful_shutdown()
        finally:
            await self._server.stop(GRACE)


def credentials(tls: Tls) -> grpc.ServerCredentials:
    """TLS as REST has it: 1.2 at least, which is gRPC's own least."""
    roots = tls.client_ca.read_bytes() if tls.client_ca else None
    pair = tls.key.read_bytes(), tls.cert.read_bytes()
    return grpc.ssl_server_credentials([pair], roots, require_client_auth=roots is not None)


def options(serving: ServerLimits) -> list[tuple[str, Any]]:
    """How much a connection may ask for at once, and how long it may be silent (decision 40)."""
    return [
        ("grpc.max_receive_message_length", serving.max_body_bytes),
        ("grpc.max_send_message_length", serving.max_message_bytes),
        ("grpc.max_concurrent_streams", serving.max_streams),
        ("grpc.max_allowed_incoming_connections", serving.max_connections),
        ("grpc.max_metadata_size", serving.max_head_bytes),
        ("grpc.absolute_max_metadata_size", serving.max_head_bytes),
        ("grpc.server_handshake_timeout_ms", round(serving.head_seconds * 1_000)),
        ("grpc.max_connection_idle_ms", 10 * 60 * 1_000),
        ("grpc.keepalive_time_ms", PING),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.so_reuseport", 0),  # two servers on one port would share its clients out
    ]
