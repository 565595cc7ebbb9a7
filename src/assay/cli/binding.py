"""Where a server listens: on this machine alone, or on a network, with TLS or expressly without."""

import ipaddress
import socket
from typing import NamedTuple

from assay.errors import EnvironmentFailure, UsageError
from assay.serve.web.tls import Tls


class Binding(NamedTuple):
    """A socket that listens, and how it is reached."""

    listening: socket.socket
    host: str  # as it stands in an address
    address: str

    def grpc(self, port: int) -> str:
        """How gRPC beside it is reached."""
        return f"{'grpcs' if self.address.startswith('https') else 'grpc'}://{self.host}:{port}"


def listen(host: str, port: int, tls: Tls | None, *, insecure: bool = False) -> Binding:
    """Before anything is opened. Keys and contents do not cross a network in clear unless somebody wants it so."""
    try:
        family, _, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise UsageError(f"--host: {host!r} is no address of this machine") from None
    number = str(where[0])
    if tls is None and not insecure and not ipaddress.ip_address(number.partition("%")[0]).is_loopback:
        raise UsageError(
            f"--host {host} can be reached from a network, and without TLS keys, tokens and all that is evaluated would "
            "cross it in clear: give --tls-cert and --tls-key, or --insecure where something in front of it speaks TLS"
        )
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(where)
        listening.listen(2048)
    except OSError as wrong:
        listening.close()
        raise EnvironmentFailure(
            f"port {port} of {host} cannot be used: {wrong.strerror}; --port 0 takes any that is free"
        ) from None
    named = f"[{number}]" if family == socket.AF_INET6 else number
    scheme = "http" if tls is None else "https"
    return Binding(listening, named, f"{scheme}://{named}:{listening.getsockname()[1]}")
