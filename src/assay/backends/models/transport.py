"""HTTP transports to providers. A transport sends once and returns the outcome; it does not raise for a failure."""

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from assay.extras import require
from assay.ports import Provider

OPENAI = "https://api.openai.com/v1"
TRANSPORTS = {  # the file, its class, the package that it needs, and the extra that installs it
    "direct": ("transport_direct", "DirectTransport", "httptools", "judges"),
    "aiohttp": ("transport_aiohttp", "AiohttpTransport", "aiohttp", "judges"),
    "openai": ("transport_openai", "OpenAITransport", "openai", "openai-sdk"),
}


class HttpAnswer(msgspec.Struct, frozen=True):
    """The provider's answer, with any status. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class ConnectionLost(msgspec.Struct, frozen=True):
    """The connection was refused, dropped or not established."""

    reason: str


class TimedOut(msgspec.Struct, frozen=True):
    """No complete answer in time."""

    seconds: float


class TooLargeReply(msgspec.Struct, frozen=True):
    """The answer exceeds the limit."""

    limit: int


Outcome = HttpAnswer | ConnectionLost | TimedOut | TooLargeReply


class Transport(Protocol):
    """One pool of connections to one provider, on one event loop."""

    async def send(self, path: str, body: bytes) -> Outcome: ...

    async def close(self) -> None: ...


def open_transport(provider: Provider, *, max_bytes: int) -> Transport:
    return load_transport(provider)(provider, max_bytes)


def load_transport(provider: Provider) -> Callable[[Provider, int], Transport]:
    """The transport of a provider. Behind a proxy, aiohttp replaces the direct one."""
    module, name, package, extra = TRANSPORTS[provider.wire]
    require("a model", extra, package=package)
    if provider.wire == "direct" and proxy_of(provider.base_url or OPENAI) is not None:
        return load_transport(msgspec.structs.replace(provider, wire="aiohttp"))
    return getattr(import_module(f"assay.backends.models.{module}"), name)


def proxy_of(address: str) -> str | None:
    """The environment's proxy for an address (`HTTPS_PROXY`, `NO_PROXY` and the like)."""
    from urllib.request import getproxies, proxy_bypass  # deferred import: it loads all of http and email

    parts = urlsplit(address)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def to_json(body: dict[str, Any]) -> bytes:
    """A request's body. A lone surrogate, which UTF-8 cannot encode, is escaped."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return json.dumps(body).encode()
