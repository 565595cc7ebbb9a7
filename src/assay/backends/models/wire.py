"""How bytes go to a provider and come back. A wire sends once and reports what happened; it never raises for it."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Protocol

import msgspec

from assay.errors import WrongUsage
from assay.ports import Provider

OPENAI = "https://api.openai.com/v1"


class Answer(msgspec.Struct, frozen=True):
    """Whatever the provider answered, of any status. The names of the headers are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Lost(msgspec.Struct, frozen=True):
    """The connection was refused, dropped, or never came to be."""

    why: str


class Late(msgspec.Struct, frozen=True):
    """No whole answer in time."""

    seconds: float


class Flood(msgspec.Struct, frozen=True):
    """The answer went on beyond what we read."""

    limit: int


Outcome = Answer | Lost | Late | Flood


class Wire(Protocol):
    """One pool of connections to one provider, on one event loop."""

    async def send(self, path: str, body: bytes) -> Outcome: ...

    async def close(self) -> None: ...


def open_wire(provider: Provider, *, max_bytes: int) -> Wire:
    need(provider.wire, "judges" if provider.wire == "aiohttp" else "openai-sdk")
    if provider.wire == "aiohttp":
        from assay.backends.models.wire_aiohttp import AiohttpWire

        return AiohttpWire(provider, max_bytes)
    from assay.backends.models.wire_openai import OpenAIWire

    return OpenAIWire(provider, max_bytes)


def to_json(body: dict[str, Any]) -> bytes:
    """A request's body. Half a surrogate pair, which UTF-8 cannot carry, goes out escaped."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return json.dumps(body).encode()


def need(module: str, extra: str) -> None:
    """Refuse early where an extra is not installed: `need("openai", "judges")`."""
    if find_spec(module) is None:
        raise WrongUsage(f"{module} is not installed; pip install 'assay[{extra}]'")
