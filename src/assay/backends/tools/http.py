"""A tool behind a URL. Arguments are JSON, or the query of a GET; the answer is JSON or text."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp  # an extra: `from_settings.py` imports this file on demand
import msgspec

from assay.backends.models.key_scrubbing import HiddenWords
from assay.client_tls import client_context
from assay.ports.agents import ToolFailure
from assay.ports.config import ToolConfig
from assay.ports.telemetry import propagation_headers
from assay.protocol.agents import ToolSpec

BODY = 16 * 1024 * 1024
LOOKED = 4_000  # bytes of a failure's body that are looked at
SAID = 300
CODES = {
    401: "forbidden",
    403: "forbidden",
    429: "rate_limited",
    400: "invalid_arguments",
    422: "invalid_arguments",
}


class Sessions:
    """One connection pool per event loop for all HTTP tools."""

    def __init__(self) -> None:
        self._open: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    def current_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._open.get(loop)
        if session is None:
            for old in [other for other in self._open if other.is_closed()]:
                del self._open[old]
            session = self._open[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=client_context()), cookie_jar=aiohttp.DummyCookieJar()
            )
        return session

    async def close(self) -> None:
        session = self._open.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()


class HttpTool:
    def __init__(self, id: str, config: ToolConfig, sessions: Sessions, headers: Mapping[str, str]) -> None:
        self._config, self._sessions, self._headers = config, sessions, headers
        self._redactor = HiddenWords(headers)
        self.static_spec = ToolSpec(
            id=id,
            description=config.description,
            input_schema=config.input_schema or {},
            transport="http",
        )

    async def spec(self) -> ToolSpec:
        return self.static_spec

    async def call(self, arguments: dict[str, Any]) -> Any:
        declared = self._config
        how: dict[str, Any] = (
            {"json": arguments} if declared.method == "POST" else {"params": _query(arguments)}
        )
        try:
            async with (
                asyncio.timeout(declared.timeout),
                self._sessions.current_session().request(
                    declared.method,
                    declared.target,
                    headers={**self._headers, **propagation_headers()},
                    allow_redirects=False,
                    **how,
                ) as response,
            ):
                body = await response.content.read(BODY)
                if not response.content.at_eof():
                    raise ToolFailure("tool_error", f"it answered with more than {BODY} bytes")
        except TimeoutError:
            raise ToolFailure("timeout", f"no answer within {declared.timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as lost:
            raise ToolFailure("tool_error", f"could not be reached: {type(lost).__name__}") from None
        if not 200 <= response.status < 300:
            body_start = self._redactor.out_of(body[:LOOKED].decode(errors="replace"))[:SAID]
            raise ToolFailure(
                CODES.get(response.status, "tool_error"), f"answered {response.status}: {body_start}"
            )
        return self._redactor.out_of(_read(body))


def _read(body: bytes) -> Any:
    if not body:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")


def _query(arguments: dict[str, Any]) -> dict[str, str]:
    return {
        name: one if isinstance(one, str) else msgspec.json.encode(one).decode()
        for name, one in arguments.items()
    }
