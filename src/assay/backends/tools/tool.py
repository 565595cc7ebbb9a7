"""The interface of a live tool."""

from typing import Any, Protocol

from assay.protocol.agents import ToolSpec


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
