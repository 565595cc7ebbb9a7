"""Clients for a server of our own over gRPC, and their messages as JSON."""

import contextlib
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status

from assay.conform.grpc.messages import plain
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.server import METHODS
from assay.serve.grpc.server import RpcServer as GrpcServer
from support.servers.rest_client import Server
from support.waiting import PATIENCE

GIVES = {
    "RunEvaluation": fep.EvaluationRunResult,
    "GetEvaluation": fep.EvaluationRunResult,
    "HealthCheck": fep.HealthCheckResponse,
    "StreamEvaluation": fep.EvaluationProgress,
    "RunBatch": fep.BatchEvaluationResponse,
    "StartEvaluation": fep.EvaluationOperation,
    "GetOperation": fep.EvaluationOperation,
    "ListOperations": fep.ListOperationsResponse,
    "CancelOperation": fep.CancelOperationResponse,
}


class RestAndGrpcServer(Server):
    """REST and gRPC in one process."""

    def beside(self, host):
        server = GrpcServer(host, address="127.0.0.1", port=0, tls=self.tls)
        self.grpc_port = server.port
        return server.serve()


BY_NAME = {method.name: method for method in METHODS}


class Client:
    """`client.RunEvaluation(message, timeout=…, metadata=…)`; `.last` is what came with the last answer."""

    def __init__(self, channel, key):
        self._channel = channel
        self._key = (("authorization", f"Bearer {key}"),) if key else ()
        self.last = {}

    def __getattr__(self, name):
        if name not in BY_NAME:
            raise AttributeError(name)
        return lambda message=None, **more: self.call(name, message, **more)

    def call(self, name, message=None, *, metadata=(), timeout=PATIENCE, wait=True):
        method = BY_NAME[name]
        kind = self._channel.unary_stream if method.stream else self._channel.unary_unary
        rpc = kind(
            method.path,
            request_serializer=lambda sent: sent if isinstance(sent, bytes) else sent.SerializeToString(),
            response_deserializer=GIVES[name].FromString,
        )
        sent = method.request() if message is None else message
        headers = (*self._key, *metadata)
        if method.stream:
            return rpc(sent, metadata=headers, timeout=timeout)
        if not wait:
            return rpc.future(sent, metadata=headers, timeout=timeout)
        answer, call = rpc.with_call(sent, metadata=headers, timeout=timeout)
        self.last = dict(call.trailing_metadata())
        return answer


@contextlib.contextmanager
def connect(host, key=None, options=(), **key_of):
    """A client with a key of its own; `key=""` has none."""
    with grpc.insecure_channel(f"127.0.0.1:{host.grpc_port}", options=options) as channel:
        yield Client(channel, host.key(**key_of) if key is None else key)


def refusal_of(call, *arguments, **more) -> tuple[grpc.StatusCode, dict[str, Any]]:
    """The status, and the error body in its details."""
    try:
        answer = call(*arguments, **more)
        list(answer) if hasattr(answer, "__iter__") else answer
    except grpc.RpcError as error:
        given: Any = error.trailing_metadata() or ()
        trailers: dict[str, Any] = dict(given)
        (detail,) = Status.FromString(trailers["grpc-status-details-bin"]).details
        body = fep.FepError()
        assert detail.Unpack(body)
        refusal: dict[str, Any] = {"error": body.code, "message": body.message}
        if body.HasField("details"):
            refusal["details"] = plain(MessageToDict(body.details))
        return error.code(), refusal
    raise AssertionError(f"not refused: {answer}")
