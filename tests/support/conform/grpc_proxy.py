"""A proxy in front of a real gRPC server that changes what it answers: a host with a planted fault."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc

from assay.conform.grpc.messages import RPCS
from support.waiting import PATIENCE


class Call:
    """A call and its answer. A mutation changes `messages`, `code` or `details`, or asks the server something else."""

    def __init__(self, proxy: "GrpcProxy", path: str, sent: bytes, metadata: dict[str, str]) -> None:
        self.method, self.sent, self.metadata = path.rpartition("/")[2], sent, metadata
        self._proxy, self._path = proxy, path
        self.messages: list[Any] = []
        self.code, self.details = grpc.StatusCode.OK, ""
        self.delay: Callable[[], None] = lambda: None

    @property
    def key(self) -> str:
        return self.metadata.get("authorization", "")

    @property
    def memory(self) -> dict[str, Any]:
        """What the proxy remembers from one call to the next."""
        return self._proxy.memory

    def forward(self, **changes: Any) -> None:
        """Ask the server, perhaps another question: `key` or `sent` replaces that of the call."""
        key = changes.get("key", self.key)
        rpc = self._proxy.channel.unary_stream(self._path)(
            changes.get("sent", self.sent),
            metadata=(("authorization", key),) if key else (),
            timeout=PATIENCE,
        )
        kind = RPCS[self.method].answer
        try:
            self.messages = [kind.FromString(one) for one in rpc]
        except grpc.RpcError:
            self.messages = []
        self.code, self.details = rpc.code(), rpc.details()


class GrpcMutation(NamedTuple):
    """A planted fault, and the checks that must find it. `change` gets a call that was forwarded already."""

    name: str
    finds: tuple[str, ...]
    change: Callable[[Call], None]


class GrpcProxy(grpc.GenericRpcHandler):
    """The faults of one server at a time. `memory` is empty for each."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel, self.mutation, self.memory = channel, None, dict[str, Any]()

    @contextmanager
    def faulty(self, mutation: GrpcMutation | None):
        self.mutation, self.memory = mutation, {}
        yield
        self.mutation = None

    def service(self, handler_call_details: Any):
        path, given = handler_call_details.method, dict(handler_call_details.invocation_metadata)

        def answer(requests: Any, context: grpc.ServicerContext):
            call = Call(self, path, next(requests), given)
            call.forward()
            if self.mutation is not None:
                self.mutation.change(call)
            for message in call.messages:
                yield message if isinstance(message, bytes) else message.SerializeToString()
            if call.code is not grpc.StatusCode.OK:
                context.abort(call.code, call.details)

        return grpc.stream_stream_rpc_method_handler(answer)


@contextmanager
def grpc_proxied(port: int):
    """The address of a proxy for the server at this port, and the proxy."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        proxy = GrpcProxy(channel)
        server = grpc.server(ThreadPoolExecutor(16), handlers=(proxy,))
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield address, proxy
        finally:
            server.stop(None).wait()
