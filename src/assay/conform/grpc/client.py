"""
A gRPC client for a host that nobody trusts.

It speaks to one address alone, uses no proxy and repeats no call. A call has a time limit from its start to its last
message, and a limit on the bytes of its answer.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from typing import Any, cast

import grpc
from google.protobuf.message import DecodeError

from assay.client_tls import client_context
from assay.conform.check import RpcAnswer
from assay.conform.grpc.messages import RPCS
from assay.conform.http_client import MAX_BYTES, RATE, TIMEOUT, Unanswered
from assay.conform.json_values import Document
from assay.conform.pace import Pace
from assay.errors import UsageError

ADDRESS = re.compile(r"(?:(grpcs?)://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_BYTES),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),
]


class GrpcClient:
    """Calls of one address, at most `rate` of them a second. Threads may share a client."""

    def __init__(self, address: str, *, timeout: float = TIMEOUT, rate: float = RATE) -> None:
        parts = ADDRESS.fullmatch(address)
        if parts is None or int(parts[3]) > 65_535:
            raise UsageError(f"--grpc {address!r}: expected HOST:PORT, or grpcs://HOST:PORT with TLS")
        self.address, self._timeout, self._pace = address, timeout, Pace(rate)
        target = f"dns:///{parts[2]}:{parts[3]}"
        if parts[1] == "grpcs":
            self._channel = grpc.secure_channel(target, _credentials(), OPTIONS)
        else:
            self._channel = grpc.insecure_channel(target, OPTIONS)
        self._connected = False

    def call(self, method: str, request: Document | bytes, metadata: Mapping[str, str]) -> RpcAnswer:
        """
        The answer to a call.

        Unanswered: there is none. ValueError: the answer is no message of this method.
        """
        self._pace.wait()
        rpc = RPCS[method]
        sent = request if isinstance(request, bytes) else rpc.encode(request).SerializeToString()
        stream = self._begin(rpc.path, sent, metadata)
        received: list[bytes] = []
        size = 0
        try:
            for message in stream:
                received.append(message)
                size += len(message) + 1
                if size > MAX_BYTES:
                    stream.cancel()
                    raise Unanswered(f"{method}: the answer has more than {MAX_BYTES} bytes")
        except grpc.RpcError:
            self._raise_unanswered(method, stream)
        self._connected = True
        try:
            documents = [rpc.decode(rpc.answer.FromString(message)) for message in received]
        except DecodeError as wrong:
            raise ValueError(
                f"{method}: expected a message {rpc.answer.DESCRIPTOR.full_name}: {wrong}"
            ) from None
        return RpcAnswer(
            stream.code().name,
            stream.details() or "",
            documents,
            _texts(stream.initial_metadata()) | _texts(stream.trailing_metadata()),
        )

    def _begin(self, path: str, sent: bytes, metadata: Mapping[str, str]) -> Any:
        """A call with bytes, whose answers are bytes. One message or a stream of them are alike on the wire."""
        begin = cast("Callable[..., Any]", self._channel.unary_stream(path))
        return begin(sent, timeout=self._timeout, metadata=tuple(metadata.items()))

    def close(self) -> None:
        self._channel.close()

    def _raise_unanswered(self, method: str, stream: Any) -> None:
        if stream.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise Unanswered(f"{method}: no end after {self._timeout:g} seconds") from None
        if stream.code() is grpc.StatusCode.UNAVAILABLE:
            raise Unanswered(f"{self.address}: {stream.details()}", connected=self._connected) from None


def _texts(metadata: Any) -> dict[str, str]:
    pairs: list[tuple[str, str | bytes]] = list(metadata or ())
    return {name: value if isinstance(value, str) else value.decode("latin-1") for name, value in pairs}


def _credentials() -> grpc.ChannelCredentials:
    """TLS with the certificates that assay trusts. Of a folder of the system gRPC reads its own copy."""
    trusted = client_context().get_ca_certs(binary_form=True)
    roots = "".join(map(ssl.DER_cert_to_PEM_cert, trusted)).encode()
    return grpc.ssl_channel_credentials(roots or None)
