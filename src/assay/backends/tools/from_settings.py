"""The tools of the settings: `[tools."<scope>:<id>"]` and `[mcp.NAME]`, each created when it is first used."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from assay.backends.provider_config import InvalidProviderConfig, expand
from assay.backends.tools.python import PythonTool
from assay.errors import UsageError
from assay.extras import require
from assay.ports.agents import ToolFailure
from assay.ports.config import McpServer, ToolConfig
from assay.protocol.agents import ToolSpec

# The interface of a live tool.


class Tool(Protocol):
    """One live tool. Every failure is a ToolFailure."""

    @property
    def static_spec(self) -> ToolSpec:
        """The spec that is known without a connection."""
        ...

    async def spec(self) -> ToolSpec:
        """The complete spec; a ForeignFault if the tool is unreachable."""
        ...

    async def call(self, arguments: dict[str, Any]) -> Any: ...


class ConfiguredTools:
    """
    Live tools by their ids.

    A tool of `[mcp.shop]` is `shop:<tool>` without further words; `[tools]` may give it another id.
    """

    def __init__(
        self,
        tools: Mapping[str, ToolConfig],
        servers: Mapping[str, McpServer],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._configs, self._declared_servers = tools, servers
        self._environment = os.environ if environment is None else environment
        self._tools: dict[str, Tool] = {}
        self._closing: list[Any] = []
        self._servers: dict[str, Any] = {}
        self._sessions: Any = None

    def static_specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return [tool.static_spec for tool in map(self._tool, tools) if tool is not None]

    async def specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        return [await tool.spec() for tool in map(self._tool, tools) if tool is not None]

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        found = self._tool(tool)
        if found is None:
            there = [*self._configs, *(f"{name}:…" for name in self._declared_servers)]
            raise ToolFailure("unknown_tool", f"no tool {tool}; there are {', '.join(there) or 'none'}")
        return await found.call(arguments)

    def has(self, tool: str) -> bool:
        """Whether the tool, or its MCP server, is configured."""
        return tool in self._configs or tool.partition(":")[0] in self._declared_servers

    async def close(self) -> None:
        for one in self._closing:
            await one.close()

    def _tool(self, id: str) -> Tool | None:
        tool = self._tools.get(id)
        if tool is None and self.has(id):
            tool = self._tools[id] = self._make(id)
        return tool

    def _make(self, id: str) -> Tool:
        declared = self._configs.get(id)
        if declared is None:
            name, _, tool = id.partition(":")
            return self._mcp(id, name, tool, None)
        if declared.kind == "python":
            return PythonTool(id, declared)
        if declared.kind == "mcp":
            if declared.server is None or declared.server not in self._declared_servers:
                there = ", ".join(self._declared_servers) or "none"
                raise UsageError(
                    f"settings: tools.{id!r}.server: expected a server of [mcp]; there are {there}"
                )
            return self._mcp(id, declared.server, declared.target, declared)
        require(f"settings: tools.{id!r}: an HTTP tool", "agents", package="aiohttp")
        from assay.backends.tools.http import HttpTool, Sessions  # deferred import

        if self._sessions is None:
            self._sessions = Sessions()
            self._closing.append(self._sessions)
        return HttpTool(
            id, declared, self._sessions, self._expand_table(declared.headers, f"tools.{id!r}.headers")
        )

    def _mcp(self, id: str, name: str, tool: str, config: ToolConfig | None) -> Tool:
        require(f"settings: mcp.{name}: an MCP server", "agents", package="mcp")
        from assay.backends.tools.mcp import McpTool, McpTools  # deferred import: half a second

        server = self._declared_servers[name]
        if name not in self._servers:
            if (server.command is None) == (server.url is None):
                raise UsageError(f"settings: mcp.{name}: expected exactly one of command and url")
            headers, env = (
                self._expand_table(table, f"mcp.{name}.{what}")
                for what, table in (("headers", server.headers), ("env", server.env))
            )
            self._servers[name] = McpTools(name, server, headers, env)
            self._closing.append(self._servers[name])
        spec = config and ToolSpec(
            id=id,
            description=config.description,
            input_schema=config.input_schema or {},
            transport="mcp",
        )
        return McpTool(id, tool, self._servers[name], config.timeout if config else server.timeout, spec)

    def _expand_table(self, table: Mapping[str, str], path: str) -> dict[str, str]:
        """Expand `${VARIABLES}` when it is first used."""
        try:
            return {name: expand(text, self._environment, name) for name, text in table.items()}
        except InvalidProviderConfig as wrong:
            raise UsageError(f"settings: {path}.{wrong.member}: {wrong}") from None
