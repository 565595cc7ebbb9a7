"""The HTTP transport to providers. It sends once and returns the outcome; it does not raise for a failure."""

import json
from collections.abc import Mapping
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlsplit

import msgspec

from assay.ports import Provider

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"
ANTHROPIC_VERSION = "2023-06-01"  # of the protocol


JSON_TYPE = "application/json"


class HttpAnswer(msgspec.Struct, frozen=True):
    """The provider's answer, with any status. Its headers are found by their names in lower case."""

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

    async def send(
        self,
        path: str,
        body: bytes | None,
        *,
        content_type: str = JSON_TYPE,
        into: BinaryIO | None = None,
    ) -> Outcome:
        """Post a body; without one, get. `into`: a file whose content becomes the body of a good answer."""
        ...

    async def close(self) -> None: ...


def base_url(provider: Provider) -> str:
    """The address of a provider, up to `/v1`."""
    return (provider.base_url or (ANTHROPIC if provider.kind == "anthropic" else OPENAI)).rstrip("/")


def credentials(provider: Provider) -> dict[str, str]:
    """The headers of a request that its protocol demands."""
    key = provider.api_key.reveal() if provider.api_key else ""
    if provider.kind == "anthropic":
        return {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": key} if key else {})
    return {"Authorization": f"Bearer {key}"} if key else {}


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
