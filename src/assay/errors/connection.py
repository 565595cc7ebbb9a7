"""Recognises connection errors of HTTP clients, so that an unreachable service is not an agent's failure (FEP-48)."""

import socket
from typing import cast
from urllib.error import HTTPError, URLError

# By the package and the name of the class, so that no client is imported. A subclass counts too.
CLIENT_ERRORS = frozenset(
    {
        ("aiohttp", "ClientConnectionError"),
        ("anthropic", "APIConnectionError"),
        ("botocore", "ConnectionClosedError"),
        ("botocore", "ConnectionError"),
        ("httpcore", "ConnectError"),
        ("httpcore", "ConnectTimeout"),
        ("httpcore", "NetworkError"),
        ("httpcore", "RemoteProtocolError"),
        ("httpx", "ConnectTimeout"),
        ("httpx", "NetworkError"),
        ("httpx", "RemoteProtocolError"),
        ("openai", "APIConnectionError"),
        ("requests", "ConnectionError"),
        ("urllib3", "ConnectTimeoutError"),
        ("urllib3", "MaxRetryError"),
        ("urllib3", "NewConnectionError"),
        ("urllib3", "ProtocolError"),
    }
)


def is_connection_error(error: BaseException) -> bool:
    """Whether it is a connection error of Python or of a usual HTTP client. A group counts if all of its errors do."""
    if isinstance(error, BaseExceptionGroup):
        errors = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return all(map(is_connection_error, errors))
    if isinstance(error, ConnectionError | socket.gaierror):
        return True
    if isinstance(error, URLError):
        return not isinstance(error, HTTPError) and isinstance(error.reason, OSError)
    return any(
        (kind.__module__.partition(".")[0], kind.__name__) in CLIENT_ERRORS for kind in type(error).__mro__
    )
