"""The MCP SDK, versions 1 and 2: what has another name, unit or form in each of them is here."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import Any, cast

import mcp  # an extra: `from_settings.py` imports `mcp.py` on demand
from mcp.client import streamable_http

from assay.client_tls import client_context

_sdk, _streams = cast("Any", mcp), cast("Any", streamable_http)
IS_FIRST = hasattr(_sdk, "McpError")  # `FastMCP` is `MCPServer` in version 2
McpError: type[Exception] = _sdk.McpError if IS_FIRST else _sdk.MCPError
CONNECTION_CLOSED: int = import_module("mcp.types").CONNECTION_CLOSED
REQUEST_TIMEOUT = 408 if IS_FIRST else -32001  # the code of an answer that did not come in time


def member(document: Any, name: str) -> Any:
    """A member of a message: `inputSchema` in version 1, `input_schema` in version 2."""
    if IS_FIRST:
        first, *others = name.split("_")
        name = first + "".join(map(str.capitalize, others))
    return getattr(document, name)


def read_timeout(seconds: float) -> Any:
    return timedelta(seconds=seconds) if IS_FIRST else seconds


@asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], seconds: float
) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams of a session over HTTP; an event stream may be silent ten times as long as a request."""
    if not hasattr(_streams, "streamable_http_client"):  # before 1.24
        older = _streams.streamablehttp_client(
            url,
            headers=dict(headers),
            timeout=seconds,
            sse_read_timeout=seconds * 10,
            httpx_client_factory=partial(
                import_module("httpx").AsyncClient, verify=client_context(), follow_redirects=True
            ),
        )
        async with older as (read, write, _):
            yield read, write
        return
    http = import_module("httpx" if IS_FIRST else "httpx2")  # comes with the SDK
    limit = http.Timeout(seconds, read=seconds * 10)
    async with (
        http.AsyncClient(headers=dict(headers), timeout=limit, verify=client_context()) as client,
        _streams.streamable_http_client(url, http_client=client) as (read, write, *_),
    ):
        yield read, write
