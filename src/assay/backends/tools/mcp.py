"""Tools of an MCP server, through the official SDK: a process, or a URL (streamable HTTP)."""

import asyncio
import os
import shlex
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import mcp  # an extra: `from_settings.py` imports this file on demand
from anyio import ClosedResourceError
from mcp import types
from mcp.client.stdio import stdio_client

from assay.backends.models.key_scrubbing import HiddenWords
from assay.backends.tools.mcp_sdk import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    McpError,
    http_streams,
    member,
    read_timeout,
)
from assay.errors import ForeignFault
from assay.ports.agents import ToolFailure
from assay.ports.config import McpServer
from assay.ports.telemetry import propagation_headers
from assay.protocol.agents import ToolSpec

SAID = 300


class Session:
    """
    An open session.

    One task opens, holds and closes it: the task group of the SDK must be left by the task that entered it, and calls
    come from anywhere.
    """

    def __init__(self, server: McpServer, headers: Mapping[str, str], env: Mapping[str, str]) -> None:
        self._server, self._headers, self._env = server, headers, env
        self._leave = asyncio.Event()
        self._ready: asyncio.Future[mcp.ClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())
        self.tools: dict[str, types.Tool] = {}

    async def wait_ready(self) -> mcp.ClientSession:
        return await asyncio.shield(self._ready)

    @property
    def over(self) -> bool:
        return self._task.done()

    async def close(self) -> None:
        self._leave.set()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([self._task])

    async def _hold(self) -> None:
        try:
            async with self._streams() as (read, write), mcp.ClientSession(read, write) as session:
                async with asyncio.timeout(self._server.timeout):
                    await session.initialize()
                    self.tools = {tool.name: tool for tool in await _all_tools(session)}
                self._ready.set_result(session)
                await self._leave.wait()
        except BaseException as lost:  # noqa: BLE001  # a server is foreign, and so is what the SDK raises of it
            if not self._ready.done():
                self._ready.set_exception(
                    ForeignFault(f"the MCP server {_error_message(lost)}", recoverable=True)
                )
                self._ready.exception()  # there may be no caller

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[Any, Any]]:
        server = self._server
        if server.url is not None:
            async with http_streams(server.url, self._headers, server.timeout) as (read, write):
                yield read, write
            return
        command, *arguments = shlex.split(server.command or "")
        parameters = mcp.StdioServerParameters(
            command=command, args=arguments, env={**os.environ, **self._env}
        )
        with open(os.devnull, "w") as nowhere:  # noqa: ASYNC230  # what it logs is content, and is not ours to keep
            async with stdio_client(parameters, errlog=nowhere) as (read, write):
                yield read, write


class McpTools:
    """The tools of one server. Each event loop has a session, opened on demand and again after a loss."""

    def __init__(
        self, name: str, server: McpServer, headers: Mapping[str, str], env: Mapping[str, str]
    ) -> None:
        self.name, self._server, self._headers, self._env = name, server, headers, env
        self._redactor = HiddenWords(headers, env)
        self._sessions: dict[asyncio.AbstractEventLoop, Session] = {}

    async def spec(self, tool: str, id: str) -> ToolSpec | None:
        session = self._session()
        await session.wait_ready()
        found = session.tools.get(tool)
        if found is None:
            return None
        schema = member(found, "input_schema")
        return ToolSpec(id=id, description=found.description or "", input_schema=schema, transport="mcp")

    async def call(self, tool: str, arguments: dict[str, Any], seconds: float) -> Any:
        for again in (True, False):
            try:
                return await self._call(tool, arguments, seconds)
            except ClosedResourceError:  # the server left since the last call, and was not asked: another is
                if not again:
                    raise ToolFailure(
                        "tool_error", "the MCP server closed the connection before the call"
                    ) from None
        raise AssertionError("the second try returns or raises")

    async def _call(self, tool: str, arguments: dict[str, Any], seconds: float) -> Any:
        held = self._session()
        try:
            session = await held.wait_ready()
            if tool not in held.tools:
                raise ToolFailure("unknown_tool", f"the MCP server {self.name!r} has no tool {tool!r}")
            async with asyncio.timeout(seconds + 1):
                answer = await session.call_tool(
                    tool,
                    arguments,
                    read_timeout_seconds=read_timeout(seconds),
                    meta=cast("Any", propagation_headers() or None),
                )
        except (ToolFailure, asyncio.CancelledError):
            raise
        except TimeoutError:
            raise ToolFailure("timeout", f"no answer within {seconds:g} s") from None
        except McpError as failure:
            error: types.ErrorData = cast("Any", failure).error
            if error.code == CONNECTION_CLOSED:
                await self._drop(held)
            code = "timeout" if error.code == REQUEST_TIMEOUT else "tool_error"
            raise ToolFailure(code, self._redactor.out_of(error.message)[:SAID]) from None
        except ClosedResourceError:
            await self._drop(held)
            raise
        except Exception as lost:  # noqa: BLE001  # a server is foreign, and so is what the SDK raises of it
            await self._drop(held)
            raise ToolFailure(
                "tool_error", self._redactor.out_of(f"the MCP server {_error_message(lost)}")
            ) from None
        return self._redactor.out_of(_read(answer, self._redactor))

    async def close(self) -> None:
        held = self._sessions.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held.close()

    def _session(self) -> Session:
        loop = asyncio.get_running_loop()
        held = self._sessions.get(loop)
        if held is None or held.over:
            for old in [other for other in self._sessions if other.is_closed()]:
                del self._sessions[old]
            held = self._sessions[loop] = Session(self._server, self._headers, self._env)
        return held

    async def _drop(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        if self._sessions.get(loop) is session:
            del self._sessions[loop]
        await session.close()


class McpTool:
    """One tool of a server."""

    def __init__(
        self, id: str, name: str, server: McpTools, seconds: float, spec: ToolSpec | None = None
    ) -> None:
        self._id, self._name, self._server, self._seconds = id, name, server, seconds
        self.static_spec = spec or ToolSpec(id=id, transport="mcp")

    async def spec(self) -> ToolSpec:
        found = await self._server.spec(self._name, self._id)
        if found is None:
            raise ForeignFault(f"the MCP server {self._server.name!r} has no tool {self._name!r}")
        return ToolSpec(
            id=self._id,
            description=self.static_spec.description or found.description,
            input_schema=self.static_spec.input_schema or found.input_schema,
            transport="mcp",
        )

    async def call(self, arguments: dict[str, Any]) -> Any:
        return await self._server.call(self._name, arguments, self._seconds)


async def _all_tools(session: mcp.ClientSession) -> list[types.Tool]:
    tools: list[types.Tool] = []
    cursor: str | None = None
    while True:
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = member(page, "next_cursor")
        if not cursor:
            return tools


def _read(answer: types.CallToolResult, redactor: HiddenWords) -> Any:
    """The structured content; else the only text; else all parts."""
    texts = [part.text for part in answer.content if isinstance(part, types.TextContent)]
    if member(answer, "is_error"):
        message = redactor.out_of("\n".join(texts))[:SAID]
        raise ToolFailure("tool_error", message or "the tool failed without a message")
    structure = member(answer, "structured_content")
    if structure is not None:
        return structure["result"] if list(structure) == ["result"] else structure
    if len(texts) == len(answer.content):
        return texts[0] if len(texts) == 1 else texts
    return [part.model_dump(mode="json", exclude_none=True) for part in answer.content]


def _error_message(error: BaseException) -> str:
    """The first cause in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    detail = f": {error}"[:SAID] if str(error) else ""
    return f"could not be used: {type(error).__name__}{detail}"
